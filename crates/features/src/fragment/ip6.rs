//! `ip6-fragment`: cuts a packet of our own that is too big for its next hop (RFC 8200 section 4.5). Packets of others
//! are never cut: their senders are told ("packet too big").
//!
//! | edge | packets |
//! |---|---|
//! | *arc `interface-output`* of the next hop's interface | all fragments |
//! | `drop` | see [`Drop`] |
//!
//! Each fragment has headers of its own; the payload stays where it is and is shared by all of them.

use super::cut::pieces;
use super::ip4::write_head;
use crate::ip::{Lane, NextHops, has_headroom};
use core::fmt;
use core::hash::BuildHasher;
use graph::arc::{ArcPlace, Arcs};
use graph::nodes::INTERFACE_OUTPUT;
use graph::packet::Packets;
use graph::packet::SlotId;
use graph::publish::Key;
use graph::{Ctx, Frame, Node, NodeContext, NodeSpec};
use std::hash::RandomState;
use wire::ipv6::{FragmentHeader, Ipv6Header, walk};
use wire::{Header, IntoBytes, IpProtocol, U16};

graph::edges! {
    /// Where packets go besides the arc.
    enum Next {
        Drop => "drop",
    }
}

graph::drops! {
    /// Why a packet can't be cut.
    enum Drop {
        /// The MTU of the next hop has no room for headers and 8 bytes.
        MtuTooSmall => "mtu-too-small", Error,
        /// All packet slots of the worker are in use.
        NoSlot => "no-slot", Warning,
        /// The header isn't whole, has extension headers already, or there is no room before it.
        BadPacket => "bad-packet", Error,
        /// The interface to leave by is down.
        InterfaceDown => "interface-down", Warning,
    }
}

graph::counters! {
    /// What is counted.
    enum Counter {
        /// Packets that were cut.
        Fragmented => "fragmented",
        /// Fragments made of them.
        Fragments => "fragments",
    }
}

struct Fragment {
    hops: Key<NextHops>,
    arcs: Key<Arcs>,
    place: ArcPlace,
    ids: Identifications,
}

/// Identifications of packets: they count up, from a place of each source and destination's own that nobody else can guess
/// (RFC 7739 section 5.3).
struct Identifications {
    secret: RandomState,
    count: u32,
}

impl Identifications {
    fn next(&mut self, header: &Ipv6Header) -> u32 {
        self.count = self.count.wrapping_add(1);
        let place = self.secret.hash_one((header.src(), header.dst()));
        (place as u32).wrapping_add(self.count)
    }
}

fn make(cx: &NodeContext<'_>) -> Box<dyn Node> {
    let ids = Identifications { secret: RandomState::new(), count: 0 };
    Box::new(Fragment { hops: cx.table(), arcs: cx.table(), place: cx.arc(INTERFACE_OUTPUT), ids })
}

impl Node for Fragment {
    fn process(&mut self, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>) {
        let tables = ctx.tables;
        let (hops, arcs) = (tables.get(self.hops), tables.get(self.arcs));
        frame.each(|slot| {
            let lane = Lane::new(hops, arcs, self.place, ctx.packets.meta(slot).next_hop);
            match cut(ctx, slot, &lane, &mut self.ids) {
                Ok(()) => lane.edge,
                Err(reason) => ctx.drop(slot, reason),
            }
        });
    }

    fn trace(&self, packets: &Packets, slot: SlotId, out: &mut dyn fmt::Write) -> fmt::Result {
        let head = packets.area(slot).get(packets.meta(slot).l3 as usize..packets.meta(slot).end as usize);
        match walk(head.unwrap_or_default()).ok().and_then(|upper| upper.fragment) {
            Some(fragment) => write!(out, "last fragment from byte {}", fragment.offset()),
            None => Ok(()),
        }
    }
}

/// Bytes of a fragment's headers.
const HEADERS: usize = Ipv6Header::LEN + FragmentHeader::LEN;

/// Cuts the packet. All fragments but the last are sent from here; `slot` becomes the last one.
fn cut(ctx: &mut Ctx<'_>, slot: SlotId, lane: &Lane<'_>, ids: &mut Identifications) -> Result<(), Drop> {
    if lane.mtu == 0 {
        return Err(Drop::InterfaceDown);
    }
    let whole = *ctx.packets.meta(slot);
    if !has_headroom(&whole) {
        return Err(Drop::BadPacket);
    }
    let area = *ctx.packets.area(slot);
    let head = area.get(whole.data as usize..whole.end as usize).unwrap_or_default();
    let (header, payload_head) = Ipv6Header::parse(head).map_err(|_| Drop::BadPacket)?;
    // What is made here has no extension headers; which of them would have to be in every fragment need not be known.
    let protocol = header.next_header;
    if protocol.is_extension() {
        return Err(Drop::BadPacket);
    }
    let payload = payload_head.len() + whole.body_len() as usize;
    let room = (lane.mtu as usize).saturating_sub(HEADERS);
    let all = || pieces(payload, room, room).ok_or(Drop::MtuTooSmall);
    let count = all()?.count();
    if count > ctx.packets.free() + 1 {
        return Err(Drop::NoSlot);
    }
    let id = ids.next(header);
    for (from, to) in all()? {
        let last = to == payload;
        let target = if last { slot } else { ctx.packets.take(whole.rx_if).map_err(|_| Drop::NoSlot)? };
        let headers = headers(header, protocol, (from, to), !last, id);
        let in_head = payload_head.get(from..to.min(payload_head.len())).unwrap_or_default();
        write_head(ctx.packets, target, &whole, &headers, in_head);
        let body = (from.max(payload_head.len()) - payload_head.len(), (to - from) - in_head.len());
        ctx.packets.share_body(slot, target, body.0 as u32, body.1 as u32);
        let (meta, area) = ctx.packets.parts_mut(target);
        if !lane.send(meta, area) {
            return Err(Drop::BadPacket);
        }
        if !last {
            ctx.emit(lane.edge, target);
        }
    }
    ctx.count(Counter::Fragmented, 1);
    ctx.count(Counter::Fragments, count as u64);
    Ok(())
}

/// The headers of the fragment with bytes `from..to` of the payload.
fn headers(
    whole: &Ipv6Header,
    protocol: IpProtocol,
    (from, to): (usize, usize),
    more: bool,
    id: u32,
) -> [u8; HEADERS] {
    let len = U16::new((FragmentHeader::LEN + to - from) as u16);
    let ip = Ipv6Header { next_header: IpProtocol::FRAGMENT, payload_len: len, ..*whole };
    let fragment = FragmentHeader::new(protocol, from, more, id);
    let mut bytes = [0; HEADERS];
    let (first, second) = bytes.split_at_mut(Ipv6Header::LEN);
    first.copy_from_slice(ip.as_bytes());
    second.copy_from_slice(fragment.as_bytes());
    bytes
}

/// The node's declaration.
pub const NODE: NodeSpec = NodeSpec {
    name: "ip6-fragment",
    help: "Cuts IPv6 packets of our own that are too big for their next hop.",
    edges: Next::NAMES,
    drops: Drop::SPECS,
    counters: Counter::SPECS,
    starts: &[INTERFACE_OUTPUT],
    make,
    ..NodeSpec::EMPTY
};
