//! `ip4-input`: what RFC 1812 section 5.2.2 asks of a router before it believes an IPv4 header.
//!
//! | edge | packets |
//! |---|---|
//! | *arc `ip4-unicast`* | unicast, cut to the length that the header says, with the VRF of their interface |
//! | `ip4-local` | broadcasts and link-local groups |
//! | `icmp4-error` | broken options |
//! | `drop` | see [`Drop`] |
//!
//! The time to live is looked at when the packet is forwarded.
//!
//! Options cost a packet the fast path and nothing else: record route and timestamp pass unfilled, source routes are
//! refused (RFC 7126 section 4.3).

use super::quick;
use crate::icmp::request_v4;
use crate::interface::Interfaces;
use crate::ip::Arrival;
use crate::tiered::{self, Tiered};
use core::fmt;
use graph::arc::{ArcPlace, Arcs};
use graph::packet::{Flags, Packets, SlotId, Vector};
use graph::publish::Key;
use graph::simd::Simd;
use graph::{Attach, Ctx, Frame, Node, NodeContext, NodeSpec};
use wire::describe::Describe;
use wire::ipv4::{Ipv4Class, Ipv4Header, Ipv4Kind, Ipv4Reason};
use wire::{EtherType, Header, Icmpv4Error, LinkType};

graph::edges! {
    /// Where packets go besides the arc.
    enum Next {
        Drop => "drop",
        Local => "ip4-local",
        IcmpError => "icmp4-error",
    }
}

graph::drops! {
    /// Why an IPv4 packet isn't believed.
    enum Drop {
        /// The packet is shorter than its header.
        TooShort => "too-short", Error,
        /// The version field is not 4.
        BadVersion => "bad-version", Error,
        /// The header length field is below five words.
        BadHeaderLength => "bad-header-length", Error,
        /// The total length is below the header's or above what arrived.
        BadTotalLength => "bad-total-length", Error,
        /// The header checksum is wrong.
        BadChecksum => "bad-checksum", Error,
        /// The source address must not occur on a wire (RFC 1812 section 5.3.7).
        MartianSource => "martian-source", Warning,
        /// The destination address must not occur on a wire (RFC 1812 section 5.3.7).
        MartianDestination => "martian-destination", Warning,
        /// The packet wants to choose its own way (source route option), which is refused.
        SourceRoute => "source-route", Warning,
        /// A multicast group that nobody here listens to: multicast isn't routed.
        Multicast => "multicast", Info,
        /// A unicast packet in a broadcast or multicast frame must not be forwarded (RFC 1812 section 5.3.4).
        LinkBroadcast => "link-broadcast", Info,
        /// IPv4 isn't enabled on the interface.
        NotEnabled => "not-enabled", Warning,
        /// The header's options are broken; the sender is told.
        BadOptions => "bad-options", Error,
    }
}

graph::counters! {
    /// What is counted.
    enum Counter {
        /// Packets with header options.
        Options => "options",
    }
}

struct Input {
    interfaces: Key<Interfaces>,
    arcs: Key<Arcs>,
    place: ArcPlace,
}

fn make(cx: &NodeContext<'_>) -> Box<dyn Node> {
    Box::new(Input { interfaces: cx.table(), arcs: cx.table(), place: cx.arc(super::UNICAST) })
}

impl Node for Input {
    fn process(&mut self, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>) {
        tiered::run(self, ctx, frame);
    }

    fn trace(&self, packets: &Packets, slot: SlotId, out: &mut dyn fmt::Write) -> fmt::Result {
        write!(out, "{}", Describe::new(LinkType::IPV4, packets.head(slot)))
    }
}

impl Tiered for Input {
    #[inline(always)]
    fn vector<S: Simd>(&mut self, simd: S, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>) {
        let mut lane = Arrival::NONE;
        let mut vector = Vector::new(frame.slots);
        loop {
            let stretch = vector.stretch(
                ctx.packets,
                #[inline(always)]
                |meta, area| lane.take(simd, meta, area, quick::passes),
            );
            frame.next[stretch].fill(lane.edge);
            let Some((at, slot)) = vector.next() else { break };
            frame.next[at] = self.first_of_its_kind(ctx, slot, &mut lane);
        }
    }
}

impl Input {
    /// A packet that isn't like the one before it, or not an ordinary one.
    #[inline(never)]
    fn first_of_its_kind(&self, ctx: &mut Ctx<'_>, slot: SlotId, lane: &mut Arrival) -> u8 {
        let (meta, area) = ctx.packets.parts_mut(slot);
        if (meta.rx_if, meta.data) != (lane.rx_if, lane.at) {
            let vrf = ctx.tables.get(self.interfaces).get(meta.rx_if).vrf;
            let edge = self.place.edge(ctx.tables.get(self.arcs), meta.rx_if, 0);
            *lane = Arrival::new(meta.rx_if, meta.data, Ipv4Header::LEN as u16, vrf, edge);
        }
        let (at, len) = (meta.data, meta.len());
        meta.l3 = at;
        meta.table = lane.vrf;
        meta.arc = 0;
        let header = area.get(at as usize..).and_then(|bytes| Ipv4Header::parse(bytes).ok());
        let end = at + Ipv4Header::LEN as u16;
        match header {
            Some((header, _))
                if (end <= meta.end)
                    & ordinary(header, len)
                    & !meta.flags.has(Flags::GROUP)
                    & (lane.edge != 0) =>
            {
                meta.l4 = if header.is_later_fragment() { 0 } else { end };
                let total_len = u32::from(header.total_len.get());
                if total_len < len {
                    ctx.packets.truncate(slot, total_len);
                }
                lane.edge
            }
            _ => unusual(ctx, slot, lane),
        }
    }
}

