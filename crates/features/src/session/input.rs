//! The node that finds or begins the sessions of a vector, for both IP versions.

use super::entry::{Flow, Session};
use super::services::Chain;
use super::serving::Onward;
use super::sessions::{Evicted, NoRoom, Sessions};
use super::tenants::{Place, TICK_BITS, Tenants, Untracked};
use super::tuple::{Kind, Mark, Tuple};
use crate::tiered::{self, Tiered};
use core::fmt;
use core::marker::PhantomData;
use graph::arc::Arcs;
use graph::engine::MAX_VECTOR;
use graph::handover::Full;
use graph::locals::LocalKey;
use graph::packet::{Packets, SlotId};
use graph::publish::Key as Part;
use graph::simd::Simd;
use graph::{Ctx, Frame, GONE, Node, NodeContext};
use tables::session::{Key, NONE};

graph::drops! {
    /// Why a tenant's packet gets no further.
    pub(super) enum Drop {
        /// The tenant has as many sessions as it may, and none of them makes room: raise its quota or see who fills it.
        Quota => "quota", Loss,
        /// The tenant's sessions begin faster than they may.
        Rate => "new-session-rate", Loss,
        /// The worker has as many sessions as it may, and none of them makes room.
        TableFull => "table-full", Loss,
        /// A fragment without ports, and the tenant lets nothing pass that has no session.
        Fragment => "fragment", Loss,
        /// A protocol that has no sessions, and the tenant lets nothing pass that has none.
        Protocol => "protocol", Loss,
        /// The packet ends before its transport header does, and the tenant lets nothing pass that has no session.
        TooShort => "too-short", Invalid,
        /// An ICMP error about no session, and the tenant lets nothing pass that has none.
        UnrelatedError => "unrelated-error", Loss,
        /// The session had to make room for another while its packet was on its way to a service.
        SessionGone => "session-gone", Loss,
        /// The worker that has the flow doesn't keep up with the packets that others hand over to it.
        HandoverFull => "handover-full", Loss,
    }
}

graph::counters! {
    /// What is counted.
    pub(super) enum Counter {
        /// Sessions that began.
        Created => "created",
        /// Sessions ended before their time because their tenant may have no more.
        EvictedForQuota => "evicted-for-quota",
        /// Sessions ended before their time because the worker may have no more.
        EvictedForTable => "evicted-for-table",
        /// ICMP errors that belong to a session.
        RelatedErrors => "related-errors",
        /// Packets of interfaces outside that belong to no session, and went on.
        Outside => "outside",
        /// Fragments without ports that went on without a session.
        Fragments => "passed-fragments",
        /// Packets of protocols without sessions that went on.
        Protocols => "passed-protocols",
        /// Packets that end before their transport header does and went on.
        Short => "passed-short",
        /// ICMP errors about no session that went on.
        Errors => "passed-errors",
        /// Packets of flows that are another worker's: they were handed over to it.
        HandedOver => "handed-over",
    }
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// It passes these services, or is dropped at their beginning.
    Pass(Chain),
    Drop(Drop),
    /// This worker has its flow.
    HandOver(u32),
}

/// It goes on as it is.
const PASS: Verdict = Verdict::Pass(Chain(0));

/// One worker's instance.
pub(super) struct Input<F: Tuple> {
    tenants: Part<Tenants>,
    arcs: Part<Arcs>,
    sessions: LocalKey<Sessions>,
    onward: Onward,
    keys: Box<[Key; MAX_VECTOR]>,
    marks: Box<[Mark; MAX_VECTOR]>,
    hashes: Box<[u32; MAX_VECTOR]>,
    found: Box<[u32; MAX_VECTOR]>,
    verdicts: Box<[Verdict; MAX_VECTOR]>,
    family: PhantomData<F>,
}

impl<F: Tuple> Input<F> {
    /// The node as a feature of `arc`.
    pub(super) fn boxed(cx: &NodeContext<'_>, arc: &str) -> Box<dyn Node> {
        Box::new(Self {
            tenants: cx.table(),
            arcs: cx.table(),
            sessions: cx.local(),
            onward: Onward::of_input(cx, arc),
            keys: Box::new([Key::NONE; MAX_VECTOR]),
            marks: Box::new([Mark::default(); MAX_VECTOR]),
            hashes: Box::new([0; MAX_VECTOR]),
            found: Box::new([NONE; MAX_VECTOR]),
            verdicts: Box::new([PASS; MAX_VECTOR]),
            family: PhantomData,
        })
    }
}

