//! The node that finds or begins the sessions of a vector, for both IP versions.

use super::entry::Flow;
use super::fragments::{self, Pieces};
use super::onward::Onward;
use super::services::Chain;
use super::sessions::{Evicted, NoRoom, Sessions};
use super::slow_path::{Case, SlowAction};
use super::tenants::{Place, TICK_BITS, Tenant, Tenants};
use super::tuple::{Kind, Mark, begins_connection, tcp_flags};
use super::{acl, classes};
use crate::tiered::{self, Tiered};
use core::fmt;
use core::marker::PhantomData;
use core::slice;
use graph::arc::Arcs;
use graph::engine::MAX_VECTOR;
use graph::handover::Full;
use graph::locals::LocalKey;
use graph::packet::{Flags, Packets, SlotId, Vector};
use graph::publish::Key as Part;
use graph::simd::Simd;
use graph::{Ctx, Frame, GONE, IfIndex, Node, NodeContext, prefetch_read};
use tables::session::{Key, Look, NONE, is_alias};
use wire::IpProtocol;

graph::drops! {
    /// Why a tenant's packet gets no further.
    pub(super) enum Drop {
        /// The tenant has as many sessions as it may, and none of them makes room: raise its quota or see who fills it.
        Quota => "quota", Loss,
        /// The tenant's sessions begin faster than they may.
        Rate => "new-session-rate", Loss,
        /// The worker has as many sessions as it may, and none of them makes room.
        TableFull => "table-full", Loss,
        /// A protocol that has no sessions, and the tenant lets nothing pass that has none.
        Protocol => "protocol", Loss,
        /// The packet ends before its transport header does, or that lies too far behind, or it is a fragment that overlaps one; and the tenant
        /// lets nothing pass that has no session, or asks rules (RFC 1858, RFC 3128, RFC 7112).
        TooShort => "too-short", Invalid,
        /// An ICMP error about no session, and the tenant lets nothing pass that has none.
        UnrelatedError => "unrelated-error", Loss,
        /// An ICMP error about a session whose tenant lets none pass.
        RelatedError => "related-error", Loss,
        /// A fragment, and the tenant lets none pass.
        Fragment => "fragment", Loss,
        /// An ICMP error about a session of which rules have still to say whether it may be, or again since they have changed.
        UndecidedError => "undecided-error", Loss,
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
        /// Packets of protocols without sessions that went on.
        Protocols => "passed-protocols",
        /// Packets that end before their transport header does and went on.
        Short => "passed-short",
        /// ICMP errors about no session that went on.
        Errors => "passed-errors",
        /// Fragments that went on without a session, as their tenant says.
        Fragments => "passed-fragments",
        /// Packets whose session found no room that went on without one, as their tenant says.
        Overflow => "passed-overflow",
        /// Packets of flows that are another worker's: they were handed over to it.
        HandedOver => "handed-over",
    }
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// It passes these services, or is dropped at their beginning.
    Pass(Chain),
    /// The worker has to do with it.
    Rare(Rare),
}

/// What isn't done while a worker's sessions are in hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rare {
    /// Second: number of its tenant.
    Drop(Drop, u16),
    /// This worker has its flow.
    HandOver(u32),
    /// Which flow it belongs to has to be found out: it is a fragment.
    Fragment,
}

/// The edge of both versions' nodes for fragments.
const FRAGMENTS: u8 = 1;

/// What is written as the session's version to a later fragment: no service takes it for a packet with a transport header, and none has to ask.
#[inline(always)]
pub(super) const fn of_later(version: u16) -> u16 {
    !version
}

/// What a packet that isn't an ordinary one is to sessions.
#[inline(always)]
fn read<F: Pieces>(packets: &Packets, slot: SlotId, context: u16) -> (Key, Mark) {
    let (key, mut mark) = fragments::seen::<F>(packets, slot, context, F::read(packets, slot, context));
    if mark.kind == Kind::Flow && packets.meta(slot).flags.has(Flags::FRAGMENT) {
        mark.kind = Kind::First;
    }
    (key, mark)
}

