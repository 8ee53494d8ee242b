//! What all services have in common: a node that takes each packet to its session, asks the service, and sends it to the next one.
//!
//! A service is one file, which says what it does with a packet ([`Serve`]) and declares a node made by [`Serving`], and one line
//! in `SERVICES`.

use super::entry::{Direction, Flow};
use super::input::of_later;
use super::lifecycle::Step;
pub(super) use super::onward::RESUMES;
use super::onward::{Back, Numbers, Onward};
pub use super::serve::Verdict;
use super::serve::{AHEAD, COUNTERS};
pub(super) use super::serve::{Ahead, Arrival, Entry, Oncoming, Serve, Telling, Visit};
use super::services::Chain;
use super::sessions::Sessions;
use super::tenants::{TICK_BITS, Tenants};
use crate::icmp;
use core::fmt;
use graph::arc::Arcs;
use graph::locals::LocalKey;
use graph::packet::{Meta, Packets, SlotId};
use graph::publish::{Key as Part, Tables};
use graph::{Ctx, Frame, Node, NodeContext, prefetch_read};
use wire::{Icmpv4Error, Icmpv6Error, IpProtocol};

/// Behind all drop reasons: packets that a [`Verdict::To`] takes, by the edge in the lower bits.
const LEAVES: u16 = 0xff00;

/// One worker's instance of a service's node.
pub(super) struct Serving<S> {
    service: S,
    me: u8,
    /// Services before it, on a chain.
    before: u64,
    tenants: Part<Tenants>,
    arcs: Part<Arcs>,
    sessions: LocalKey<Sessions>,
    onward: Onward,
    /// Drop reason of a packet whose session had to make room between two nodes.
    gone: u16,
    /// That of one that would begin a session anew whose source has as many as it may.
    refused: u16,
    counts: [u64; COUNTERS],
}

impl<S: Serve> Serving<S> {
    /// The node of a service.
    pub(super) fn boxed(cx: &NodeContext<'_>, service: S) -> Box<dyn Node> {
        let me = Numbers::of(cx).number(cx.name()).unwrap_or_default();
        Box::new(Self {
            service,
            me,
            before: (1 << me) - 1,
            tenants: cx.table(),
            arcs: cx.table(),
            sessions: cx.local(),
            onward: Onward::of_service(cx),
            gone: cx.drop_of("ip4-session-input", "session-gone").unwrap_or_default(),
            refused: cx.drop_of("ip4-session-input", "source-quota").unwrap_or_default(),
            counts: [0; COUNTERS],
        })
    }
}

impl<S: Serve> Node for Serving<S> {
    fn process(&mut self, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>) {
        let tables = ctx.tables;
        let (tenants, arcs) = (tables.get(self.tenants), tables.get(self.arcs));
        let (tick, own) = (ctx.now >> TICK_BITS, ctx.drop_id(0));
        let sessions = ctx.locals.get(self.sessions);
        let here = Here { tenants, tables, worker: ctx.worker as u32, now: ctx.now, tick, own };
        let mut back = Back::default();
        let flow_of = |packets: &Packets, slot: SlotId| Flow(packets.meta(slot).next_hop);
        let fetch = |packets: &Packets, sessions: &Sessions, slot: SlotId, ahead: Ahead| {
            let flow = flow_of(packets, slot);
            if ahead == Ahead::First {
                sessions.table.soon(flow.session(), S::MOVES, prefetch_read);
            }
            S::fetch(sessions, flow, ahead);
        };
        let (packets, slots, now) = (&*ctx.packets, frame.slots, ctx.now);
        self.service.vector(Oncoming { packets, slots, sessions, tenants, worker: here.worker, now });
        frame.slots.iter().take(AHEAD).for_each(|slot| fetch(ctx.packets, sessions, *slot, Ahead::First));
        frame.slots.iter().take(AHEAD / 2).for_each(|slot| fetch(ctx.packets, sessions, *slot, Ahead::Then));
        for (at, (slot, next)) in frame.slots.iter().zip(frame.next.iter_mut()).enumerate() {
            for (ahead, step) in [(AHEAD, Ahead::First), (AHEAD / 2, Ahead::Then)] {
                if let Some(slot) = frame.slots.get(at + ahead) {
                    fetch(ctx.packets, sessions, *slot, step);
                }
            }
            let flow = flow_of(ctx.packets, *slot);
            let passage = self.packet(ctx.packets, (at, *slot), flow, sessions, &here);
            let meta = ctx.packets.meta_mut(*slot);
            *next = match passage {
                Ok(rest) => self.onward.edge_back(rest, flow.is_v6(), arcs, meta, &mut back),
                Err(edge) if edge >= LEAVES => edge as u8,
                Err(reason) => {
                    meta.drop_reason = reason;
                    if reason != self.gone
                        && let Some(session) = sessions.table.get(flow.session())
                    {
                        sessions.dropped.count(tenants, session.tenant, reason);
                    }
                    match S::TOLD.filter(|telling| reason == own + u16::from(telling.reason)) {
                        Some(telling) => tell(&telling, flow, sessions, meta),
                        None => 0,
                    }
                }
            };
        }
        self.onward.correct(ctx.packets, (frame.slots, frame.next), sessions, tenants);
        for (counter, count) in self.counts.iter_mut().enumerate().filter(|(_, count)| **count > 0) {
            ctx.count(counter as u8, core::mem::take(count));
        }
    }