impl<F: Tuple> Node for Input<F> {
    fn process(&mut self, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>) {
        tiered::run(self, ctx, frame);
    }

    fn trace(&self, packets: &Packets, slot: SlotId, out: &mut dyn fmt::Write) -> fmt::Result {
        // Nobody has looked it up yet: the field is ours until then.
        match Flow(packets.meta(slot).next_hop) {
            Flow::NONE => out.write_str("no session"),
            flow => write!(out, "session {}", flow.session()),
        }
    }
}

impl<F: Tuple> Tiered for Input<F> {
    #[inline(always)]
    fn vector<S: Simd>(&mut self, _: S, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>) {
        let tables = ctx.tables;
        let (tenants, arcs) = (tables.get(self.tenants), tables.get(self.arcs));
        let n = frame.slots.len();
        for ((slot, key), mark) in frame.slots.iter().zip(self.keys.iter_mut()).zip(self.marks.iter_mut()) {
            let context = tenants.place(ctx.packets.meta(*slot).rx_if).unwrap_or_default().context;
            (*key, *mark) = F::read(ctx.packets, *slot, context);
        }
        let sessions = ctx.locals.get(self.sessions);
        let counted = |session: &Session| session.packets[0];
        sessions.table.lookup(&self.keys[..n], &mut self.hashes[..], &mut self.found[..], counted);
        let mut vector = Vector {
            tenants,
            sessions,
            now: ctx.now,
            tick: ctx.now >> TICK_BITS,
            worker: ctx.worker as u32,
            is_v6: F::IS_V6,
            counts: [0; Counter::SPECS.len()],
            evicted: Evicted::default(),
        };
        let removals = vector.sessions.removals;
        for (at, slot) in frame.slots.iter().enumerate() {
            let (key, hash) = (self.keys[at], self.hashes[at]);
            if vector.sessions.removals != removals {
                // One made room since: its number may be another's.
                self.found[at] = vector.sessions.table.find(&key, hash).unwrap_or(NONE);
            }
            let meta = ctx.packets.meta_mut(*slot);
            let place = tenants.place(meta.rx_if).unwrap_or_default();
            let found = (key, hash, self.found[at]);
            let (verdict, flow, version) = vector.packet(place, found, self.marks[at], meta.len());
            // Nobody needs these fields before the lookup: services find the session by them.
            (meta.next_hop, meta.tx_if) = (flow.0, version);
            self.verdicts[at] = verdict;
        }
        let (mut counts, evicted) = (vector.counts, vector.evicted);
        counts[Counter::EvictedForQuota as usize] = evicted.for_quota;
        counts[Counter::EvictedForTable as usize] = evicted.for_table;
        for (counter, count) in counts.into_iter().enumerate().filter(|(_, count)| *count > 0) {
            ctx.count(counter as u8, count);
        }
        for ((slot, next), verdict) in frame.slots.iter().zip(frame.next.iter_mut()).zip(self.verdicts.iter())
        {
            *next = match verdict {
                Verdict::Pass(chain) => self.onward.edge(*chain, false, arcs, ctx.packets.meta_mut(*slot)),
                Verdict::Drop(reason) => ctx.drop(*slot, *reason),
                Verdict::HandOver(owner) => match ctx.hand_over(*slot, *owner as usize, F::HANDOVER) {
                    Ok(()) => {
                        ctx.count(Counter::HandedOver, 1);
                        GONE
                    }
                    Err(Full) => ctx.drop(*slot, Drop::HandoverFull),
                },
            };
        }
    }
}

/// A vector's packets at their sessions.
struct Vector<'a> {
    tenants: &'a Tenants,
    sessions: &'a mut Sessions,
    now: u64,
    tick: u64,
    worker: u32,
    is_v6: bool,
    counts: [u64; Counter::SPECS.len()],
    evicted: Evicted,
}

/// What becomes of a packet, its session and the version of that.
type Passage = (Verdict, Flow, u16);

