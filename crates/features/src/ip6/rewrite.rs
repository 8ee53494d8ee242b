//! `ip6-rewrite`: the last step of forwarding: hop limit, MTU, link-layer header.
//!
//! | edge | packets |
//! |---|---|
//! | *arc `interface-output`* | by the interface of their next hop |
//! | `ip6-fragment` | too big, and made here |
//! | `icmp6-error` | hop limit used up; too big; leaving the scope of their source address |
//! | `drop` | see [`Drop`] |
//!
//! What was made here ([`Flags::LOCAL`]) leaves with the hop limit it was made with. Routers don't cut packets of
//! others (RFC 8200 section 5).

use super::quick;
use crate::icmp::request_v6;
use crate::ip::{Lane, NextHopKind, NextHops, Usual, has_headroom, segment_len};
use crate::tiered::{self, Tiered};
use core::fmt;
use graph::arc::{ArcPlace, Arcs};
use graph::nodes::INTERFACE_OUTPUT;
use graph::packet::{Flags, HEAD_AREA, Meta, Packets, SlotId, Vector};
use graph::publish::Key;
use graph::simd::Simd;
use graph::{Attach, Ctx, Frame, Node, NodeContext, NodeSpec};
use wire::{FromBytes, Header, Icmpv6Error, Ipv6Header};

graph::edges! {
    /// Where packets go besides the arc.
    enum Next {
        Drop => "drop",
        IcmpError => "icmp6-error",
        Fragment => "ip6-fragment",
    }
}

graph::drops! {
    /// Why a packet with a next hop isn't sent.
    enum Drop {
        /// The interface to leave by is down.
        InterfaceDown => "interface-down", Warning,
        /// The next hop has changed since the lookup.
        StaleNextHop => "stale-next-hop", Warning,
        /// The hop limit was used up; the sender is told. Many of them: a routing loop, or a traceroute.
        HopLimitExpired => "hop-limit-expired", Warning,
        /// The packet is larger than the MTU of its next hop; the sender is told.
        TooBig => "too-big", Warning,
        /// The source address is link-local and the way leads beyond its link (RFC 4291 section 2.5.6); the sender is told.
        BeyondScope => "beyond-scope", Warning,
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
            usual.adapt(&lane, data, Ipv6Header::LEN as u16);
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
                let sent = lane.fits(meta) && forward(meta, area, &lane) && lane.send(meta, area);
                frame.next[at] = if sent { lane.edge } else { unusual(ctx, slot, &lane) };
            }
        }
    }
}

/// Whether a packet with a link-local source would leave the link that the address is good for.
#[inline(always)]
fn leaves_scope(meta: &Meta, header: &Ipv6Header, lane: &Lane<'_>) -> bool {
    let link_local = (header.src[0] == 0xfe) & (header.src[1] & 0xc0 == 0x80);
    link_local & (meta.rx_if != lane.hop.tx_if)
}

/// Takes one from the hop limit of a packet that isn't our own. False, and nothing changed, where it is used up or the
/// packet must not leave its link.
#[must_use]
#[inline(always)]
fn forward(meta: &Meta, area: &mut [u8; HEAD_AREA], lane: &Lane<'_>) -> bool {
    let head = area.get_mut(meta.data as usize..).unwrap_or_default();
    let Ok((header, _)) = Ipv6Header::mut_from_prefix(head) else { return false };
    if meta.flags.has(Flags::LOCAL) {
        return true;
    }
    if (header.hop_limit <= 1) | leaves_scope(meta, header, lane) {
        return false;
    }
    header.decrement_hop_limit();
    true
}

/// Finds out why a packet wasn't sent.
#[cold]
#[inline(never)]
fn unusual(ctx: &mut Ctx<'_>, slot: SlotId, lane: &Lane<'_>) -> u8 {
    let local = ctx.packets.meta(slot).flags.has(Flags::LOCAL);
    let at = ctx.packets.meta(slot).data;
    let Some(header) = ctx.packets.header::<Ipv6Header>(slot, at).copied() else {
        return ctx.drop(slot, Drop::NoHeadroom);
    };
    if lane.hop.kind != NextHopKind::Rewrite {
        return ctx.drop(slot, Drop::StaleNextHop);
    }
    if header.hop_limit <= 1 && !local {
        request_v6(ctx.packets.meta_mut(slot), Icmpv6Error::HopLimitExceeded);
        return ctx.refuse(slot, Drop::HopLimitExpired, Next::IcmpError.edge());
    }
    if !local && leaves_scope(ctx.packets.meta(slot), &header, lane) {
        request_v6(ctx.packets.meta_mut(slot), Icmpv6Error::BeyondScope);
        return ctx.refuse(slot, Drop::BeyondScope, Next::IcmpError.edge());
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
        let sent = forward(meta, area, lane) && lane.send(meta, area);
        return if sent { lane.edge } else { ctx.drop(slot, Drop::NoHeadroom) };
    }
    if local {
        return Next::Fragment.edge();
    }
    request_v6(ctx.packets.meta_mut(slot), Icmpv6Error::PacketTooBig { mtu: lane.hop.mtu.into() });
    ctx.refuse(slot, Drop::TooBig, Next::IcmpError.edge())
}

/// The node's declaration.
pub const NODE: NodeSpec = NodeSpec {
    name: "ip6-rewrite",
    help: "Forwards IPv6 packets: hop limit, MTU, link-layer header.",
    edges: Next::NAMES,
    drops: Drop::SPECS,
    attach: &[Attach { parent: "ip6-lookup", key: NextHopKind::Rewrite as u32 }],
    starts: &[INTERFACE_OUTPUT],
    make,
    ..NodeSpec::EMPTY
};