/// It goes on as it is.
const PASS: Verdict = Verdict::Pass(Chain(0));

/// One worker's instance.
pub(super) struct Input<F: Pieces> {
    tenants: Part<Tenants>,
    arcs: Part<Arcs>,
    sessions: LocalKey<Sessions>,
    onward: Onward,
    looks: Box<[Look<Mark>; MAX_VECTOR]>,
    /// Packets of the vector that go no further here, by their places.
    rare: Vec<(usize, Rare)>,
    family: PhantomData<F>,
}

impl<F: Pieces> Input<F> {
    /// The node as a feature of `arc`.
    pub(super) fn boxed(cx: &NodeContext<'_>, arc: &str) -> Box<dyn Node> {
        Box::new(Self {
            tenants: cx.table(),
            arcs: cx.table(),
            sessions: cx.local(),
            onward: Onward::of_input(cx, arc),
            looks: Box::new([Look::new(Key::NONE, Mark::default()); MAX_VECTOR]),
            rare: Vec::with_capacity(MAX_VECTOR),
            family: PhantomData,
        })
    }
}

impl<F: Pieces> Node for Input<F> {
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

impl<F: Pieces> Tiered for Input<F> {
    #[inline(always)]
    fn vector<S: Simd>(&mut self, _: S, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>) {
        let tables = ctx.tables;
        let (tenants, arcs) = (tables.get(self.tenants), tables.get(self.arcs));
        self.read(ctx.packets, frame.slots, tenants);
        let mut there = There {
            tenants,
            sessions: ctx.locals.get(self.sessions),
            now: ctx.now,
            tick: ctx.now >> TICK_BITS,
            worker: ctx.worker as u32,
            family: PhantomData::<F>,
            counts: [0; Counter::SPECS.len()],
            evicted: Evicted::default(),
        };
        let looks = &mut self.looks[..frame.slots.len()];
        there.sessions.table.hashes(looks, prefetch_read);
        if there.sessions.table.candidates(looks, prefetch_read, F::IS_V6) {
            there.sessions.table.by_own_keys(looks, prefetch_read, Mark::turn);
        }
        self.visit(&mut there, ctx.packets, frame, arcs);
        let (mut counts, evicted) = (there.counts, there.evicted);
        for (at, verdict) in self.rare.drain(..) {
            let slot = frame.slots[at];
            frame.next[at] = match verdict {
                Rare::Drop(reason, tenant) => {
                    let edge = ctx.drop(slot, reason);
                    let reason = ctx.packets.meta(slot).drop_reason;
                    ctx.locals.get(self.sessions).dropped.count(tenants, tenant, reason);
                    edge
                }
                Rare::HandOver(owner) => match ctx.hand_over(slot, owner as usize, F::HANDOVER) {
                    Ok(()) => {
                        counts[Counter::HandedOver as usize] += 1;
                        GONE
                    }
                    Err(Full) => ctx.drop(slot, Drop::HandoverFull),
                },
                Rare::Fragment => FRAGMENTS,
            };
        }
        counts[Counter::EvictedForQuota as usize] = evicted.for_quota;
        counts[Counter::EvictedForTable as usize] = evicted.for_table;
        for (counter, count) in counts.into_iter().enumerate().filter(|(_, count)| *count > 0) {
            ctx.count(counter as u8, count);
        }
    }
}

impl<F: Pieces> Input<F> {
    /// Reads what the packets are to sessions.
    #[inline(always)]
    fn read(&mut self, packets: &mut Packets, slots: &[SlotId], tenants: &Tenants) {
        let context = |interface| tenants.place(interface).unwrap_or_default().context;
        let mut last = slots.first().map_or(0, |slot| packets.meta(*slot).rx_if);
        let mut its = context(last);
        let mut looks = self.looks.iter_mut();
        let mut vector = Vector::new(slots);
        loop {
            vector.stretch(
                packets,
                #[inline(always)]
                |meta, area| {
                    let quick = F::quick(meta, area, its).filter(|_| meta.rx_if == last);
                    let Some((key, from_high)) = quick else { return false };
                    if let Some(look) = looks.next() {
                        (look.key, look.mark) = (key, Mark { kind: Kind::Flow, from_high });
                    }
                    true
                },
            );
            let (Some((_, slot)), Some(look)) = (vector.next(), looks.next()) else { break };
            last = packets.meta(slot).rx_if;
            its = context(last);
            (look.key, look.mark) = read::<F>(packets, slot, its);
        }
    }

