//! One worker's sessions: table, timers, and who makes room for whom.

use super::acl::{self, Asking, Note};
use super::dropped::Dropped;
use super::early::Early;
use super::entry::{Direction, Flow, Marks, Room, Session};
use super::events::{Watchers, What};
use super::fill::Fill;
use super::kept::Kept;
use super::owed::Round;
use super::policer::Tokens;
use super::redirect::Note as Visits;
use super::room::{Evicted, Part};
use super::services::Chain;
use super::session_stats::Stats;
use super::sources::Source;
use super::tcp_check::Track;
use super::tenants::{TICK_BITS, Tenant, Tenants};
use super::traffic::Survey;
use super::translate::Translations;
use graph::IfIndex;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tables::session::{Beside, Handle, Inserted, Key, Seed, SessionTable};
use tables::timer_wheel::TimerWheel;
use wire::IpProtocol;

/// Why a packet's session can't be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoRoom {
    /// Its tenant has as many as it may, all of them in use.
    Quota,
    /// The worker has as many as it may, all of them in use.
    Table,
    /// Its tenant's begin faster than they may.
    Rate,
    /// Its source has as many of its tenant's as it may.
    Source,
}

/// One worker's sessions.
#[derive(Debug)]
pub struct Sessions {
    pub(super) table: SessionTable<Session>,
    pub(super) wheel: TimerWheel,
    pub(super) parts: Vec<Part>,
    /// A tenant with many sessions that make room: where others are short of it.
    pub(super) crowd: u16,
    /// A tenant with more than its share of the table, as far as the last look went.
    pub(super) beyond: u16,
    /// Where the look for places goes on that are owed to other workers.
    pub(super) round: Round,
    /// The sources that they count at.
    pub(super) sources: Beside<Option<Source>>,
    /// What `tcp-check` knows of them.
    pub(super) tcp: Beside<Track>,
    /// What `acl` knows of them.
    pub(super) acl: Beside<Note>,
    /// The interfaces by which their first packets came.
    pub(super) begun: Beside<IfIndex>,
    /// For asking whose those are that begin.
    pub(super) asking: Asking,
    /// What `policer` has for those that are metered each for itself.
    pub(super) tokens: Beside<Tokens>,
    /// What `redirect` knows of them.
    pub(super) redirected: Beside<Visits>,
    /// What holds of them until their tenants change: services that others have put on their chains, or that their packets are dropped.
    pub(super) decided: Beside<Chain>,
    /// What `session-stats` has noted of them.
    pub(super) stats: Beside<Stats>,
    /// How packets of those look on their far side that are translated.
    pub(super) translations: Translations,
    /// What is dropped of them.
    pub(super) dropped: Dropped,
    /// SYNs of tenants that are short of room, which were dropped of late.
    pub(super) early: Early,
    /// Who wants to know what happens to them.
    pub(super) watchers: Watchers,
    /// Where the look for what they have sent stands.
    pub(super) survey: Survey,
    /// How full the table is, as others see it.
    pub(super) fill: Arc<Fill>,
    /// When their memory was looked at last, in ticks.
    pub(super) weighed: u32,
    /// Those that are looked at just now: kept for its memory.
    pub(super) due: Vec<u32>,
    /// Those of the process before that aren't taken up yet.
    pub(super) kept: Arc<[Kept]>,
}

impl Default for Sessions {
    fn default() -> Self {
        Self {
            table: SessionTable::new(Seed::random(), 0),
            wheel: TimerWheel::new(0),
            parts: Vec::new(),
            crowd: 0,
            beyond: 0,
            round: Round::default(),
            sources: Beside::default(),
            tcp: Beside::default(),
            acl: Beside::default(),
            begun: Beside::default(),
            asking: Asking::default(),
            tokens: Beside::default(),
            redirected: Beside::default(),
            decided: Beside::default(),
            stats: Beside::default(),
            translations: Translations::default(),
            dropped: Dropped::default(),
            early: Early::default(),
            watchers: Watchers::default(),
            survey: Survey::default(),
            fill: Arc::default(),
            weighed: 0,
            due: Vec::new(),
            kept: Arc::default(),
        }
    }
}

