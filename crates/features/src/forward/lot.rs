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
use graph::packet::{HEAD_AREA, Meta, Packets, Vector};
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

    /// Whether these are all one next hop, which nothing is sent to from here. If they are several, their lines are asked for.
    #[inline(never)]
    fn leads_nowhere(&self, ids: &[u32]) -> bool {
        let [first, rest @ ..] = ids else { return false };
        if rest.iter().fold(0, |differing, id| differing | (id ^ first)) == 0 {
            let lane = self.lane(*first);
            return lane.hop.kind != NextHopKind::Group && !Hop::of(&lane, 0).is_open();
        }
        for id in ids {
            prefetch_read(core::ptr::from_ref(self.hops.get(*id)).cast());
        }
        false
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
        let (ids, mut done) = (&self.ids[..count], 0);
        if outlook.leads_nowhere(ids) {
            next.fill(long);
            return count;
        }
        while let Some(id) = ids.get(done).copied() {
            let (left, rest, next) = (part.part(done..count), &ids[done..], &mut next[done..]);
            let lane = outlook.lane(id);
            let alike = rest.iter().fold(0, |differing, other| differing | (other ^ id)) == 0;
            let sent = if alike && lane.hop.kind != NextHopKind::Group {
                self.to_one(simd, outlook, packets, left, &lane, next)
            } else {
                self.to_many(simd, outlook, packets, left, rest, next)
            };
            let Some((next, id)) = next.get_mut(sent).zip(rest.get(sent)) else { break };
            done += sent;
            let (meta, area) = packets.parts_mut(part.slots()[done]);
            let (lane, hash) = self.lane(outlook, *id, meta, area);
            if Hop::of(&lane, hash).is_open() && self.way.is_for_us(area) {
                return done;
            }
            *next = long;
            done += 1;
        }
        count
    }

    /// Sends on packets to one next hop, up to the first that isn't ordinary. Gives how many.
    #[inline(always)]
    fn to_one<S: Simd>(
        &self,
        simd: S,
        outlook: &Outlook<'_>,
        packets: &mut Packets,
        mut part: Vector<'_>,
        lane: &Lane<'_>,
        next: &mut [u8],
    ) -> usize {
        let (hop, way, mut bytes) = (Hop::of(lane, 0), &self.way, 0_u32);
        // A copy that no packet can change, so that it is read once.
        let header = *hop.header;
        let (hop, shape) = (hop.with(&header), way.shape_to(&hop));
        let sent = part.stretch(
            packets,
            #[inline(always)]
            |meta, area| {
                let Some(len) = way.send(simd, meta, area, &hop, Some(&shape)) else { return false };
                bytes += len;
                true
            },
        );
        outlook.hops.count(outlook.tally, lane.id, sent.len(), bytes);
        next[sent.clone()].fill(lane.edge);
        sent.len()
    }

    /// The same with packets each of which may have a next hop of its own.
    #[inline(always)]
    fn to_many<S: Simd>(
        &self,
        simd: S,
        outlook: &Outlook<'_>,
        packets: &mut Packets,
        mut part: Vector<'_>,
        ids: &[u32],
        next: &mut [u8],
    ) -> usize {
        let mut each = ids.iter().zip(next);
        let sent = part.stretch(
            packets,
            #[inline(always)]
            |meta, area| {
                let Some((id, next)) = each.next() else { return false };
                let (lane, hash) = self.lane(outlook, *id, meta, area);
                let Some(len) = self.way.send(simd, meta, area, &Hop::of(&lane, hash), None) else {
                    return false;
                };
                lane.hop.count(outlook.tally, 1, len);
                *next = lane.edge;
                true
            },
        );
        sent.len()
    }

    /// The way of a packet to next hop `id`, and its flow hash where that has chosen it among others; else 0.
    #[inline(always)]
    fn lane<'t>(
        &self,
        outlook: &Outlook<'t>,
        id: u32,
        meta: &Meta,
        area: &[u8; HEAD_AREA],
    ) -> (Lane<'t>, u32) {
        // Numbers, for the call to give them back in registers.
        let (id, hash) = match outlook.hops.get(id).kind {
            NextHopKind::Group => self.member(outlook, id, meta, area),
            _ => (id, 0),
        };
        (outlook.lane(id), hash)
    }

    /// Which of a group's next hops a packet goes by, and its flow hash. Where groups lead to groups too often, it is a group still.
    #[inline(never)]
    fn member(&self, outlook: &Outlook<'_>, mut id: u32, meta: &Meta, area: &[u8; HEAD_AREA]) -> (u32, u32) {
        let symmetric = outlook.fibs.get(self.way.vrf).is_some_and(|vrf| vrf.symmetric_hash);
        let hash = flow_hash::<F>(meta, area, symmetric);
        for step in 0..MAX_STEPS {
            let hop = outlook.hops.get(id);
            if hop.kind != NextHopKind::Group {
                break;
            }
            id = outlook.hops.choose_at(hop, hash, step);
        }
        (id, hash)
    }
}

/// The flow hash of a packet that nobody has taken a header off yet, as [the lookup](crate::ip::lookup) would compute it, or
/// whoever has before.
fn flow_hash<F: Arrives>(meta: &Meta, area: &[u8; HEAD_AREA], symmetric: bool) -> u32 {
    if meta.flow_hash != 0 {
        return meta.flow_hash;
    }
    let end = meta.end;
    let len = F::bytes_at(area, L3).map_or(0, F::length).min(end.saturating_sub(L3).into());
    let head = area.get(L3.into()..usize::from(L3) + len as usize).unwrap_or_default();
    F::flow_hash(head, symmetric).max(1)
}
