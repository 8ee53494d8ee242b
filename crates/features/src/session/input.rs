//! The node that finds or begins the sessions of a vector, for both IP versions.

use super::entry::Flow;
use super::fragments::{self, Pieces};
use super::link::Link;
use super::onward::Onward;
use super::parser;
use super::room::Evicted;
use super::services::Chain;
use super::sessions::Sessions;
use super::tenants::{Place, TICK_BITS, Tenants};
use super::tuple::{Kind, Mark};
use super::unusual::There;
use crate::tiered::{self, Tiered};
use core::fmt;
use core::marker::PhantomData;
use graph::arc::Arcs;
use graph::engine::MAX_VECTOR;
use graph::handover::Full;
use graph::locals::LocalKey;
use graph::packet::{Flags, Packets, SlotId, Vector};
use graph::publish::Key as Part;
use graph::simd::Simd;
use graph::{Ctx, Frame, GONE, IfIndex, Node, NodeContext, prefetch_read};
use tables::session::{Key, Look};

graph::drops! {
    /// Why a tenant's packet gets no further.
    pub(super) enum Drop {
        /// The tenant has as many sessions as it may, and none of them makes room: raise its quota or see who fills it.
        Quota => "quota", Loss,
        /// The packet's source has as many sessions of the tenant as one may (`max_sessions_per_source`): see what it does, or raise that.
        SourceQuota => "source-quota", Loss,
        /// The tenant's sessions begin faster than they may.
        Rate => "new-session-rate", Loss,
        /// The worker has as many sessions as it may, and none of them makes room.
        TableFull => "table-full", Loss,
        /// A TCP connection's first SYN while its tenant is short of room, and that has such dropped (`early_syn_drop`): repeated after a second, it begins a session.
        EarlySyn => "early-syn", Loss,
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
pub(super) enum Verdict {
    /// It passes these services, or is dropped at their beginning.
    Pass(Chain),
    /// The worker has to do with it.
    Rare(Rare),
}

/// What isn't done while a worker's sessions are in hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rare {
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
pub(super) fn read<F: Pieces>(packets: &Packets, slot: SlotId, context: u16) -> (Key, Mark) {
    let (key, mut mark) = fragments::seen::<F>(packets, slot, context, F::read(packets, slot, context));
    if mark.kind == Kind::Flow && packets.meta(slot).flags.has(Flags::FRAGMENT) {
        mark.kind = Kind::First;
    }
    (key, mark)
}

/// The same at an interface whose tenant may have a parser.
#[inline(always)]
pub(super) fn identify<F: Pieces>(packets: &Packets, slot: SlotId, place: Place) -> (Key, Mark) {
    if place.parser != 0
        && let Some(found) = parser::read::<F>(packets, slot, place)
    {
        return found;
    }
    read::<F>(packets, slot, place.context)
}

/// It goes on as it is.
pub(super) const PASS: Verdict = Verdict::Pass(Chain(0));

/// One worker's instance.
pub(super) struct Input<F: Pieces> {
    tenants: Part<Tenants>,
    arcs: Part<Arcs>,
    sessions: LocalKey<Sessions>,
    onward: Onward,
    link: Link,
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
            link: Link::new(cx),
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
        let sessions = ctx.locals.get(self.sessions);
        if sessions.waits() {
            sessions.take_up(tenants, ctx.worker as u32, ctx.now);
        }
        let mut there = There {
            tenants,
            sessions,
            now: ctx.now,
            tick: ctx.now >> TICK_BITS,
            worker: ctx.worker as u32,
            link: self.link,
            tables,
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
        self.onward.correct(ctx.packets, (frame.slots, frame.next), there.sessions, tenants);
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
        let at = |interface| tenants.place(interface).unwrap_or_default();
        // Where there is a parser, no interface's packets are read quickly: it is asked first.
        let ordinary = |interface, place: Place| if place.parser == 0 { interface } else { IfIndex::MAX };
        let first = slots.first().map_or(0, |slot| packets.meta(*slot).rx_if);
        let mut place = at(first);
        let (mut last, mut its) = (ordinary(first, place), place.context);
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
            let interface = packets.meta(slot).rx_if;
            place = at(interface);
            (last, its) = (ordinary(interface, place), place.context);
            (look.key, look.mark) = identify::<F>(packets, slot, place);
        }
    }

    /// Takes the packets to their sessions.
    #[inline(always)]
    fn visit(&mut self, there: &mut There<'_, F>, packets: &mut Packets, frame: &mut Frame<'_>, arcs: &Arcs) {
        let onward = &self.onward;
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
                        Kind::Parsed => there.of_parsed(look, meta.len()),
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
