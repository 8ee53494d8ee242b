//! A few packets at a time: destinations are gathered, looked up together, and the packets sent on, while all of them lie in
//! the nearest cache.

use super::way::{Hop, Way};
use crate::ethernet::usual::{L3, ethertype};
use crate::interface::Interfaces;
use crate::ip::input::Arrives;
use crate::ip::lookup::MAX_STEPS;
use crate::ip::rewrite::Forwards;
use crate::ip::{Fibs, Lane, NextHopKind, NextHops, Tally};
use core::ops::Range;
use graph::arc::{ArcPlace, Arcs};
use graph::packet::{Packets, SlotId, Vector};
use graph::simd::Simd;
use graph::{IfIndex, NodeContext, prefetch_read};

/// Packets of a lot at most. Their metadata and heads are 8 KiB, so that what is read to gather is still in the L1 when it is written.
const LOT: usize = 64;

/// What is looked at for a vector.
pub(super) struct Outlook<'t> {
    pub(super) interfaces: &'t Interfaces,
    pub(super) fibs: &'t Fibs,
    pub(super) hops: &'t NextHops,
    pub(super) tally: Tally<'t>,
    pub(super) arcs: &'t Arcs,
    /// Where `interface-output` begins.
    pub(super) output: ArcPlace,
}

impl<'t> Outlook<'t> {
    #[inline(always)]
    fn lane(&self, id: u32) -> Lane<'t> {
        Lane::new(self.hops, self.arcs, self.output, id)
    }

    /// The way of a flow of this hash among those of a group. Where groups lead to groups too often, it is a group still.
    #[inline(never)]
    fn member(&self, mut lane: Lane<'t>, hash: u32) -> Lane<'t> {
        for step in 0..MAX_STEPS {
            if lane.hop.kind != NextHopKind::Group {
                break;
            }
            lane = self.lane(self.hops.choose_at(lane.hop, hash, step));
        }
        lane
    }
}

/// One worker's lots of an IP version.
pub(super) struct Lots<F: Arrives> {
    /// Number of the version's unicast arc, and of the lookup on it.
    unicast: Option<(u16, u8)>,
    /// Of the interface that the last lot came in by.
    way: Way<F>,
    addresses: Box<[F::Address; LOT]>,
    ids: Box<[u32; LOT]>,
}

impl<F: Arrives + Forwards> Lots<F> {
    /// For packets that would go through `arc` to node `lookup`.
    pub(super) fn new(cx: &NodeContext<'_>, arc: &str, lookup: &str) -> Self {
        Self {
            unicast: cx.arc_number(arc).zip(cx.member(arc, lookup)),
            way: Way::CLOSED,
            addresses: Box::new([F::Address::default(); LOT]),
            ids: Box::new([0; LOT]),
        }
    }

    /// Forgets what was known of interfaces: tables may have changed.
    #[inline(always)]
    pub(super) fn begin(&mut self) {
        self.way = Way::CLOSED;
    }

    /// Takes the next packets of interface `rx_if` and this version from the vector, and notes their destinations. None where the
    /// interface's packets go the long way.
    #[inline(always)]
    pub(super) fn gather(
        &mut self,
        outlook: &Outlook<'_>,
        packets: &mut Packets,
        vector: &mut Vector<'_>,
        rx_if: IfIndex,
    ) -> Range<usize> {
        if self.way.rx_if != rx_if {
            self.way = Way::of(outlook.interfaces.get(rx_if), rx_if, self.is_plain(outlook.arcs, rx_if));
        }
        if !self.way.is_open {
            return 0..0;
        }
        let mut addresses = self.addresses.iter_mut();
        vector.stretch(
            packets,
            #[inline(always)]
            |meta, area| match F::destination_at(area, L3) {
                Some(destination) if meta.rx_if == rx_if && ethertype(area) == F::ETHERTYPE => {
                    addresses.next().map(|address| *address = destination).is_some()
                }
                _ => false,
            },
        )
    }

    /// Whether no feature has asked for the interface's packets.
    fn is_plain(&self, arcs: &Arcs, rx_if: IfIndex) -> bool {
        self.unicast.is_some_and(|(arc, lookup)| arcs.chain(arc, rx_if) == [lookup])
    }

    /// Sends on the packets that were gathered, or to `long` those that aren't ordinary. Gives how many edges are decided: all, or
    /// as many as come before one that others of its flow may follow.
    #[inline(always)]
    pub(super) fn forward<S: Simd>(
        &mut self,
        simd: S,
        outlook: &Outlook<'_>,
        packets: &mut Packets,
        part: Vector<'_>,
        next: &mut [u8],
        long: u8,
    ) -> usize {
        let count = next.len();
        let (addresses, ids) = (&self.addresses[..count], &mut self.ids[..count]);
        let Some(vrf) = outlook.fibs.get(self.way.vrf) else {
            next.fill(long);
            return count;
        };
        match addresses {
            [first, rest @ ..] if rest.iter().fold(true, |all, address| all & (address == first)) => {
                ids.fill(F::fib(vrf).lookup(*first).0);
            }
            _ => F::fib(vrf).lookup_batch(addresses, ids, prefetch_read),
        }
        let mut done = 0;
        while let Some(id) = ids.get(done).copied() {
            let mut lane = outlook.lane(id);
            let (mut run, mut hash) = (run(&ids[done..]), 0);
            if lane.hop.kind == NextHopKind::Group {
                // Each flow has its own way from here.
                hash = flow_hash::<F>(packets, part.slots()[done], vrf.symmetric_hash);
                (lane, run) = (outlook.member(lane, hash), 1);
            }
            let hop = Hop::of(&lane, hash);
            let (way, mut bytes) = (&self.way, 0_u32);
            let mut run = part.part(done..done + run);
            let stretch = run.stretch(
                packets,
                #[inline(always)]
                |meta, area| {
                    let Some(len) = way.send(simd, meta, area, &hop) else { return false };
                    bytes += len;
                    true
                },
            );
            let stretch = done..done + stretch.len();
            if !stretch.is_empty() {
                outlook.hops.count(outlook.tally, lane.id, stretch.len(), bytes);
                done += stretch.len();
                match &mut next[stretch] {
                    // Where next hops take turns, a call to fill one byte is what costs most.
                    [next] => *next = lane.edge,
                    next => next.fill(lane.edge),
                }
            } else if hop.is_open() && way.is_for_us(packets.area(part.slots()[done])) {
                return done;
            } else {
                next[done] = long;
                done += 1;
            }
        }
        count
    }
}

/// The flow hash of a packet that nobody has taken a header off yet, as [the lookup](crate::ip::lookup) would compute it, or
/// whoever has before.
#[inline(never)]
fn flow_hash<F: Arrives>(packets: &Packets, slot: SlotId, symmetric: bool) -> u32 {
    let (area, meta) = (packets.area(slot), packets.meta(slot));
    if meta.flow_hash != 0 {
        return meta.flow_hash;
    }
    let end = meta.end;
    let len = F::bytes_at(area, L3).map_or(0, F::length).min(end.saturating_sub(L3).into());
    let head = area.get(L3.into()..usize::from(L3) + len as usize).unwrap_or_default();
    F::flow_hash(head, symmetric).max(1)
}

/// How many ids are as the first one.
#[inline(always)]
fn run(ids: &[u32]) -> usize {
    let Some(first) = ids.first() else { return 0 };
    match ids.iter().fold(0, |differing, id| differing | (id ^ first)) {
        0 => ids.len(),
        _ => ids.iter().take_while(|id| *id == first).count(),
    }
}