    /// Takes the packets to their sessions.
    #[inline(always)]
    fn visit(&mut self, there: &mut There<'_, F>, packets: &mut Packets, frame: &mut Frame<'_>, arcs: &Arcs) {
        let onward = self.onward;
        let mut all = self.looks.iter().zip(frame.next.iter_mut());
        let mut vector = Vector::new(frame.slots);
        loop {
            let mut unusual = None;
            vector.stretch(
                packets,
                #[inline(always)]
                |meta, _| {
                    let Some((look, next)) = all.next() else { return false };
                    let passage = match look.mark.kind {
                        Kind::Flow => there.of_session(look.session, look, meta.len()),
                        _ => None,
                    };
                    let Some((chain, flow, version)) = passage else {
                        unusual = Some((look, next));
                        return false;
                    };
                    // Nobody needs these fields before the lookup: services find the session by them.
                    (meta.next_hop, meta.tx_if) = (flow.0, version);
                    *next = onward.edge(chain, false, arcs, meta);
                    true
                },
            );
            let (Some((at, slot)), Some((look, next))) = (vector.next(), unusual) else { break };
            let (verdict, flow, version) = there.unusual(packets, slot, look);
            match verdict {
                Verdict::Pass(chain) => {
                    let meta = packets.meta_mut(slot);
                    let version = if look.mark.kind == Kind::Later { of_later(version) } else { version };
                    (meta.next_hop, meta.tx_if) = (flow.0, version);
                    *next = onward.edge(chain, false, arcs, meta);
                }
                Verdict::Rare(verdict) => {
                    // One that is handed over keeps the ports of its datagram.
                    if look.mark.kind != Kind::Later {
                        packets.meta_mut(slot).next_hop = Flow::NONE.0;
                    }
                    self.rare.push((at, verdict));
                }
            }
        }
    }
}

/// A worker's sessions as the packets of a vector meet them.
struct There<'a, F> {
    tenants: &'a Tenants,
    sessions: &'a mut Sessions,
    now: u64,
    tick: u64,
    worker: u32,
    family: PhantomData<F>,
    counts: [u64; Counter::SPECS.len()],
    evicted: Evicted,
}

/// What becomes of a packet, its session and the version of that.
type Passage = (Verdict, Flow, u16);