impl Vector<'_> {
    #[inline(always)]
    fn packet(
        &mut self,
        place: Place,
        (key, hash, found): (Key, u32, u32),
        mark: Mark,
        bytes: u32,
    ) -> Passage {
        if found != NONE
            && mark.kind == Kind::Flow
            && let Some(passage) = self.of_session(found, mark, bytes)
        {
            return passage;
        }
        self.unusual(place, (key, hash, found), mark, bytes)
    }

    /// `None` where its tenant is gone.
    #[inline(always)]
    fn of_session(&mut self, session: u32, mark: Mark, bytes: u32) -> Option<Passage> {
        let packet = (mark.from_high, bytes);
        let (chain, version) = self.sessions.packet(self.tenants, session, packet, self.tick)?;
        Some((Verdict::Pass(chain), Flow::new(session, self.is_v6, mark.from_high), version))
    }

    /// The first packet of a flow, or one of none.
    #[inline(never)]
    fn unusual(
        &mut self,
        place: Place,
        (key, hash, found): (Key, u32, u32),
        mark: Mark,
        bytes: u32,
    ) -> Passage {
        if found == NONE
            && matches!(mark.kind, Kind::Flow | Kind::Error)
            && let Some(owner) = self.elsewhere(&key)
        {
            return (Verdict::HandOver(owner), Flow::NONE, 0);
        }
        let (counter, reason) = match mark.kind {
            Kind::Link => return (PASS, Flow::NONE, 0),
            Kind::Error if found != NONE => {
                self.counts[Counter::RelatedErrors as usize] += 1;
                let chain = self.sessions.related(found, mark.from_high, bytes);
                return (Verdict::Pass(chain), Flow::new(found, self.is_v6, mark.from_high), 0);
            }
            Kind::Flow => {
                if found != NONE {
                    // Of a tenant that is gone.
                    self.sessions.end(found);
                }
                match self.first(place, key, hash, mark, bytes) {
                    Ok(passage) => return passage,
                    Err(reason) => return (Verdict::Drop(reason), Flow::NONE, 0),
                }
            }
            Kind::Error => (Counter::Errors, Drop::UnrelatedError),
            Kind::Fragment => (Counter::Fragments, Drop::Fragment),
            Kind::Protocol => (Counter::Protocols, Drop::Protocol),
            Kind::Short => (Counter::Short, Drop::TooShort),
        };
        let passed = match self.tenants.get(place.tenant).map(|tenant| tenant.untracked) {
            Some(Untracked::Drop) => return (Verdict::Drop(reason), Flow::NONE, 0),
            Some(Untracked::Pass) => counter,
            None => Counter::Outside,
        };
        self.counts[passed as usize] += 1;
        (PASS, Flow::NONE, 0)
    }

    /// The worker that has the flow, where that is another one.
    #[inline(always)]
    fn elsewhere(&self, key: &Key) -> Option<u32> {
        (self.tenants.workers > 1).then(|| self.tenants.owner(key)).filter(|owner| *owner != self.worker)
    }

    /// A flow's first packet here: its session, or why it has none.
    fn first(&mut self, place: Place, key: Key, hash: u32, mark: Mark, bytes: u32) -> Result<Passage, Drop> {
        let none = (PASS, Flow::NONE, 0);
        let Some(tenant) = self.tenants.get(place.tenant) else {
            // An earlier one of this vector may have begun it; else it is nobody's.
            let found = self.sessions.table.find(&key, hash);
            let passage = found.and_then(|session| self.of_session(session, mark, bytes));
            self.counts[Counter::Outside as usize] += u64::from(passage.is_none());
            return Ok(passage.unwrap_or(none));
        };
        let key_of_it = (key, hash, mark.from_high);
        let begun =
            self.sessions.begin(self.tenants, place.tenant, tenant, key_of_it, self.now, &mut self.evicted);
        let (session, new) = begun.map_err(|why| {
            tenant.occupancy.refused.fetch_add(1, core::sync::atomic::Ordering::Relaxed);
            match why {
                NoRoom::Quota => Drop::Quota,
                NoRoom::Table => Drop::TableFull,
                NoRoom::Rate => Drop::Rate,
            }
        })?;
        self.counts[Counter::Created as usize] += u64::from(new);
        Ok(self.of_session(session, mark, bytes).unwrap_or(none))
    }
}