    fn trace(&self, packets: &Packets, slot: SlotId, out: &mut dyn fmt::Write) -> fmt::Result {
        write!(out, "session {}", Flow(packets.meta(slot).next_hop).session())
    }
}

/// The edge of a dropped packet whose sender is told. The packet is as it came: nobody has translated it.
#[cold]
fn tell(telling: &Telling, flow: Flow, sessions: &Sessions, meta: &mut Meta) -> u8 {
    let protocol = sessions.table.key(flow.session()).map(|key| key.protocol());
    if protocol == Some(IpProtocol::TCP.0) {
        return telling.reset;
    }
    if flow.is_v6() {
        icmp::request_v6(meta, Icmpv6Error::PortUnreachable);
    } else {
        icmp::request_v4(meta, Icmpv4Error::PortUnreachable);
    }
    telling.icmp[usize::from(flow.is_v6())]
}

/// What is the same for all packets of a vector.
struct Here<'a> {
    tenants: &'a Tenants,
    tables: &'a Tables,
    worker: u32,
    /// Monotonic nanoseconds.
    now: u64,
    tick: u64,
    /// Graph-wide id of the node's first drop reason.
    own: u16,
}

impl<S: Serve> Serving<S> {
    /// A packet before the service sees it: what services it still passes where it is done with, or why it is dropped.
    #[inline(never)]
    fn enter(
        &mut self,
        packets: &Packets,
        (at, slot): (usize, SlotId),
        flow: Flow,
        sessions: &mut Sessions,
        here: &Here<'_>,
    ) -> Option<Result<Chain, u16>> {
        let (session, tenants, tick) = (flow.session(), here.tenants, here.tick);
        let (me, counts) = (self.me, &mut self.counts);
        let (tables, worker, now) = (here.tables, here.worker, here.now);
        let from_high = flow.is_from_high();
        let mut arrival = Arrival {
            packets,
            slot,
            at,
            session,
            sessions,
            tenants,
            tables,
            worker,
            now,
            tick,
            from_high,
            me,
            counts,
        };
        match self.service.enter(&mut arrival) {
            Entry::Goes => None,
            Entry::Passes => {
                let session = sessions.table.get_mut(session)?;
                let chain = session.chain[session.direction(from_high) as usize];
                session.heard_if(chain.0 & self.before == 0, tick);
                Some(Ok(chain.behind(me)))
            }
            verdict @ (Entry::Refused(reason) | Entry::Blocked(reason)) => {
                let reason = here.own + u16::from(reason);
                let ends = matches!(verdict, Entry::Refused(_));
                sessions.block(tenants, session, reason, ends, tick);
                Some(Err(reason))
            }
            Entry::AnswersBlocked(reason) => {
                let reason = here.own + u16::from(reason);
                let session = sessions.table.get_mut(session)?;
                session.chain[Direction::Reverse as usize] = Chain::blocked(reason);
                Some(Err(reason))
            }
        }
    }

    /// One packet: the services that it still passes, or why it is dropped (graph-wide id), or that it [leaves](LEAVES).
    #[inline(always)]
    fn packet(
        &mut self,
        packets: &mut Packets,
        (at, slot): (usize, SlotId),
        flow: Flow,
        sessions: &mut Sessions,
        here: &Here<'_>,
    ) -> Result<Chain, u16> {
        // Its session may have made room for another since, which has its number now.
        if !is_there(sessions, flow, packets.meta(slot).tx_if) {
            return self.later(packets, (at, slot), flow, sessions, here);
        }
        self.at_its_session::<false>(packets, (at, slot), flow, sessions, here)
    }

