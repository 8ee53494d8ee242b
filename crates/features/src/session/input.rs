//! The node that finds or begins the sessions of a vector, for both IP versions.

use super::lifecycle::Step;
use super::sessions::{Evicted, NoRoom, Sessions};
use super::tenants::{Place, TICK_BITS, Tenants, Untracked};
use super::tuple::{Kind, Mark, Tuple};
use super::{lifecycle, order};
use crate::tiered::{self, Tiered};
use core::fmt;
use core::marker::PhantomData;
use graph::arc::{ArcPlace, Arcs};
use graph::engine::MAX_VECTOR;
use graph::locals::LocalKey;
use graph::packet::{Packets, SlotId};
use graph::publish::Key as Part;
use graph::simd::Simd;
use graph::{Ctx, Frame, Node, NodeContext};
use tables::session::{Key, NONE};
use wire::IpProtocol;

graph::drops! {
    /// Why a tenant's packet gets no further.
    pub(super) enum Drop {
        /// The tenant has as many sessions as it may, and none of them makes room: raise its quota or see who fills it.
        Quota => "quota", Loss,
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
        /// The flow is another worker's, and the tenant lets nothing pass that has no session.
        Foreign => "foreign", Loss,
    }
}

graph::counters! {
    /// What is counted.
    pub(super) enum Counter {
        /// Sessions that began.
        Created => "created",
        /// TCP connections that were over and began anew.
        Reopened => "reopened",
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
        /// Packets of flows that are another worker's: they went on without a session.
        Foreign => "passed-foreign",
    }
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Pass,
    Drop(Drop),
}

/// One worker's instance.
pub(super) struct Input<F: Tuple> {
    tenants: Part<Tenants>,
    arcs: Part<Arcs>,
    sessions: LocalKey<Sessions>,
    place: ArcPlace,
    lifecycle: u8,
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
            place: cx.arc(arc),
            lifecycle: order().number(lifecycle::SERVICE.name).unwrap_or(u8::MAX),
            keys: Box::new([Key::NONE; MAX_VECTOR]),
            marks: Box::new([Mark::default(); MAX_VECTOR]),
            hashes: Box::new([0; MAX_VECTOR]),
            found: Box::new([NONE; MAX_VECTOR]),
            verdicts: Box::new([Verdict::Pass; MAX_VECTOR]),
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
        match packets.meta(slot).next_hop {
            NONE => out.write_str("no session"),
            session => write!(out, "session {session}"),
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
        sessions.table.lookup(&self.keys[..n], &mut self.hashes[..], &mut self.found[..]);
        let mut vector = Vector {
            tenants,
            sessions,
            tick: ctx.now >> TICK_BITS,
            worker: ctx.worker as u32,
            lifecycle: self.lifecycle,
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
            let (verdict, session) =
                vector.packet(place, (key, hash, self.found[at]), self.marks[at], meta.len());
            meta.next_hop = session;
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
                Verdict::Pass => {
                    let meta = ctx.packets.meta_mut(*slot);
                    let rx_if = meta.rx_if;
                    self.place.next(arcs, rx_if, meta)
                }
                Verdict::Drop(reason) => ctx.drop(*slot, *reason),
            };
        }
    }
}

/// A vector's packets at their sessions.
struct Vector<'a> {
    tenants: &'a Tenants,
    sessions: &'a mut Sessions,
    tick: u64,
    worker: u32,
    lifecycle: u8,
    counts: [u64; Counter::SPECS.len()],
    evicted: Evicted,
}

impl Vector<'_> {
    /// One packet; gives its session's number too.
    #[inline(always)]
    fn packet(
        &mut self,
        place: Place,
        (key, hash, found): (Key, u32, u32),
        mark: Mark,
        bytes: u32,
    ) -> (Verdict, u32) {
        if found != NONE && mark.kind == Kind::Flow {
            return (self.of_session(found, &key, mark, bytes), found);
        }
        self.unusual(place, (key, hash, found), mark, bytes)
    }

    #[inline(always)]
    fn of_session(&mut self, session: u32, key: &Key, mark: Mark, bytes: u32) -> Verdict {
        let packet = (IpProtocol(key.protocol()), mark.from_high, mark.flags, bytes);
        let step = self.sessions.packet(self.tenants, session, packet, self.lifecycle, self.tick);
        self.counts[Counter::Reopened as usize] += u64::from(step == Step::Reopened);
        Verdict::Pass
    }

    /// The first packet of a flow, or one of none.
    #[inline(never)]
    fn unusual(
        &mut self,
        place: Place,
        (key, hash, found): (Key, u32, u32),
        mark: Mark,
        bytes: u32,
    ) -> (Verdict, u32) {
        let (counter, reason) = match mark.kind {
            Kind::Link => return (Verdict::Pass, NONE),
            Kind::Error if found != NONE => {
                self.counts[Counter::RelatedErrors as usize] += 1;
                self.sessions.related(found, mark.from_high, bytes);
                return (Verdict::Pass, found);
            }
            Kind::Flow => match self.first(place, key, hash, mark, bytes) {
                Ok(session) => return (Verdict::Pass, session),
                Err(None) => (Counter::Foreign, Drop::Foreign),
                Err(Some(reason)) => return (Verdict::Drop(reason), NONE),
            },
            Kind::Error => (Counter::Errors, Drop::UnrelatedError),
            Kind::Fragment => (Counter::Fragments, Drop::Fragment),
            Kind::Protocol => (Counter::Protocols, Drop::Protocol),
            Kind::Short => (Counter::Short, Drop::TooShort),
        };
        match self.tenants.get(place.tenant).map(|tenant| tenant.untracked) {
            Some(Untracked::Drop) => (Verdict::Drop(reason), NONE),
            Some(Untracked::Pass) => {
                self.counts[counter as usize] += 1;
                (Verdict::Pass, NONE)
            }
            None => {
                self.counts[Counter::Outside as usize] += 1;
                (Verdict::Pass, NONE)
            }
        }
    }

    /// A flow's first packet: its session, or why it has none. `None`: another worker has it.
    fn first(
        &mut self,
        place: Place,
        key: Key,
        hash: u32,
        mark: Mark,
        bytes: u32,
    ) -> Result<u32, Option<Drop>> {
        let Some(tenant) = self.tenants.get(place.tenant) else {
            // An earlier one of this vector may have begun it; else it is nobody's.
            let found = self.sessions.table.find(&key, hash);
            match found {
                Some(session) => {
                    self.of_session(session, &key, mark, bytes);
                }
                None => self.counts[Counter::Outside as usize] += 1,
            }
            return Ok(found.unwrap_or(NONE));
        };
        if self.tenants.workers > 1 && self.tenants.owner(&key) != self.worker {
            return Err(None);
        }
        let key_of_it = (key, hash, mark.from_high);
        let begun =
            self.sessions.begin(self.tenants, place.tenant, tenant, key_of_it, self.tick, &mut self.evicted);
        let (session, new) = begun.map_err(|why| {
            tenant.occupancy.refused.fetch_add(1, core::sync::atomic::Ordering::Relaxed);
            Some(match why {
                NoRoom::Quota => Drop::Quota,
                NoRoom::Table => Drop::TableFull,
            })
        })?;
        self.counts[Counter::Created as usize] += u64::from(new);
        self.of_session(session, &key, mark, bytes);
        Ok(session)
    }
}
