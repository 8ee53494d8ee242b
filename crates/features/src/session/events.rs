//! What happens to sessions, for whoever looks on: a queue from each worker to each of those.
//!
//! A worker never waits: what doesn't fit is lost, and counted. While nobody looks on, a session that comes or goes costs one comparison more, a packet nothing.
//! How sessions end is counted for their tenants in any case.

use super::entry::{Direction, Session, State};
use super::look::{Filter, Seen};
use super::nat::Binding;
use super::sessions::Sessions;
use super::tenants::{Occupancy, TICK_BITS, Tenants};
use super::traffic::Traffic;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Weak};

/// Why a session is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum End {
    /// A TCP connection was closed or reset.
    Finished,
    /// Nothing was heard of it for its timeout.
    Timeout,
    /// A service let none of its packets pass, and its time is over; or another has begun in its place.
    Blocked,
    /// It had to make room: its tenant may have no more.
    EvictedForQuota,
    /// It had to make room: its worker may have no more.
    EvictedForTable,
    /// Somebody has asked for it.
    Cleared,
    /// Its tenant is gone.
    TenantDeleted,
    /// Where it began is another tenant's now, or its translation or its backend may be no more.
    Reconfigured,
}

impl End {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Finished,
        Self::Timeout,
        Self::Blocked,
        Self::EvictedForQuota,
        Self::EvictedForTable,
        Self::Cleared,
        Self::TenantDeleted,
        Self::Reconfigured,
    ];
}

/// What has happened to a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// It has begun. Its first packet isn't counted yet, and no service has seen it.
    Began,
    /// `nat` or `balance` has said how it looks on its far side.
    Translated,
    /// A service lets none of its packets pass from now on.
    Blocked,
    /// It is over. A connection that begins anew in its time-wait has ended, too, and what was sent to a backend when its session is given another.
    Ended(End),
}

/// Kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kinds(u8);

impl Kinds {
    /// Of sessions that begin.
    pub const BEGAN: Self = Self(1);
    /// Of sessions that are translated.
    pub const TRANSLATED: Self = Self(2);
    /// Of sessions that are blocked.
    pub const BLOCKED: Self = Self(4);
    /// Of sessions that end.
    pub const ENDED: Self = Self(8);
    /// None.
    pub const NONE: Self = Self(0);
    /// All.
    pub const ALL: Self = Self(15);

    /// Those of both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    const fn of(what: What) -> Self {
        match what {
            What::Began => Self::BEGAN,
            What::Translated => Self::TRANSLATED,
            What::Blocked => Self::BLOCKED,
            What::Ended(_) => Self::ENDED,
        }
    }

    const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// Something that has happened to a session.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// What.
    pub what: What,
    /// When, in monotonic nanoseconds: those of the worker's round, to 17 ms.
    pub at: u64,
    /// The session, as it was then.
    pub seen: Seen,
    /// What is said of the port that `nat` gives it or takes back, where that has happened.
    pub binding: Binding,
}

/// A worker's end of a queue.
#[derive(Debug)]
pub struct Watcher {
    filter: Filter,
    kinds: Kinds,
    queue: SyncSender<Event>,
    /// Whoever listens keeps it.
    lost: Weak<AtomicU64>,
}

/// A queue for `backlog` events, of those sessions and of those kinds, from one worker; what doesn't fit is added to `lost`.
/// The worker forgets it once `lost` is gone and it is asked to [tidy up](Sessions::tidy_watchers).
#[must_use]
pub fn watch(
    filter: Filter,
    kinds: Kinds,
    backlog: usize,
    lost: &Arc<AtomicU64>,
) -> (Watcher, Receiver<Event>) {
    let (queue, events) = sync_channel(backlog);
    (Watcher { filter, kinds, queue, lost: Arc::downgrade(lost) }, events)
}

/// Who looks on at a worker's sessions.
#[derive(Debug, Default)]
pub(super) struct Watchers {
    all: Vec<Watcher>,
    /// The worker's time, in monotonic nanoseconds.
    pub(super) now: u64,
}

