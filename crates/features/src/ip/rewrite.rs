//! The last step of forwarding, the same for both IP versions: one hop less, not above the MTU, a link-layer header in
//! front. What differs is a version's own: [`Forwards`].

use super::family::{Family, Refusal};
use super::output::{Lane, has_headroom, segment_len};
use super::usual::Usual;
use super::{NextHopKind, NextHops};
use crate::tiered::{self, Tiered};
use core::fmt;
use core::marker::PhantomData;
use graph::arc::{ArcPlace, Arcs};
use graph::nodes::INTERFACE_OUTPUT;
use graph::packet::{Flags, HEAD_AREA, Meta, Packets, SlotId, Vector};
use graph::publish::Key;
use graph::simd::Simd;
use graph::{Ctx, Frame, Node, NodeContext};
use wire::FromBytes;

/// Why a packet with a next hop isn't sent, for either version to give its own name to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unsent {
    /// The interface to leave by is down.
    InterfaceDown,
    /// The next hop has changed since the lookup.
    StaleNextHop,
    /// It has passed as many routers as it may; the sender is told.
    HopsUsedUp,
    /// It is larger than the MTU of its next hop and isn't cut here; the sender is told.
    TooBig,
    /// Its source address is good on one link only, which the way leads beyond; the sender is told.
    BeyondScope,
    /// There is no room for the link-layer header before it.
    NoHeadroom,
}

/// How packets of an IP version are forwarded.
pub(crate) trait Forwards: Family {
    /// The node's drop reasons.
    type Drop: From<Unsent> + Into<u8>;

    /// The node's edge to ICMP errors.
    const ICMP_ERROR: u8;

    /// The node's edge to fragmentation.
    const FRAGMENT: u8;

    /// Takes one from the hops that are left. False, and nothing changed, where they are used up or the header needs a
    /// further look.
    fn take_hop(header: &mut Self::Bytes) -> bool;

    /// Takes one from the hops that are left, of which there are some.
    fn count_hop(header: &mut Self::Header);

    /// Whether the source address is good on one link only.
    fn is_of_one_link(header: &Self::Header) -> bool;

    /// Whether a packet that is too big is cut here. `local`: it was made here, or put together.
    fn may_be_cut(header: &Self::Header, local: bool) -> bool;
}

/// One worker's instance.
pub(crate) struct Rewrite<F: Forwards> {
    hops: Key<NextHops>,
    arcs: Key<Arcs>,
    place: ArcPlace,
    family: PhantomData<F>,
}

impl<F: Forwards> Rewrite<F> {
    /// The node.
    pub(crate) fn boxed(cx: &NodeContext<'_>) -> Box<dyn Node> {
        let place = cx.arc(INTERFACE_OUTPUT);
        Box::new(Self { hops: cx.table(), arcs: cx.table(), place, family: PhantomData })
    }
}

