//! Room that workers make for each other. A tenant's quota is of all workers together, and its sessions that make room may all be another worker's than the one that
//! has a new one to begin: that begins it beyond the quota, and the others owe a place.
//!
//! Each worker says how many of a tenant's sessions make room here, on a cache line that it alone stores to; others read it where they are short of a place. Nobody begins more beyond a quota than can be given up, nor than an eighth of it. Places are
//! given back by those that have their share of what makes room, so that a worker with a few honest ones doesn't pay for the flood at another: when they begin a session of that tenant themselves, or else in
//! their round.

use super::entry::Room;
use super::events::End;
use super::room::{Evicted, Part};
use super::sessions::Sessions;
use super::tenants::{Occupancy, Tenant, Tenants};
use super::traffic::Told;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Sessions that make room at this worker, from which on it doesn't ask whether others have more: so a worker that is flooded itself reads nothing of others'.
pub(super) const MANY: u32 = 256;
/// What may be owed at most: a part of the quota, and so many where that is less. Sessions that others count on may settle before they are given up, and stay.
const OWED_PART: u64 = 8;
const OWED_LEAST: u64 = 8;
/// Places that are given back before a session begins.
const AT_ONCE: u32 = 2;
/// Places that are given back in a round: some 10 µs.
const BUDGET: u64 = 64;
/// Tenants that are asked about in a round; the next one goes on behind them.
const TENANTS: usize = 64;

/// What one worker tells others of a tenant's sessions that it has.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct Line {
    /// How many make room before settled ones do.
    spare: AtomicU64,
    /// What they have sent.
    pub(super) told: Told,
    /// That of another worker.
    next: OnceLock<Arc<Line>>,
}

impl Line {
    /// So many do now. Nobody else stores here.
    #[inline(always)]
    pub(super) fn is(&self, spare: u32) {
        self.spare.store(spare.into(), Ordering::Relaxed);
    }
}

/// Those of all workers.
#[derive(Debug, Default)]
pub(super) struct Lines(OnceLock<Arc<Line>>);

/// Their sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Spare {
    all: u64,
    workers: u64,
}

impl Lines {
    /// A worker has sessions of the tenant, too.
    pub(super) fn add(&self, line: &Arc<Line>) {
        let mut place = &self.0;
        while place.set(Arc::clone(line)).is_err() {
            let Some(there) = place.get() else { return };
            place = &there.next;
        }
    }

    fn sum(&self) -> Spare {
        let mut sum = Spare::default();
        for line in self.all() {
            sum.all += line.spare.load(Ordering::Relaxed);
            sum.workers += 1;
        }
        sum
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Line> {
        core::iter::successors(self.0.get(), |line| line.next.get()).map(|line| &**line)
    }
}

/// Counts up whenever a place of any tenant's is owed, or asked for: workers look for whose it is then. On a line of its own, since each worker reads it in every round.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Owed(AtomicU64);

impl Owed {
    /// The count. What it is of is seen by whoever sees it.
    #[inline(always)]
    pub(super) fn count(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    fn one_more(&self) {
        self.0.fetch_add(1, Ordering::Release);
    }
}

impl Occupancy {
    /// Sessions beyond the quota: places that are owed.
    fn owed(&self, quota: u64) -> u64 {
        self.sessions.load(Ordering::Relaxed).saturating_sub(quota)
    }

    /// Takes a place beyond the quota at a worker of whose own sessions `own` make room; false where others haven't more than that, each, behind what is owed already.
    fn borrow(&self, quota: u64, own: u32) -> bool {
        let spare = self.lines.sum();
        let most = (quota / OWED_PART).max(OWED_LEAST);
        let has_room = |owed: u64| u64::from(own) * spare.workers + owed < spare.all && owed < most;
        let begin = |sessions: u64| has_room(sessions.saturating_sub(quota)).then(|| sessions + 1);
        self.sessions.fetch_update(Ordering::Relaxed, Ordering::Relaxed, begin).is_ok()
    }

    /// Gives a place back where more than `quota` are taken.
    fn repay(&self, quota: u64) -> bool {
        let repay = |sessions: u64| (sessions > quota).then(|| sessions - 1);
        self.sessions.fetch_update(Ordering::Relaxed, Ordering::Relaxed, repay).is_ok()
    }
}

/// Where a worker's look for what it owes goes on.
#[derive(Debug, Default)]
pub(super) struct Round {
    at: usize,
    left: usize,
    /// Others may have to give back what this worker owes as far as it can see: it looks once more.
    again: bool,
}

/// What a worker has given back in a round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Given {
    pub(super) sessions: u64,
    /// More may be to give in the next one.
    pub(super) owes: bool,
    /// It isn't through.
    pub(super) more: bool,
}

impl Sessions {
    /// A place for a session that begins here, where the tenant's quota is taken: that of another one, or one beyond the quota. False where there is none.
    #[cold]
    pub(super) fn make_room(
        &mut self,
        tenants: &Tenants,
        (number, tenant): (u16, &Tenant),
        tick: u64,
        evicted: &mut Evicted,
    ) -> bool {
        for _ in 0..AT_ONCE {
            if !self.give_back(number, tenant.max_sessions, tick) {
                break;
            }
            evicted.for_quota += 1;
        }
        let Some(part) = self.parts.get(usize::from(number)) else { return false };
        let own = part.spare();
        // Those few may be honest ones, and those of others a flood.
        if own < MANY && tenant.occupancy.borrow(tenant.max_sessions, own) {
            tenants.owed.one_more();
            return true;
        }
        let Some(session) = part.first().or_else(|| self.idle(number, tick)) else {
            self.ask(tenants, number, tick);
            return false;
        };
        self.replace(number, session);
        evicted.for_quota += 1;
        true
    }