/// Whether a packet of that side begins a session anew that was denied before any of its packets had passed: so, nobody who is denied can keep others from
/// using the same ports.
#[cold]
fn yields(session: &Session, direction: Direction, handle: Handle, translations: &Translations) -> bool {
    session.marks.has(Marks::YIELDS)
        && match direction {
            Direction::Reverse => true,
            Direction::Forward => session.is_translated() && !translations.takes(handle),
        }
}

impl Sessions {
    /// Sessions.
    #[must_use]
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Bytes of memory that they take.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.table.bytes()
            + self.wheel.bytes()
            + self.sources.bytes()
            + self.tcp.bytes()
            + self.acl.bytes()
            + self.begun.bytes()
            + self.tokens.bytes()
            + self.redirected.bytes()
            + self.decided.bytes()
            + self.stats.bytes()
            + self.translations.bytes()
            + self.dropped.bytes()
            + self.early.bytes()
    }

    /// Begins a session with a packet from the higher or the lower endpoint of its key, by which none was found just now; gives its
    /// number and whether it is new.
    ///
    /// # Errors
    /// [`NoRoom`] where nobody can make room for it.
    pub(super) fn begin(
        &mut self,
        tenants: &Tenants,
        (number, interface): (u16, IfIndex),
        tenant: &Tenant,
        (key, hash, from_high): (Key, u32, bool),
        now: u64,
        evicted: &mut Evicted,
    ) -> Result<(u32, bool), NoRoom> {
        if !tenant.occupancy.admit(tenant.max_new_per_second, now) {
            return Err(NoRoom::Rate);
        }
        let tick = now >> TICK_BITS;
        self.now_is(tick);
        self.table.set_limit(tenants.per_worker.min(Flow::MAX));
        self.part(number, tenant);
        if !tenant.occupancy.take(tenant.max_sessions)
            && !self.make_room(tenants, (number, tenant), tick, evicted)
        {
            return Err(NoRoom::Quota);
        }
        if self.table.len() >= self.table.limit() {
            if !self.evict_for_table(tenants, number, tick) {
                tenant.occupancy.give();
                return Err(NoRoom::Table);
            }
            evicted.for_table += 1;
        }
        let mut session = Session {
            created: tick as u32,
            last_seen: tick as u32,
            tenant: number,
            epoch: tenants.generation as u16,
            chain: tenant.chain,
            ..Session::default()
        };
        session.marks.put(Marks::INITIATOR_IS_HIGH, from_high);
        match self.table.insert(key, hash, session) {
            Ok(Inserted::New(index)) => {
                self.arm(index, tenant, tick);
                self.link(index);
                self.begins_at(index, interface);
                tenant.occupancy.created.fetch_add(1, Ordering::Relaxed);
                self.tell(index, What::Began);
                Ok((index, true))
            }
            Ok(Inserted::There(index)) => {
                tenant.occupancy.give();
                Ok((self.table.aliased(index).map_or(index, |(session, _)| session), false))
            }
            Err(_) => {
                tenant.occupancy.give();
                Err(NoRoom::Table)
            }
        }
    }

    /// The interface by which a packet came that an engine may have sent back since: that which its session's first one came by, then.
    pub(super) fn came_by(&self, tenants: &Tenants, index: u32, interface: IfIndex) -> IfIndex {
        if tenants.engines.get(interface).is_none() {
            return interface;
        }
        let begun = self.table.handle(index).and_then(|handle| self.begun.get(handle).copied());
        begun.unwrap_or(interface)
    }

    /// The session begins with a packet that has come by that interface.
    pub(super) fn begins_at(&mut self, index: u32, interface: IfIndex) {
        if let Some(handle) = self.table.handle(index)
            && let Some((begun, _)) = self.begun.get_mut(handle)
        {
            *begun = interface;
        }
    }

    /// The session with that key, or with that as another one; second: whether its endpoints are turned there.
    #[cfg(test)]
    pub(super) fn find(&self, key: &Key, hash: u32) -> Option<(u32, bool)> {
        let found = self.table.find(key, hash)?;
        if tables::session::is_alias(found) { self.table.aliased(found) } else { Some((found, false)) }
    }

    /// Whether a packet of that side begins a session anew, as [`yields`] has it.
    pub(super) fn yields(&self, session: &Session, direction: Direction, handle: Handle) -> bool {
        yields(session, direction, handle, &self.translations)
    }

    /// Takes a packet of session `index` into account, if that is the one with this key; gives what it passes next, and the
    /// session's version.
    #[inline(always)]
    pub(super) fn packet(
        &mut self,
        tenants: &Tenants,
        (index, key, is_v6): (u32, &Key, bool),
        (from_high, bytes): (bool, u32),
        tick: u64,
    ) -> Option<(Chain, u16)> {
        let (mut handle, mut session) = self.table.visit_if(index, key, is_v6)?;
        if session.epoch != tenants.generation as u16 {
            self.renew(tenants, index)?;
            (handle, session) = self.table.visit_if(index, key, is_v6)?;
        }
        let direction = session.direction(from_high);
        let chain = session.chain[direction as usize];
        // Else, services say whether it is one of its packets.
        if chain.first().is_none() || chain.block().is_some() {
            match chain.block() {
                None => session.heard(tick),
                Some(_)
                    if session.marks.has(Marks::YIELDS_TO_SYN)
                        || yields(session, direction, handle, &self.translations) =>
                {
                    return None;
                }
                Some(reason) => self.dropped.count(tenants, session.tenant, reason),
            }
        }
        session.count(direction, bytes);
        Some((chain, handle.generation as u16))
    }

    /// An engine has sent back a packet of session `index`, if that is the one with this key and of that tenant; gives what it passes behind `service`, and the
    /// session's version. It is counted already.
    pub(super) fn returned(
        &mut self,
        tenants: &Tenants,
        (index, key, is_v6): (u32, &Key, bool),
        (tenant, from_high): (u16, bool),
        service: u8,
        tick: u64,
    ) -> Option<(Chain, u16)> {
        let (mut handle, mut session) = self.table.visit_if(index, key, is_v6)?;
        if session.tenant != tenant {
            return None;
        }
        if session.epoch != tenants.generation as u16 {
            self.renew(tenants, index)?;
            (handle, session) = self.table.visit_if(index, key, is_v6)?;
        }
        let direction = session.direction(from_high);
        if let Some(note) = self.redirected.known(handle) {
            note.comes(direction as usize);
        }
        let chain = session.chain[direction as usize];
        match chain.block() {
            // Else, a service before that one has said whether it is one of its packets.
            None => session.heard_if(chain.has_none_before(service), tick),
            Some(reason) => self.dropped.count(tenants, session.tenant, reason),
        }
        Some((if chain.block().is_some() { chain } else { chain.behind(service) }, handle.generation as u16))
    }

    /// What becomes of a packet that might begin session `index` anew, which was [denied](Marks::YIELDS), and doesn't: second, the session's version.
    /// `None` where it does, or where the session can't go on. `begins`: a session may begin where it comes from; `is_syn`: so may a connection, with this packet.
    pub(super) fn stays(
        &mut self,
        tenants: &Tenants,
        index: u32,
        (from_high, bytes): (bool, u32),
        (begins, is_syn): (bool, bool),
    ) -> Option<(Chain, u16)> {
        let (handle, _, session) = self.table.visit(index)?;
        let direction = session.direction(from_high);
        let gone = session.epoch != tenants.generation as u16 || !session.is_blocked();
        let anew = is_syn && session.marks.has(Marks::YIELDS_TO_SYN)
            || yields(session, direction, handle, &self.translations);
        if gone || begins && anew {
            return None;
        }
        session.count(direction, bytes);
        let chain = session.chain[direction as usize];
        if let Some(reason) = chain.block() {
            self.dropped.count(tenants, session.tenant, reason);
        }
        Some((chain, handle.generation as u16))
    }

    /// An ICMP error belongs to session `index`. It changes nothing about it: anybody may have sent it. Gives what it passes next:
    /// no services but those that have changed the packet that it quotes, and where packets of that side are dropped, it is, too; second: the session's version.
    /// `None` where rules have still to be asked about packets of that side, or again.
    pub(super) fn related(
        &mut self,
        tenants: &Tenants,
        index: u32,
        from_high: bool,
        bytes: u32,
    ) -> Option<(Chain, u16)> {
        let (handle, _, session) = self.table.visit(index)?;
        let direction = session.direction(from_high);
        session.count(direction, bytes);
        let session = *session;
        let mut chain = session.chain[direction as usize];
        if session.epoch != tenants.generation as u16 && chain.block().is_none() {
            // As its next packet will find it.
            let tenant = tenants.get(session.tenant)?;
            chain = self.chains_now(tenants, tenant, (&session, handle))[direction as usize];
        }
        if chain.block().is_none() && chain.has(acl::number()) {
            return None;
        }
        if let Some(reason) = chain.block() {
            self.dropped.count(tenants, session.tenant, reason);
        }
        let passes = match (chain.block().is_some(), session.marks.has(Marks::TRANSLATED)) {
            (true, _) => chain,
            // Translations are of services of the default scope: in another one, its tenant has been moved, and the session is about to end.
            (false, true) if tenants.get(session.tenant).is_some_and(|tenant| tenant.scope == 0) => {
                chain.and(super::order().of_errors())
            }
            (false, _) => Chain::default(),
        };
        Some((passes, handle.generation as u16))
    }

    /// A session stands elsewhere now: another timeout holds, and it may or may not have to make room.
    ///
    /// A timer that is due before it has to be stays: it is armed anew when it is. So one of a connection that is soon over is armed
    /// once for all of its states.
    #[inline(never)]
    pub(super) fn moved(&mut self, tenants: &Tenants, index: u32, tick: u64) {
        let Some((_, key, session)) = self.table.visit(index) else { return };
        session.last_seen = tick as u32;
        let timeout = tenants
            .get(session.tenant)
            .map_or(0, |tenant| tenant.timeout(session.timer(IpProtocol(key.protocol()))));
        let settled = (Room::Settled, Some(Room::Settled));
        if (session.room(), session.marks.list()) != settled {
            self.unlink(index);
            self.link(index);
        }
        self.due_by(index, tick + u64::from(timeout));
        self.source_moved(index);
    }

    /// From now on the session's packets are dropped for that reason (graph-wide id); with `end` it ends in the next round.
    #[cold]
    pub(super) fn block(&mut self, tenants: &Tenants, index: u32, reason: u16, end: bool, tick: u64) {
        let Some(session) = self.table.get_mut(index) else { return };
        session.chain = [Chain::blocked(reason); 2];
        session.marks.put(Marks::ENDING, end);
        self.moved(tenants, index, tick);
        self.now_is(tick);
        self.tell(index, What::Blocked);
        if end && let Some(timer) = self.table.get(index).map(|session| session.timer) {
            self.wheel.cancel(timer);
            self.arm_at(index, tick);
        }
    }

    /// The same, and that holds until its tenant changes, whatever else does.
    #[cold]
    pub(super) fn block_for_good(&mut self, tenants: &Tenants, index: u32, reason: u16, tick: u64) {
        self.block(tenants, index, reason, false, tick);
        if let Some(handle) = self.table.handle(index)
            && let Some((decided, _)) = self.decided.get_mut(handle)
        {
            *decided = Chain::blocked(reason);
        }
    }
}