impl<F: Forwards> Node for Rewrite<F> {
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

impl<F: Forwards> Tiered for Rewrite<F> {
    #[inline(always)]
    fn vector<S: Simd>(&mut self, simd: S, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>) {
        let tables = ctx.tables;
        let (hops, arcs) = (tables.get(self.hops), tables.get(self.arcs));
        let tally = hops.tallies.of(ctx.worker);
        let mut vector = Vector::new(frame.slots);
        let mut usual = Usual::NONE;
        while let Some(first) = vector.peek() {
            let Meta { next_hop, data, .. } = *ctx.packets.meta(first);
            let lane = Lane::new(hops, arcs, self.place, next_hop);
            usual.adapt(&lane, data, F::HEADER);
            let mut bytes = 0_u32;
            let stretch = vector.stretch(
                ctx.packets,
                #[inline(always)]
                |meta, area| {
                    if meta.next_hop != next_hop {
                        return false;
                    }
                    let Some(len) = usual.send::<F>(simd, meta, area) else { return false };
                    bytes += len;
                    true
                },
            );
            if !stretch.is_empty() {
                hops.count(tally, next_hop, stretch.len(), bytes);
                match &mut frame.next[stretch] {
                    // Where next hops take turns, a call to fill one byte is what costs most.
                    [next] => *next = lane.edge,
                    next => next.fill(lane.edge),
                }
            } else if let Some((at, slot)) = vector.next() {
                // The first of another lane, or one that is not usual.
                let (meta, area) = ctx.packets.parts_mut(slot);
                let len = meta.len();
                let sent = lane.fits(meta) && forward::<F>(meta, area, &lane) && lane.send(meta, area);
                frame.next[at] = if sent {
                    hops.count(tally, next_hop, 1, len);
                    lane.edge
                } else {
                    unusual::<F>(ctx, slot, &lane, hops)
                };
            }
        }
    }
}

/// Whether a packet would leave the one link that its source address is good for.
#[inline(always)]
fn leaves_scope<F: Forwards>(meta: &Meta, header: &F::Header, lane: &Lane<'_>) -> bool {
    F::is_of_one_link(header) & (meta.rx_if != lane.hop.tx_if)
}

/// Takes one from the hops of a packet that isn't our own. False, and nothing changed, where they are used up or the
/// packet must not leave its link.
#[must_use]
#[inline(always)]
pub(crate) fn forward<F: Forwards>(meta: &Meta, area: &mut [u8; HEAD_AREA], lane: &Lane<'_>) -> bool {
    let head = area.get_mut(meta.data as usize..).unwrap_or_default();
    let Ok((header, _)) = F::Header::mut_from_prefix(head) else { return false };
    if meta.flags.has(Flags::LOCAL) {
        return true;
    }
    if (F::hops(header) <= 1) | leaves_scope::<F>(meta, header, lane) {
        return false;
    }
    F::count_hop(header);
    true
}

/// Finds out why a packet wasn't sent.
#[cold]
#[inline(never)]
fn unusual<F: Forwards>(ctx: &mut Ctx<'_>, slot: SlotId, lane: &Lane<'_>, hops: &NextHops) -> u8 {
    let meta = *ctx.packets.meta(slot);
    let local = meta.flags.has(Flags::LOCAL);
    let Some(header) = ctx.packets.header::<F::Header>(slot, meta.data).copied() else {
        return drop::<F>(ctx, slot, Unsent::NoHeadroom);
    };
    if lane.hop.kind != NextHopKind::Rewrite {
        return drop::<F>(ctx, slot, Unsent::StaleNextHop);
    }
    if F::hops(&header) <= 1 && !local {
        return refuse::<F>(ctx, slot, Unsent::HopsUsedUp, Refusal::HopsUsedUp);
    }
    if !local && leaves_scope::<F>(&meta, &header, lane) {
        return refuse::<F>(ctx, slot, Unsent::BeyondScope, Refusal::BeyondScope);
    }
    if lane.edge == 0 {
        return drop::<F>(ctx, slot, Unsent::InterfaceDown);
    }
    if !has_headroom(&meta) {
        return drop::<F>(ctx, slot, Unsent::NoHeadroom);
    }
    let segment = segment_len(ctx.packets, slot);
    if segment.is_some_and(|len| len <= lane.mtu) {
        let (meta, area) = ctx.packets.parts_mut(slot);
        let len = meta.len();
        if forward::<F>(meta, area, lane) && lane.send(meta, area) {
            hops.count(hops.tallies.of(ctx.worker), lane.id, 1, len);
            return lane.edge;
        }
        return drop::<F>(ctx, slot, Unsent::NoHeadroom);
    }
    // Ends of tunnels don't fragment (RFC 7348 section 4.3).
    let may_be_cut = local || meta.flags.has(Flags::MAY_BE_CUT);
    let cut_here = may_be_cut && !meta.flags.has(Flags::ENCAPSULATED);
    // Nothing here can both segment and fragment: the sender of a super-frame is told its MTU in any case.
    if segment.is_none() && F::may_be_cut(&header, cut_here) {
        return F::FRAGMENT;
    }
    if local {
        return drop::<F>(ctx, slot, Unsent::TooBig);
    }
    refuse::<F>(ctx, slot, Unsent::TooBig, Refusal::TooBig { mtu: lane.hop.mtu })
}

fn drop<F: Forwards>(ctx: &mut Ctx<'_>, slot: SlotId, unsent: Unsent) -> u8 {
    ctx.drop(slot, F::Drop::from(unsent))
}

fn refuse<F: Forwards>(ctx: &mut Ctx<'_>, slot: SlotId, unsent: Unsent, refusal: Refusal) -> u8 {
    F::request(ctx.packets.meta_mut(slot), refusal);
    ctx.refuse(slot, F::Drop::from(unsent), F::ICMP_ERROR)
}