    /// The same with a later fragment. Not for others: what they do to their session is in registers, as long as nothing else has the place where that stands.
    #[cold]
    #[inline(never)]
    fn later(
        &mut self,
        packets: &mut Packets,
        (at, slot): (usize, SlotId),
        flow: Flow,
        sessions: &mut Sessions,
        here: &Here<'_>,
    ) -> Result<Chain, u16> {
        if !is_there(sessions, flow, of_later(packets.meta(slot).tx_if)) {
            return Err(self.gone);
        }
        self.at_its_session::<true>(packets, (at, slot), flow, sessions, here)
    }

    #[inline(always)]
    fn at_its_session<const LATER: bool>(
        &mut self,
        packets: &mut Packets,
        (at, slot): (usize, SlotId),
        flow: Flow,
        sessions: &mut Sessions,
        here: &Here<'_>,
    ) -> Result<Chain, u16> {
        let Here { tenants, tick, own, .. } = *here;
        let bytes = packets.meta(slot).len();
        let (mut handle, mut key, mut session) = sessions.table.visit(flow.session()).ok_or(self.gone)?;
        let direction = session.direction(flow.is_from_high());
        // A packet before this one in the vector may have had it blocked.
        if let Some(reason) = session.chain[direction as usize].block() {
            return Err(reason);
        }
        if S::ENTERS && S::wants(session) {
            if let Some(done) = self.enter(packets, (at, slot), flow, sessions, here) {
                return done;
            }
            (handle, key, session) = sessions.table.visit(flow.session()).ok_or(self.gone)?;
        }
        let mut visit = Visit {
            packets: &mut *packets,
            slot,
            tenants,
            key: &key,
            handle,
            session,
            direction,
            from_high: flow.is_from_high(),
            is_v6: flow.is_v6(),
            tcp: &mut sessions.tcp,
            stats: &mut sessions.stats,
            translations: &sessions.translations,
            redirected: &mut sessions.redirected,
            decided: &mut sessions.decided,
            step: Step::Stays,
            me: self.me,
            at,
            counts: &mut self.counts,
        };
        let verdict = if LATER { self.service.fragment(&mut visit) } else { self.service.packet(&mut visit) };
        let step = visit.step;
        // Whether a packet is the session's is said by the first service that it comes to: those behind don't know what that one thinks of it.
        let is_first = session.chain[direction as usize].0 & self.before == 0;
        if step == Step::Stays && matches!(verdict, Verdict::Next | Verdict::Skip) {
            session.heard_if(is_first, tick);
        }
        let mut rest = session.chain[direction as usize].behind(self.me);
        match step {
            Step::Stays | Step::Doubted => {}
            Step::Moved => sessions.moved(tenants, flow.session(), tick),
            Step::Reopened | Step::Turned => {
                let side = if step == Step::Turned { Direction::Reverse } else { Direction::Forward };
                let interface = packets.meta(slot).rx_if;
                let (packet, reasons) = ((interface, side, bytes), (self.gone, self.refused));
                sessions.restart(tenants, flow.session(), packet, tick, reasons)?;
                let session = sessions.table.get(flow.session());
                rest = session.map_or(rest, |session| session.chain[0].behind(self.me));
            }
        }
        match verdict {
            Verdict::Next => Ok(rest),
            Verdict::Skip => Ok(Chain::default()),
            Verdict::Drop(reason) => Err(own + u16::from(reason)),
            Verdict::To(edge) => Err(LEAVES | u16::from(edge)),
            Verdict::Block(reason) => {
                let reason = own + u16::from(reason);
                sessions.block_for_good(tenants, flow.session(), reason, tick);
                Err(reason)
            }
            Verdict::End(reason) => {
                let reason = own + u16::from(reason);
                sessions.block(tenants, flow.session(), reason, true, tick);
                Err(reason)
            }
        }
    }
}

/// Whether the worker has that session, in that version.
#[inline(always)]
fn is_there(sessions: &mut Sessions, flow: Flow, version: u16) -> bool {
    sessions.table.visit(flow.session()).is_some_and(|(handle, ..)| handle.generation as u16 == version)
}
