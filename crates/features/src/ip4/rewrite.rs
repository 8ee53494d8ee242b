//! `ip4-rewrite`: the last step of forwarding: time to live, MTU, link-layer header.
//!
//! | edge | packets |
//! |---|---|
//! | *arc `interface-output`* | by the interface of their next hop |
//! | `icmp4-error` | time to live used up; too big, and must not be fragmented |
//! | `ip4-fragment` | too big otherwise |
//! | `drop` | see [`Drop`] |
//!
//! What was made here ([`Flags::LOCAL`]) leaves with the time to live it was made with.

use super::quick;
use crate::icmp::request_v4;
use crate::ip::{Lane, NextHopKind, NextHops, Usual, has_headroom, segment_len};
use crate::tiered::{self, Tiered};
use core::fmt;
use graph::arc::{ArcPlace, Arcs};
use graph::nodes::INTERFACE_OUTPUT;
use graph::packet::{Flags, HEAD_AREA, Meta, Packets, SlotId, Vector};
use graph::publish::Key;
use graph::simd::Simd;
use graph::{Attach, Ctx, Frame, Node, NodeContext, NodeSpec};
use wire::ipv4::Ipv4Flags;
use wire::{FromBytes, Header, Icmpv4Error, Ipv4Header};

graph::edges! {
    /// Where packets go besides the arc.
    enum Next {
        Drop => "drop",
        IcmpError => "icmp4-error",
        Fragment => "ip4-fragment",
    }
}

graph::drops! {
    /// Why a packet with a next hop isn't sent.
    enum Drop {
        /// The interface to leave by is down.
        InterfaceDown => "interface-down", Warning,
        /// The next hop has changed since the lookup.
        StaleNextHop => "stale-next-hop", Warning,
        /// The time to live was used up; the sender is told. Many of them: a routing loop, or a traceroute.
        TtlExpired => "ttl-expired", Warning,
        /// The packet is larger than the MTU of its next hop and must not be fragmented; the sender is told.
        TooBig => "too-big", Warning,
        /// There is no room for the link-layer header before the packet.
        NoHeadroom => "no-headroom", Bug,
    }
}

struct Rewrite {
    hops: Key<NextHops>,
    arcs: Key<Arcs>,
    place: ArcPlace,
}

fn make(cx: &NodeContext<'_>) -> Box<dyn Node> {
    Box::new(Rewrite { hops: cx.table(), arcs: cx.table(), place: cx.arc(INTERFACE_OUTPUT) })
}

impl Node for Rewrite {
    fn process(&mut self, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>) {
        tiered::run(self, ctx, frame);
    }

    fn trace(&self, packets: &Packets, slot: SlotId, out: &mut dyn fmt::Write) -> fmt::Result {
        let meta = packets.meta(slot);
        write!(out, "interface {} header ", meta.tx_if)?;
        let header = packets.area(slot).get(meta.data as usize..meta.l3 as usize);
        header.unwrap_or_default().iter().try_for_each(|byte| write!(out, "{byte:02x}"))
    }
}

impl Tiered for Rewrite {
    #[inline(always)]
    fn vector<S: Simd>(&mut self, simd: S, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>) {
        let tables = ctx.tables;
        let (hops, arcs) = (tables.get(self.hops), tables.get(self.arcs));
        let mut vector = Vector::new(frame.slots);
        let mut usual = Usual::NONE;
        while let Some(first) = vector.peek() {
            let Meta { next_hop, data, .. } = *ctx.packets.meta(first);
            let lane = Lane::new(hops, arcs, self.place, next_hop);
            usual.adapt(&lane, data, Ipv4Header::LEN as u16);
            let stretch = vector.stretch(
                ctx.packets,
                #[inline(always)]
                |meta, area| meta.next_hop == next_hop && usual.send(simd, meta, area, quick::take_hop),
            );
            let taken = !stretch.is_empty();
            frame.next[stretch].fill(lane.edge);
            // The first of another lane, or one that is not usual.
            if !taken && let Some((at, slot)) = vector.next() {
                let (meta, area) = ctx.packets.parts_mut(slot);
                let sent = lane.fits(meta) && forward(meta, area) && lane.send(meta, area);
                frame.next[at] = if sent { lane.edge } else { unusual(ctx, slot, &lane) };
            }
        }
    }
}

/// Takes one from the time to live of a packet that isn't our own. False, and nothing changed, where it is used up.
#[must_use]
#[inline(always)]
pub fn forward(meta: &Meta, area: &mut [u8; HEAD_AREA]) -> bool {
    let head = area.get_mut(meta.data as usize..).unwrap_or_default();
    let Ok((header, _)) = Ipv4Header::mut_from_prefix(head) else { return false };
    if meta.flags.has(Flags::LOCAL) {
        return true;
    }
    if header.ttl <= 1 {
        return false;
    }
    header.decrement_ttl();
    true
}

/// Finds out why a packet wasn't sent.
#[cold]
#[inline(never)]
fn unusual(ctx: &mut Ctx<'_>, slot: SlotId, lane: &Lane<'_>) -> u8 {
    let local = ctx.packets.meta(slot).flags.has(Flags::LOCAL);
    let at = ctx.packets.meta(slot).data;
    let Some(header) = ctx.packets.header::<Ipv4Header>(slot, at).copied() else {
        return ctx.drop(slot, Drop::NoHeadroom);
    };
    if lane.hop.kind != NextHopKind::Rewrite {
        return ctx.drop(slot, Drop::StaleNextHop);
    }
    if header.ttl <= 1 && !local {
        request_v4(ctx.packets.meta_mut(slot), Icmpv4Error::TtlExceeded);
        return ctx.refuse(slot, Drop::TtlExpired, Next::IcmpError.edge());
    }
    if lane.edge == 0 {
        return ctx.drop(slot, Drop::InterfaceDown);
    }
    if !has_headroom(ctx.packets.meta(slot)) {
        return ctx.drop(slot, Drop::NoHeadroom);
    }
    let segment = segment_len(ctx.packets, slot);
    if segment.is_some_and(|len| len <= lane.mtu) {
        let (meta, area) = ctx.packets.parts_mut(slot);
        let sent = forward(meta, area) && lane.send(meta, area);
        return if sent { lane.edge } else { ctx.drop(slot, Drop::NoHeadroom) };
    }
    // Nothing here can both segment and fragment: the sender of a super-frame is told its MTU in any case.
    if segment.is_none() && !header.flags().contains(Ipv4Flags::DONT_FRAGMENT) {
        return Next::Fragment.edge();
    }
    if local {
        return ctx.drop(slot, Drop::TooBig);
    }
    request_v4(ctx.packets.meta_mut(slot), Icmpv4Error::FragmentationNeeded { mtu: lane.hop.mtu });
    ctx.refuse(slot, Drop::TooBig, Next::IcmpError.edge())
}

/// The node's declaration.
pub const NODE: NodeSpec = NodeSpec {
    name: "ip4-rewrite",
    help: "Forwards IPv4 packets: time to live, MTU, link-layer header.",
    edges: Next::NAMES,
    drops: Drop::SPECS,
    attach: &[Attach { parent: "ip4-lookup", key: NextHopKind::Rewrite as u32 }],
    starts: &[INTERFACE_OUTPUT],
    make,
    ..NodeSpec::EMPTY
};
