//! `ip4-fragment`: cuts a packet that is too big for its next hop (RFC 791 section 3.2, RFC 1812 section 5.2.6).
//!
//! | edge | packets |
//! |---|---|
//! | *arc `interface-output`* | all fragments, by the interface of the next hop |
//! | `drop` | see [`Drop`] |
//!
//! Each fragment has a header of its own; the payload stays where it is and is shared by all of them. Fragments are cut
//! again the same way.

use super::cut::{HeaderBytes, pieces};
use crate::ip::{Lane, NextHops, has_headroom};
use core::fmt;
use graph::arc::{ArcPlace, Arcs};
use graph::checksum;
use graph::nodes::INTERFACE_OUTPUT;
use graph::packet::{Flags, HEAD_AREA, Meta, Offload, Packets, SlotId};
use graph::publish::Key;
use graph::{Ctx, Frame, Node, NodeContext, NodeSpec};
use wire::ipv4::{Ipv4Flags, Ipv4Header};

graph::edges! {
    /// Where packets go besides the arc.
    enum Next {
        Drop => "drop",
    }
}

graph::drops! {
    /// Why a packet can't be cut.
    enum Drop {
        /// The MTU of the next hop has no room for a header and 8 bytes.
        MtuTooSmall => "mtu-too-small", Error,
        /// All packet slots of the worker are in use.
        NoSlot => "no-slot", Warning,
        /// The header isn't whole, or there is no room before it.
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
}

fn make(cx: &NodeContext<'_>) -> Box<dyn Node> {
    Box::new(Fragment { hops: cx.table(), arcs: cx.table(), place: cx.arc(INTERFACE_OUTPUT) })
}

impl Node for Fragment {
    fn process(&mut self, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>) {
        let tables = ctx.tables;
        let (hops, arcs) = (tables.get(self.hops), tables.get(self.arcs));
        frame.each(|slot| {
            let lane = Lane::new(hops, arcs, self.place, ctx.packets.meta(slot).next_hop);
            match cut(ctx, slot, &lane) {
                Ok(()) => lane.edge,
                Err(reason) => ctx.drop(slot, reason),
            }
        });
    }

    fn trace(&self, packets: &Packets, slot: SlotId, out: &mut dyn fmt::Write) -> fmt::Result {
        let meta = packets.meta(slot);
        match packets.header::<Ipv4Header>(slot, meta.l3) {
            Some(header) => write!(out, "last fragment from byte {}", header.fragment_offset()),
            None => Ok(()),
        }
    }
}

/// Cuts the packet. All fragments but the last are sent from here; `slot` becomes the last one.
fn cut(ctx: &mut Ctx<'_>, slot: SlotId, lane: &Lane<'_>) -> Result<(), Drop> {
    if lane.mtu == 0 {
        return Err(Drop::InterfaceDown);
    }
    if !has_headroom(ctx.packets.meta(slot)) {
        return Err(Drop::BadPacket);
    }
    checksum::complete(ctx.packets, slot).map_err(|_| Drop::BadPacket)?;
    let (meta, area) = ctx.packets.parts_mut(slot);
    if !crate::ip4::forward(meta, area) {
        return Err(Drop::BadPacket);
    }
    let whole = *meta;
    let area = *area;
    let head = area.get(whole.data as usize..whole.end as usize).unwrap_or_default();
    let mut header = HeaderBytes::first(head).ok_or(Drop::BadPacket)?;
    let (payload_head, base, more) = {
        let fixed = ctx.packets.header::<Ipv4Header>(slot, whole.data).ok_or(Drop::BadPacket)?;
        let more = fixed.flags().contains(Ipv4Flags::MORE_FRAGMENTS);
        (&head[header.len()..], fixed.fragment_offset(), more)
    };
    let payload = payload_head.len() + whole.body_len() as usize;
    let mtu = lane.mtu as usize;
    let mut later = header.later();
    let room = (mtu.saturating_sub(header.len()), mtu.saturating_sub(later.len()));
    let count = pieces(payload, room.0, room.1).ok_or(Drop::MtuTooSmall)?.count();
    if count > ctx.packets.free() + 1 {
        return Err(Drop::NoSlot);
    }
    let all = pieces(payload, room.0, room.1).ok_or(Drop::MtuTooSmall)?;
    for (from, to) in all {
        let last = to == payload;
        let target = if last { slot } else { ctx.packets.take(whole.rx_if).map_err(|_| Drop::NoSlot)? };
        let bytes = if from == 0 { &mut header } else { &mut later };
        let bytes = bytes.of_fragment(base + from, to - from, more || !last);
        let in_head = payload_head.get(from..to.min(payload_head.len())).unwrap_or_default();
        write_head(ctx.packets, target, &whole, bytes, in_head);
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

/// Writes a fragment's header and the part of its payload that lies in the head, where the whole packet's header lay,
/// and what else is known of the whole packet.
pub(super) fn write_head(packets: &mut Packets, target: SlotId, whole: &Meta, header: &[u8], payload: &[u8]) {
    let (meta, area) = packets.parts_mut(target);
    let start = whole.data as usize;
    let middle = start + header.len();
    let end = middle + payload.len();
    if let Some(room) = area.get_mut(start..end) {
        let (first, second) = room.split_at_mut(header.len());
        first.copy_from_slice(header);
        second.copy_from_slice(payload);
    }
    let mut flags = whole.flags;
    flags.clear(Flags::PRIVATE_BODY);
    (meta.data, meta.end, meta.l2, meta.l3) = (whole.data, end.min(HEAD_AREA) as u16, whole.data, whole.data);
    meta.l4 = 0;
    (meta.table, meta.next_hop, meta.flow_hash) = (whole.table, whole.next_hop, whole.flow_hash);
    (meta.flags, meta.offload, meta.trace) = (flags, Offload::default(), whole.trace);
}

/// The node's declaration.
pub const NODE: NodeSpec = NodeSpec {
    name: "ip4-fragment",
    help: "Cuts IPv4 packets that are too big for their next hop.",
    edges: Next::NAMES,
    drops: Drop::SPECS,
    counters: Counter::SPECS,
    starts: &[INTERFACE_OUTPUT],
    make,
    ..NodeSpec::EMPTY
};