    /// Gives places back that this worker owes, and such as others have asked for, in a part of the tenants. `anew`: it looks at all of them from here on.
    pub(super) fn settle(&mut self, tenants: &Tenants, tick: u64, anew: bool) -> Given {
        if anew {
            self.round.left = self.parts.len();
        }
        self.now_is(tick);
        let mut given = 0;
        for _ in 0..TENANTS.min(self.round.left) {
            if self.round.at >= self.parts.len() {
                self.round.at = 0;
            }
            given += self.settle_one(tenants, self.round.at, tick, BUDGET - given);
            self.round.again |= self.still_owes(tenants, self.round.at);
            if given >= BUDGET {
                return Given { sessions: given, owes: true, more: true };
            }
            self.round.at += 1;
            self.round.left -= 1;
        }
        let more = self.round.left > 0;
        if !more && core::mem::take(&mut self.round.again) {
            self.round.left = self.parts.len();
        }
        Given { sessions: given, owes: self.round.left > 0, more }
    }

    /// The same for one tenant.
    fn settle_one(&mut self, tenants: &Tenants, at: usize, tick: u64, budget: u64) -> u64 {
        let Some((tenant, part)) = tenants.get(at as u16).zip(self.parts.get_mut(at)) else { return 0 };
        let asks = part.occupancy.asks.load(Ordering::Relaxed);
        let asked = core::mem::replace(&mut part.answered, asks) != asks;
        let quota = tenant.max_sessions.saturating_sub(asked.into());
        let mut given = 0;
        while given < budget && self.give_back(at as u16, quota, tick) {
            given += 1;
        }
        given
    }

    /// Whether it may be this worker who owes a place, though it hasn't more than its share as far as it could see.
    fn still_owes(&self, tenants: &Tenants, at: usize) -> bool {
        let Some((tenant, part)) = tenants.get(at as u16).zip(self.parts.get(at)) else { return false };
        part.spare() > 0 && part.occupancy.owed(tenant.max_sessions) > 0
    }

    /// Ends a session of the tenant's here where more than `quota` are there, and this worker has its share of those that make room, or an idle one where there are none. False where it isn't so.
    fn give_back(&mut self, number: u16, quota: u64, tick: u64) -> bool {
        let Some(part) = self.parts.get(usize::from(number)) else { return false };
        if part.occupancy.owed(quota) == 0 {
            return false;
        }
        let (spare, own) = (part.occupancy.lines.sum(), u64::from(part.spare()));
        let session = match own {
            0 if spare.all == 0 => self.idle(number, tick),
            _ if own * spare.workers >= spare.all => part.first(),
            _ => None,
        };
        // Another worker may have been quicker.
        let Some(session) = session else { return false };
        if !self.parts.get(usize::from(number)).is_some_and(|part| part.occupancy.repay(quota)) {
            return false;
        }
        self.replace(number, session);
        true
    }

    /// Ends a session whose place is another's, or given back already.
    fn replace(&mut self, number: u16, session: u32) {
        if let Some(part) = self.parts.get(usize::from(number)) {
            part.occupancy.evicted.fetch_add(1, Ordering::Relaxed);
        }
        self.end_in_place(session, End::EvictedForQuota);
    }

    /// Asks other workers for a session that is idle, so that the client's repetition has a place: once a tick.
    fn ask(&mut self, tenants: &Tenants, number: u16, tick: u64) {
        let Some(part) = self.parts.get_mut(usize::from(number)) else { return };
        if part.asked_at == tick || part.occupancy.lines.sum().workers < 2 {
            return;
        }
        part.asked_at = tick;
        // This one has none: it answers nothing.
        let asks = part.occupancy.asks.fetch_add(1, Ordering::Relaxed) + 1;
        if part.answered + 1 == asks {
            part.answered = asks;
        }
        tenants.owed.one_more();
    }
}

impl Part {
    /// Says how many make room, where sessions of that list come or go.
    #[inline(always)]
    pub(super) fn publish(&self, room: Room) {
        if room != Room::Settled {
            self.line.is(self.spare());
        }
    }
}