impl Watchers {
    #[inline(always)]
    fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    #[cold]
    fn tell(&self, event: &Event) {
        for one in &self.all {
            let wanted = one.kinds.has(Kinds::of(event.what)) && one.filter.means(&event.seen);
            // Also where nobody reads any more: then, nobody counts either.
            if wanted
                && one.queue.try_send(*event).is_err()
                && let Some(lost) = one.lost.upgrade()
            {
                lost.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

impl Sessions {
    /// By a packet of `bytes` from that side of the one before, the session is another one for whoever looks: what was counted, noted and said of the one before isn't of this one.
    pub(super) fn count_anew(&mut self, index: u32, (side, bytes): (Direction, u32), tick: u64) {
        self.sum_up(index);
        let Some((handle, _, session)) = self.table.visit(index) else { return };
        let (sent, began) = (Traffic::of(session).without(side, bytes), (session.tenant, session.created));
        session.created = tick as u32;
        session.count_anew(bytes);
        self.redirected.reset(handle);
        self.stats.reset(handle);
        self.add_up(index, began, sent);
    }

    /// Somebody wants to know what happens from now on.
    pub fn watched_by(&mut self, watcher: Watcher) {
        self.watchers.all.push(watcher);
    }

    /// Forgets those who don't want to know any more.
    pub fn tidy_watchers(&mut self) {
        self.watchers.all.retain(|one| one.lost.strong_count() > 0);
    }

    /// Tells whoever looks on what has happened to session `index`.
    #[inline(always)]
    pub(super) fn tell(&self, index: u32, what: What) {
        self.tell_of(index, what, Binding::default());
    }

    /// The same of a session that `nat` gives a port or takes it back.
    #[inline(always)]
    pub(super) fn tell_of(&self, index: u32, what: What, binding: Binding) {
        if !self.watchers.is_empty()
            && let Some(seen) = self.as_it_is(index)
        {
            self.watchers.tell(&Event { what, at: self.watchers.now, seen, binding });
        }
    }

    /// Tells them that the connection which session `index` was has ended, when its next one has begun with a packet of `bytes` from that side of the old one.
    #[inline(always)]
    pub(super) fn tell_reopened(&self, index: u32, side: Direction, bytes: u32) {
        self.tell_over(index, End::Finished, (side, bytes), |seen| {
            // The service that has seen the packet has begun already.
            (seen.session.state, seen.tcp) = (State::TimeWait, None);
            seen.session.initiated_by(side);
        });
    }

    /// Tells them that session `index` is over as it was with its backend, which it loses by a packet of `bytes` from its initiator.
    pub(super) fn tell_forsaken(&self, index: u32, bytes: u32) {
        self.tell_over(index, End::Reconfigured, (Direction::Forward, bytes), |_| {});
    }

    /// Tells them that what session `index` was is over, by a packet that is counted already; `as_was` undoes what else that has done.
    #[inline(always)]
    fn tell_over(
        &self,
        index: u32,
        end: End,
        (side, bytes): (Direction, u32),
        as_was: impl FnOnce(&mut Seen),
    ) {
        if !self.watchers.is_empty()
            && let Some(mut seen) = self.as_it_is(index)
        {
            as_was(&mut seen);
            seen.session.uncount(side, bytes);
            let (what, binding) = (What::Ended(end), self.binding(index));
            self.watchers.tell(&Event { what, at: self.watchers.now, seen, binding });
        }
    }

    /// Tells them that session `index` begins where another one was. Where it is still translated as that was, nobody else says so.
    #[cold]
    pub(super) fn tell_anew(&self, index: u32) {
        self.tell(index, What::Began);
        if self.table.get(index).is_some_and(Session::is_translated) {
            self.tell_of(index, What::Translated, self.binding(index));
        }
    }

    /// What is said of the port that session `index` has.
    fn binding(&self, index: u32) -> Binding {
        let handle = self.table.handle(index);
        handle.map(|handle| self.translations.binding(&self.table, handle)).unwrap_or_default()
    }

    /// Why a session ends whose time is over.
    pub(super) fn why_due(tenants: &Tenants, session: &Session) -> End {
        match session.state {
            _ if tenants.get(session.tenant).is_none() => End::TenantDeleted,
            _ if session.is_blocked() => End::Blocked,
            State::TimeWait => End::Finished,
            _ => End::Timeout,
        }
    }

    /// Why a session can't go on that a packet has met, or a look through all of them.
    pub(super) fn why_not(&self, tenants: &Tenants, index: u32) -> End {
        match self.table.get(index) {
            Some(session) if tenants.get(session.tenant).is_none() => End::TenantDeleted,
            Some(session) if session.is_blocked() => End::Blocked,
            _ => End::Reconfigured,
        }
    }

    /// The worker's time in ticks.
    pub(super) fn now_is(&mut self, tick: u64) {
        self.watchers.now = tick << TICK_BITS;
    }
}

/// Sessions that have ended, of one tenant and for one reason: counted together.
#[derive(Debug, Default)]
pub(super) struct Tally {
    last: Option<(u16, End)>,
    count: u64,
}

impl Tally {
    /// One more; gives those before where they are others.
    pub(super) fn add(&mut self, tenant: u16, end: End) -> Option<(u16, End, u64)> {
        if self.last == Some((tenant, end)) {
            self.count += 1;
            return None;
        }
        let before = self.take();
        (self.last, self.count) = (Some((tenant, end)), 1);
        before
    }

    /// Those that weren't given yet.
    pub(super) fn take(&mut self) -> Option<(u16, End, u64)> {
        let (tenant, end) = self.last.take()?;
        Some((tenant, end, core::mem::take(&mut self.count)))
    }
}

impl Occupancy {
    /// Sessions that have ended so.
    #[must_use]
    pub fn ended(&self, end: End) -> u64 {
        self.ended[end as usize].load(Ordering::Relaxed)
    }

    pub(super) fn count_ends(&self, end: End, count: u64) {
        self.ended[end as usize].fetch_add(count, Ordering::Relaxed);
    }
}
