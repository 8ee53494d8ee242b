//! What all services have in common: a node that takes each packet to its session, asks the service, and sends it to the next one.
//!
//! A service is one file, which says what it does with a packet ([`Serve`]) and declares a node made by [`Serving`], and one line
//! in `SERVICES`.

use super::entry::{Direction, Flow, Session};
use super::input::of_later;
use super::lifecycle::Step;
pub(super) use super::onward::RESUMES;
use super::onward::{Back, Numbers, Onward};
use super::redirect::Note;
use super::services::Chain;
use super::session_stats::Stats;
use super::sessions::Sessions;
use super::tcp_check::Track;
use super::tenants::{TICK_BITS, Tenant, Tenants};
use super::translate::Translations;
use crate::icmp;
use core::fmt;
use graph::arc::Arcs;
use graph::locals::LocalKey;
use graph::packet::{Meta, Packets, SlotId};
use graph::publish::{Key as Part, Tables};
use graph::{Ctx, Frame, Node, NodeContext, prefetch_read};
use tables::session::{Beside, Handle, Key};
use wire::{Icmpv4Error, Icmpv6Error, IpProtocol};

/// Counters that a service can have.
pub(super) const COUNTERS: usize = 16;

/// What becomes of a packet that a service has looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It passes the next service.
    Next,
    /// It passes none of the services that are left.
    Skip,
    /// It is dropped, for that reason of the service's node.
    Drop(u8),
    /// So are all that come after it, until its session ends or its [tenant changes](Tenant::policy).
    Block(u8),
    /// It is dropped, and its session ends.
    End(u8),
    /// It goes by that edge of the service's node, and nothing here has to do with it any more.
    To(u8),
}

/// Behind all drop reasons: packets that a [`Verdict::To`] takes, by the edge in the lower bits.
const LEAVES: u16 = 0xff00;
/// What becomes of a packet before a service sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// The service sees it.
    Goes,
    /// It passes the service unseen.
    Passes,
    /// It is dropped, for that reason of the service's node, and its session ends.
    Refused(u8),
    /// So are all that come after it, until its session ends or anything changes that the service has asked.
    Blocked(u8),
    /// So are all others to the initiator, likewise.
    AnswersBlocked(u8),
}

/// A packet that comes to a service, with all sessions of the worker.
pub(super) struct Arrival<'a> {
    pub(super) packets: &'a Packets,
    pub(super) slot: SlotId,
    /// The packet's place in its vector.
    pub(super) at: usize,
    pub(super) session: u32,
    pub(super) sessions: &'a mut Sessions,
    pub(super) tenants: &'a Tenants,
    pub(super) tables: &'a Tables,
    pub(super) worker: u32,
    /// Monotonic nanoseconds.
    pub(super) now: u64,
    pub(super) tick: u64,
    /// The higher endpoint of the session's key has sent it.
    pub(super) from_high: bool,
    /// The service's number.
    pub(super) me: u8,
    counts: &'a mut [u64; COUNTERS],
}

impl Arrival<'_> {
    /// Adds one to a counter of the service's node.
    pub(super) fn count(&mut self, counter: u8) {
        if let Some(count) = self.counts.get_mut(usize::from(counter)) {
            *count += 1;
        }
    }
}

/// A packet at its session, for a service.
pub(super) struct Visit<'a> {
    pub(super) packets: &'a mut Packets,
    pub(super) slot: SlotId,
    tenants: &'a Tenants,
    pub(super) key: &'a Key,
    pub(super) handle: Handle,
    pub(super) session: &'a mut Session,
    pub(super) direction: Direction,
    /// The higher endpoint of the session's key has sent it.
    pub(super) from_high: bool,
    pub(super) is_v6: bool,
    /// What `tcp-check` knows of sessions.
    pub(super) tcp: &'a mut Beside<Track>,
    /// What `session-stats` has noted of sessions.
    pub(super) stats: &'a mut Beside<Stats>,
    /// How packets of sessions look on their far side.
    pub(super) translations: &'a Translations,
    /// What `redirect` knows of sessions.
    pub(super) redirected: &'a mut Beside<Note>,
    /// What holds of sessions until their tenants change.
    pub(super) decided: &'a mut Beside<Chain>,
    /// What the packet has done to its session.
    pub(super) step: Step,
    /// The service's number.
    pub(super) me: u8,
    /// The packet's place in its vector.
    pub(super) at: usize,
    counts: &'a mut [u64; COUNTERS],
}

/// A vector that comes to a service.
pub(super) struct Oncoming<'a> {
    pub(super) packets: &'a Packets,
    pub(super) slots: &'a [SlotId],
    pub(super) sessions: &'a mut Sessions,
    pub(super) tenants: &'a Tenants,
    pub(super) worker: u32,
    /// Monotonic nanoseconds.
    pub(super) now: u64,
}

impl<'a> Visit<'a> {
    /// The session's tenant; `None` where it has just gone.
    pub(super) fn tenant(&self) -> Option<&'a Tenant> {
        self.tenants.get(self.session.tenant)
    }

    /// The session's protocol.
    #[inline(always)]
    pub(super) fn protocol(&self) -> IpProtocol {
        IpProtocol(self.key.protocol())
    }

    /// Adds one to a counter of the service's node.
    #[inline(always)]
    pub(super) fn count(&mut self, counter: impl Into<u8>) {
        if let Some(count) = self.counts.get_mut(usize::from(counter.into())) {
            *count += 1;
        }
    }
}

/// Packets between the one that a service looks at and the one that it has something fetched for.
const AHEAD: usize = 16;

/// What is fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ahead {
    /// What lies at the session's number.
    First,
    /// What that leads to; it is there by now.
    Then,
}

/// Of which dropped packets the senders are told that nobody listens where they asked, and by which edges: of a TCP segment by a RST, of anything
/// else by an ICMP error.
#[derive(Clone, Copy, Debug)]
pub(super) struct Telling {
    /// The reason of the service's node.
    pub(super) reason: u8,
    /// The edges to `icmp4-error` and `icmp6-error`.
    pub(super) icmp: [u8; 2],
    /// That to `tcp-reset`.
    pub(super) reset: u8,
}

/// A service.
pub(super) trait Serve: Send + 'static {
    /// Whether packets [enter](Self::enter).
    const ENTERS: bool = false;

    /// Of which packets that it drops the senders are told, if of any.
    const TOLD: Option<Telling> = None;

    /// Whether it is likely to move sessions from one state to another: what is needed for that is fetched, too.
    const MOVES: bool = false;

    /// Has what the service keeps of a packet's session fetched, [`AHEAD`] packets before that, and then, half way to it, what that leads to.
    #[inline(always)]
    fn fetch(_: &Sessions, _: Flow, _: Ahead) {}

    /// Whether a packet of that session [enters](Self::enter), for those of [`ENTERS`](Self::ENTERS).
    #[inline(always)]
    fn wants(_: &Session) -> bool {
        true
    }

    /// A vector comes, before any of its packets is looked at.
    #[inline(always)]
    fn vector(&mut self, _: Oncoming<'_>) {}

    /// What has to be done with the worker's sessions before the service sees a packet.
    fn enter(&mut self, _: &mut Arrival<'_>) -> Entry {
        Entry::Goes
    }

    /// What becomes of a packet.
    fn packet(&mut self, visit: &mut Visit<'_>) -> Verdict;

    /// What becomes of a later fragment, which has no transport header.
    fn fragment(&mut self, _: &mut Visit<'_>) -> Verdict {
        Verdict::Next
    }
}

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
