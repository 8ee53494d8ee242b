//! The first look at IP packets, the same for both versions: those that are like the one before them, ordinary ones, and
//! all others. What is asked of a header is a version's own: [`Arrives`].

use super::arrival::Arrival;
use super::family::Family;
use crate::interface::Interfaces;
use crate::tiered::{self, Tiered};
use crate::{ip4, ip6};
use core::fmt;
use core::marker::PhantomData;
use core::net::IpAddr;
use graph::arc::{ArcPlace, Arcs};
use graph::packet::{Flags, Packets, SlotId, Vector};
use graph::publish::Key;
use graph::simd::Simd;
use graph::{Ctx, Frame, Node, NodeContext};
use wire::Header;
use wire::describe::Describe;

/// What becomes of a packet by its addresses alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrived {
    /// It goes along the arc.
    Routed,
    /// It is for all on its link, and goes no further.
    Local,
    /// It is dropped, for this reason of the node's.
    Dropped(&'static str),
}

/// What `ip4-input` or `ip6-input` makes of an ordinary packet with these addresses, for whoever asks about one that isn't there.
#[must_use]
pub fn arrives(source: IpAddr, destination: IpAddr) -> Arrived {
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => ip4::arrives(source, destination),
        (IpAddr::V6(source), IpAddr::V6(destination)) => ip6::arrives(source, destination),
        // No packet has both.
        _ => Arrived::Routed,
    }
}

/// What is asked of a header of this IP version before it is believed.
pub(crate) trait Arrives: Family {
    /// Whether the header passes all checks but that of its length against the packet's, and nothing about it is special.
    fn passes(header: &Self::Bytes) -> bool;

    /// Length of the packet in bytes, as a header says that [passes](Self::passes). No less than the header's.
    fn length(header: &Self::Bytes) -> u32;

    /// Whether the header passes all checks in a packet of `len` bytes, and nothing is special, as with nearly every
    /// packet. No check should branch on its own: a packet that fails one goes the slow way, which finds out which it was.
    fn ordinary(header: &Self::Header, len: u32) -> bool;

    /// Length of the packet in bytes, as an ordinary header says.
    fn total_len(header: &Self::Header) -> u32;

    /// Whether the transport header follows an ordinary header: not in a later fragment.
    fn leads_to_transport(header: &Self::Header) -> bool;

    /// Everything that isn't ordinary. `l3`, `table` and `arc` are set.
    fn unusual(ctx: &mut Ctx<'_>, slot: SlotId, lane: &Arrival) -> u8;
}

/// One worker's instance.
pub(crate) struct Input<F: Arrives> {
    interfaces: Key<Interfaces>,
    arcs: Key<Arcs>,
    place: ArcPlace,
    family: PhantomData<F>,
}

impl<F: Arrives> Input<F> {
    /// The node whose good packets begin `arc`.
    pub(crate) fn boxed(cx: &NodeContext<'_>, arc: &str) -> Box<dyn Node> {
        let place = cx.arc(arc);
        Box::new(Self { interfaces: cx.table(), arcs: cx.table(), place, family: PhantomData })
    }
}

impl<F: Arrives> Node for Input<F> {
    fn process(&mut self, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>) {
        tiered::run(self, ctx, frame);
    }

    fn trace(&self, packets: &Packets, slot: SlotId, out: &mut dyn fmt::Write) -> fmt::Result {
        write!(out, "{}", Describe::new(F::LINK, packets.head(slot)))
    }
}

impl<F: Arrives> Tiered for Input<F> {
    #[inline(always)]
    fn vector<S: Simd>(&mut self, simd: S, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>) {
        let mut lane = Arrival::NONE;
        let mut vector = Vector::new(frame.slots);
        loop {
            let stretch = vector.stretch(
                ctx.packets,
                #[inline(always)]
                |meta, area| lane.take::<F>(simd, meta, area),
            );
            frame.next[stretch].fill(lane.edge);
            let Some((at, slot)) = vector.next() else { break };
            frame.next[at] = self.first_of_its_kind(ctx, slot, &mut lane);
        }
    }
}

impl<F: Arrives> Input<F> {
    /// A packet that isn't like the one before it, or not an ordinary one.
    #[inline(never)]
    fn first_of_its_kind(&self, ctx: &mut Ctx<'_>, slot: SlotId, lane: &mut Arrival) -> u8 {
        let (meta, area) = ctx.packets.parts_mut(slot);
        if (meta.rx_if, meta.data) != (lane.rx_if, lane.at) {
            let vrf = ctx.tables.get(self.interfaces).get(meta.rx_if).vrf;
            let edge = self.place.edge(ctx.tables.get(self.arcs), meta.rx_if, 0);
            *lane = Arrival::new(meta.rx_if, meta.data, F::HEADER, vrf, edge);
        }
        let (at, len) = (meta.data, meta.len());
        meta.l3 = at;
        meta.table = lane.vrf;
        meta.arc = 0;
        let header = area.get(at as usize..).and_then(|bytes| F::Header::parse(bytes).ok());
        let end = at + F::HEADER;
        match header {
            Some((header, _))
                if (end <= meta.end)
                    & F::ordinary(header, len)
                    & !meta.flags.has(Flags::GROUP)
                    & (lane.edge != 0) =>
            {
                meta.l4 = if F::leads_to_transport(header) { end } else { 0 };
                let total_len = F::total_len(header);
                if total_len < len {
                    ctx.packets.truncate(slot, total_len);
                }
                lane.edge
            }
            _ => F::unusual(ctx, slot, lane),
        }
    }
}