/// Whether all checks pass and nothing is special, as with nearly every packet: no options, both addresses unicast. No
/// check branches on its own: a packet that fails one goes the slow way, which finds out which it was.
#[inline(always)]
fn ordinary(header: &Ipv4Header, packet_len: u32) -> bool {
    let total_len = u32::from(header.total_len.get());
    (header.version_ihl == Ipv4Header::VERSION_IHL)
        & (total_len >= Ipv4Header::LEN as u32)
        & (total_len <= packet_len)
        & header.verify_checksum(&[])
        & unicast(header.src)
        & unicast(header.dst)
}

/// Neither 0/8, 127/8 nor 224/3.
#[inline(always)]
fn unicast([octet, ..]: [u8; 4]) -> bool {
    (octet != 0) & (octet != 127) & (octet < 224)
}

/// Everything that isn't ordinary, in the order in which RFC 1812 asks.
#[cold]
#[inline(never)]
fn unusual(ctx: &mut Ctx<'_>, slot: SlotId, lane: &Arrival) -> u8 {
    let meta = ctx.packets.meta(slot);
    let (at, len, group) = (meta.l3, meta.len(), meta.flags.has(Flags::GROUP));
    let (header, options) = match Ipv4Header::check(ctx.packets.head(slot), len as usize) {
        Ok((header, options)) => (*header, options),
        Err(reason) => return ctx.drop(slot, refusal(reason)),
    };
    let mut source_route = false;
    let mut broken = None;
    for option in options {
        match option {
            Ok(option) => source_route |= option.is_source_route(),
            Err(offset) => broken = Some(offset),
        }
    }
    ctx.packets.truncate(slot, u32::from(header.total_len.get()));
    let header_len = header.header_len() as u16;
    ctx.packets.meta_mut(slot).l4 = if header.is_later_fragment() { 0 } else { at + header_len };
    if lane.edge == 0 {
        return ctx.drop(slot, Drop::NotEnabled);
    }
    // A host that asks for its address has none yet, and asks all.
    let asks = header.src().kind() == Ipv4Kind::Unspecified && header.dst().kind() == Ipv4Kind::Broadcast;
    if let Err(reason) = header.check_martians()
        && !asks
    {
        return ctx.drop(slot, refusal(reason));
    }
    if header_len > Ipv4Header::LEN as u16 {
        ctx.count(Counter::Options, 1);
    }
    if source_route {
        return ctx.drop(slot, Drop::SourceRoute);
    }
    match header.dst().kind() {
        Ipv4Kind::Broadcast | Ipv4Kind::LinkLocalMulticast => return Next::Local.edge(),
        Ipv4Kind::Multicast => return ctx.drop(slot, Drop::Multicast),
        _ if group => return ctx.drop(slot, Drop::LinkBroadcast),
        _ => {}
    }
    if let Some(pointer) = broken {
        let error = Icmpv4Error::ParameterProblem { pointer: pointer as u8 };
        request_v4(ctx.packets.meta_mut(slot), error);
        return ctx.refuse(slot, Drop::BadOptions, Next::IcmpError.edge());
    }
    lane.edge
}

fn refusal(reason: Ipv4Reason) -> Drop {
    match reason {
        Ipv4Reason::TooShort | Ipv4Reason::HeadTooShort => Drop::TooShort,
        Ipv4Reason::BadVersion => Drop::BadVersion,
        Ipv4Reason::BadHeaderLength => Drop::BadHeaderLength,
        Ipv4Reason::BadTotalLength => Drop::BadTotalLength,
        Ipv4Reason::BadChecksum => Drop::BadChecksum,
        Ipv4Reason::MartianSource => Drop::MartianSource,
        Ipv4Reason::MartianDestination => Drop::MartianDestination,
    }
}

/// The node's declaration.
pub const NODE: NodeSpec = NodeSpec {
    name: "ip4-input",
    help: "Checks IPv4 headers.",
    edges: Next::NAMES,
    drops: Drop::SPECS,
    counters: Counter::SPECS,
    attach: &[
        Attach { parent: "ethernet-input", key: EtherType::IPV4.get() as u32 },
        Attach { parent: "l3-input", key: 4 },
    ],
    starts: &[super::UNICAST],
    make,
    ..NodeSpec::EMPTY
};