impl<F: Pieces> There<'_, F> {
    /// Takes a packet of session `index` into account, and says what it passes. `None` where that isn't the packet's, or the
    /// session's tenant is gone.
    #[inline(always)]
    fn of_session(&mut self, index: u32, look: &Look<Mark>, bytes: u32) -> Option<(Chain, Flow, u16)> {
        let from_high = look.mark.from_high;
        let (chain, version) = self.sessions.packet(
            self.tenants,
            (index, &look.key, F::IS_V6),
            (from_high, bytes),
            self.tick,
        )?;
        Some((chain, Flow::new(index, F::IS_V6, from_high), version))
    }

    /// A packet that isn't simply one of its session's: the first of a flow, or one of none.
    #[inline(never)]
    fn unusual(&mut self, packets: &Packets, slot: SlotId, look: &Look<Mark>) -> Passage {
        let meta = packets.meta(slot);
        let (interface, bytes) = (meta.rx_if, meta.len());
        let mut found = *look;
        found.session = self.sessions.table.find(&look.key, look.hash).unwrap_or(NONE);
        if is_alias(found.session) {
            self.sessions.table.by_own_keys(slice::from_mut(&mut found), prefetch_read, Mark::turn);
        }
        let (look, mark) = (&found, found.mark);
        let found = if is_alias(look.session) { NONE } else { look.session };
        if found == NONE
            && matches!(mark.kind, Kind::Flow | Kind::First | Kind::Later | Kind::Error)
            && let Some(owner) = self.elsewhere(&look.key)
        {
            return (Verdict::Rare(Rare::HandOver(owner)), Flow::NONE, 0);
        }
        let place = self.tenants.place(interface).unwrap_or_default();
        let (case, counter, reason) = match mark.kind {
            Kind::Link => return (PASS, Flow::NONE, 0),
            Kind::Error if found != NONE => {
                if let Some(tenant) = self.session_drops(found, Case::RelatedErrors) {
                    return (Verdict::Rare(Rare::Drop(Drop::RelatedError, tenant)), Flow::NONE, 0);
                }
                self.counts[Counter::RelatedErrors as usize] += 1;
                return match self.sessions.related(self.tenants, found, mark.from_high, bytes) {
                    Some((chain, version)) => {
                        (Verdict::Pass(chain), Flow::new(found, F::IS_V6, mark.from_high), version)
                    }
                    None => {
                        let tenant = self.sessions.table.get(found).map_or(0, |session| session.tenant);
                        (Verdict::Rare(Rare::Drop(Drop::UndecidedError, tenant)), Flow::NONE, 0)
                    }
                };
            }
            Kind::Flow | Kind::First | Kind::Later => {
                if mark.kind != Kind::Flow
                    && let Some(tenant) = self.session_drops(found, Case::Fragments)
                {
                    return (Verdict::Rare(Rare::Drop(Drop::Fragment, tenant)), Flow::NONE, 0);
                }
                if let Some((chain, flow, version)) = self.of_session(found, look, bytes) {
                    return (Verdict::Pass(chain), flow, version);
                }
                let mut look = *look;
                if found != NONE {
                    let is_tcp = look.key.protocol() == IpProtocol::TCP.0;
                    let is_syn = is_tcp && begins_connection(tcp_flags(packets, slot, F::IS_V6));
                    let begins = self.tenants.get(place.tenant).is_some();
                    let packet = (mark.from_high, bytes);
                    if let Some((chain, version)) =
                        self.sessions.stays(self.tenants, found, packet, (begins, is_syn))
                    {
                        return (Verdict::Pass(chain), Flow::new(found, F::IS_V6, mark.from_high), version);
                    }
                    // Of a tenant that is gone, or denied, and this one begins it anew. It may have been found by another key.
                    let end = self.sessions.why_not(self.tenants, found);
                    self.sessions.end(found, end);
                    (look.key, look.mark) = read::<F>(packets, slot, place.context);
                    look.hash = self.sessions.table.hash(&look.key);
                }
                return match self.first((place, interface), (packets, slot), &look) {
                    Ok(passage) => passage,
                    Err((reason, tenant)) => (Verdict::Rare(Rare::Drop(reason, tenant)), Flow::NONE, 0),
                };
            }
            Kind::Error => (Case::UnrelatedErrors, Counter::Errors, Drop::UnrelatedError),
            Kind::Fragment => (Case::Fragments, Counter::Fragments, Drop::Fragment),
            Kind::Protocol => (Case::UnknownProtocol, Counter::Protocols, Drop::Protocol),
            Kind::Short => (Case::TooShort, Counter::Short, Drop::TooShort),
        };
        // No rule is asked about a first fragment that hides its ports, and who puts the packet together would find them.
        let action = |tenant: &Tenant| match case {
            Case::TooShort if tenant.asks_rules() => SlowAction::Drop,
            _ => tenant.slow_path.action(case),
        };
        let passed = match self.tenants.get(place.tenant).map(action) {
            Some(SlowAction::Drop) => {
                return (Verdict::Rare(Rare::Drop(reason, place.tenant)), Flow::NONE, 0);
            }
            // From outside, whose it is isn't known before its datagram is.
            Some(SlowAction::Handle) | None if case == Case::Fragments => {
                return (Verdict::Rare(Rare::Fragment), Flow::NONE, 0);
            }
            Some(_) => counter,
            None => Counter::Outside,
        };
        self.counts[passed as usize] += 1;
        (PASS, Flow::NONE, 0)
    }

    /// The tenant of session `index`, where that has such packets dropped.
    fn session_drops(&self, index: u32, case: Case) -> Option<u16> {
        let number = self.sessions.table.get(index)?.tenant;
        self.tenants.get(number).filter(|tenant| tenant.slow_path.drops(case)).map(|_| number)
    }

    /// The worker that has the flow, where that is another one.
    #[inline(always)]
    fn elsewhere(&self, key: &Key) -> Option<u32> {
        (self.tenants.workers > 1).then(|| self.tenants.owner(key)).filter(|owner| *owner != self.worker)
    }

    /// A flow's first packet here: its session, or why it has none, and whose it would be.
    fn first(
        &mut self,
        (place, interface): (Place, IfIndex),
        (packets, slot): (&Packets, SlotId),
        look: &Look<Mark>,
    ) -> Result<Passage, (Drop, u16)> {
        let mut number = place.tenant;
        let mut tenant = self.tenants.get(number);
        if let Some(owner) = tenant.filter(|owner| !owner.classes.is_empty()) {
            // A later fragment has nothing of a transport header.
            let is_later = look.mark.kind == Kind::Later;
            let said = if is_later { (0, 0) } else { acl::first(packets, slot, &look.key) };
            let question = classes::question(&look.key, look.mark.from_high, said);
            let asking = &mut self.sessions.asking;
            if let Some(class) = owner.class(self.tenants, &question, asking, |met| met.acl.count(met.rule)) {
                (number, tenant) = (class, self.tenants.get(class));
            }
        }
        if tenant.is_none() {
            // From outside, hosts can be asked that are mapped.
            number = self.tenants.mapped.tenant(&look.key, look.mark.from_high);
            tenant = self.tenants.get(number).filter(|tenant| tenant.is_outside(interface));
        }
        let Some(tenant) = tenant else {
            // It is nobody's.
            self.counts[Counter::Outside as usize] += 1;
            return Ok((PASS, Flow::NONE, 0));
        };
        if look.mark.kind != Kind::Flow && tenant.slow_path.drops(Case::Fragments) {
            return Err((Drop::Fragment, number));
        }
        let flow = (look.key, look.hash, look.mark.from_high);
        let at = (number, interface);
        let begun = self.sessions.begin(self.tenants, at, tenant, flow, self.now, &mut self.evicted);
        let (session, new) = match begun {
            Ok(begun) => begun,
            Err(why) => {
                tenant.occupancy.refused.fetch_add(1, core::sync::atomic::Ordering::Relaxed);
                if tenant.slow_path.action(Case::Overflow) == SlowAction::Pass {
                    self.counts[Counter::Overflow as usize] += 1;
                    return Ok((PASS, Flow::NONE, 0));
                }
                let reason = match why {
                    NoRoom::Quota => Drop::Quota,
                    NoRoom::Table => Drop::TableFull,
                    NoRoom::Rate => Drop::Rate,
                };
                return Err((reason, number));
            }
        };
        self.counts[Counter::Created as usize] += u64::from(new);
        let passage = self.of_session(session, look, packets.meta(slot).len());
        Ok(passage
            .map_or((PASS, Flow::NONE, 0), |(chain, flow, version)| (Verdict::Pass(chain), flow, version)))
    }
}
