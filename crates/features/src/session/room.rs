//! Eviction order: of each tenant's sessions the oldest blocked one, then the oldest embryonic or closed one, then an idle
//! one. Between tenants, those with more than their share of the table make room.

use super::entry::{ROOMS, Room};
use super::events::End;
use super::owed::Line;
use super::sessions::Sessions;
use super::tenants::{Occupancy, Tenant, Tenants, ticks_of_seconds};
use super::traffic::Lasting;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tables::session::NONE;

/// Seconds of silence after which an established session makes room, where no other one does.
const IDLE_SECONDS: u32 = 60;
/// Established sessions that are looked at for one that is idle.
const LOOKS: usize = 8;
/// Embryonic and closed sessions up to which a tenant with less than its share takes places from others first: a part of
/// the share, and so many where that is less.
const FEW_PART: u32 = 8;
const FEW_LEAST: u32 = 8;
/// Tenants that are looked at for one with sessions that make room; the next packet looks on from there.
const TENANTS: usize = 64;

/// Sessions that were ended to make room.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Evicted {
    pub(super) for_quota: u64,
    pub(super) for_table: u64,
}

/// What a tenant has at this worker.
#[derive(Debug, Default)]
pub(super) struct Part {
    /// Its figures, which outlive it.
    pub(super) occupancy: Arc<Occupancy>,
    /// What others see of it.
    pub(super) line: Arc<Line>,
    /// What others had asked for when it was looked into.
    pub(super) answered: u64,
    /// When others were asked for room last, in ticks.
    pub(super) asked_at: u64,
    /// By [`Room`], the oldest first; settled ones about in the order in which something was heard of them.
    lists: [List; ROOMS],
    /// What those have sent that go on.
    pub(super) lasting: Lasting,
}

#[derive(Debug)]
struct List {
    head: u32,
    tail: u32,
    len: u32,
}

impl Default for List {
    fn default() -> Self {
        Self { head: NONE, tail: NONE, len: 0 }
    }
}

impl Part {
    const fn list(&self, room: Room) -> &List {
        &self.lists[room as usize]
    }

    /// The one that makes room first, unless only settled ones are there.
    pub(super) fn first(&self) -> Option<u32> {
        let heads = [Room::Blocked, Room::Transient].map(|room| self.list(room).head);
        heads.into_iter().find(|head| *head != NONE)
    }

    /// How many there are.
    fn len(&self) -> u32 {
        self.lists.iter().map(|list| list.len).sum()
    }

    /// How many make room before settled ones do.
    pub(super) const fn spare(&self) -> u32 {
        self.list(Room::Blocked).len + self.list(Room::Transient).len
    }
}

impl Sessions {
    /// Sees to it that the tenant has a part here.
    pub(super) fn part(&mut self, number: u16, tenant: &Tenant) {
        let at = usize::from(number);
        if self.parts.len() <= at {
            self.parts.resize_with(at + 1, Part::default);
        }
        let part = &mut self.parts[at];
        if !Arc::ptr_eq(&part.occupancy, &tenant.occupancy) {
            // Those of another tenant that had the number before make no room for this one's.
            part.line.is(0);
            (part.occupancy, part.line) = (Arc::clone(&tenant.occupancy), Arc::default());
            part.occupancy.lines.add(&part.line);
            part.line.is(part.spare());
            part.answered = part.occupancy.asks.load(Ordering::Relaxed);
            part.lasting = self.survey.beginning();
        }
    }

    /// Ends the session of a tenant that makes room first. False where it has none.
    pub(super) fn evict(&mut self, number: u16, end: End, tick: u64) -> bool {
        let Some(part) = self.parts.get(usize::from(number)) else { return false };
        let Some(session) = part.first().or_else(|| self.idle(number, tick)) else { return false };
        if let Some(part) = self.parts.get(usize::from(number)) {
            part.occupancy.evicted.fetch_add(1, Ordering::Relaxed);
        }
        self.end(session, end);
        true
    }

    /// Ends a session so that there is a place in the table for one of that tenant's. Only the tenant itself, and those with
    /// more than their share of the table ([`Tenants::guaranteed`]), make room:
    ///
    /// 1. the tenant with most that make room, where these are more than all that the newcomer's has: a flood is paid
    ///    for by its owner;
    /// 2. the newcomer's own, unless it has less than its share and few embryonic ones;
    /// 3. any other tenant with some that make room, or with an idle session;
    /// 4. where the newcomer's has less than its share, an established session of one that has more;
    /// 5. the newcomer's own.
    ///
    /// False where there is none.
    pub(super) fn evict_for_table(&mut self, tenants: &Tenants, number: u16, tick: u64) -> bool {
        let end = End::EvictedForTable;
        let share = tenants.guaranteed(number);
        let own = self.parts.get(usize::from(number));
        let (holds, spare) = own.map_or((0, 0), |part| (part.len(), part.spare()));
        // A flood of its own costs others no more than these few.
        let is_entitled = holds < share && spare < (share / FEW_PART).max(FEW_LEAST);
        let has_crowd = self.find_crowd(tenants);
        let crowd = if has_crowd { self.parts.get(usize::from(self.crowd)) } else { None };
        // Who fills the table with what was answered has others pay for nothing, either.
        let is_flood = crowd.is_some_and(|crowd| crowd.spare() > holds);
        if !is_flood && !is_entitled && self.evict(number, end, tick) {
            return true;
        }
        if !self.find_crowd(tenants) {
            // With each packet another one.
            self.next_crowd();
        }
        self.has_more_than_its_share(tenants, self.crowd) && self.evict(self.crowd, end, tick)
            || holds < share && self.evict_beyond_share(tenants, tick)
            || is_entitled && self.evict(number, end, tick)
    }

    /// Ends the established session that has been silent for longest, as far as it looks, of a tenant with more than its
    /// share. False where it finds none; the next packet looks on from there.
    fn evict_beyond_share(&mut self, tenants: &Tenants, tick: u64) -> bool {
        for _ in 0..TENANTS.min(self.parts.len()) {
            if self.has_more_than_its_share(tenants, self.beyond)
                && let Some(session) = self.most_silent(self.beyond, tick)
            {
                if let Some(part) = self.parts.get(usize::from(self.beyond)) {
                    part.occupancy.evicted.fetch_add(1, Ordering::Relaxed);
                }
                self.end(session, End::EvictedForTable);
                return true;
            }
            let next = usize::from(self.beyond) + 1;
            self.beyond = if next < self.parts.len() { next as u16 } else { 0 };
        }
        false
    }

    /// Whether a tenant has more sessions here than it has room for in any case.
    fn has_more_than_its_share(&self, tenants: &Tenants, number: u16) -> bool {
        self.parts.get(usize::from(number)).is_some_and(|part| part.len() > tenants.guaranteed(number))
    }

    /// The established session of a tenant that has been silent for longest, of the first ones of its list.
    fn most_silent(&self, number: u16, tick: u64) -> Option<u32> {
        let mut next = self.parts.get(usize::from(number))?.list(Room::Settled).head;
        let mut found = None;
        for _ in 0..LOOKS {
            let Some(session) = self.table.get(next) else { break };
            let silent = (tick as u32).wrapping_sub(session.last_seen);
            if found.is_none_or(|(most, _)| silent > most) {
                found = Some((silent, next));
            }
            next = session.links[1];
        }
        found.map(|(_, session)| session)
    }

    /// Looks for a tenant with sessions that make room for others: the one that had most may have none left, or no more than its share; then the next one that has any is as good. False where it
    /// finds none, as far as it looks.
    fn find_crowd(&mut self, tenants: &Tenants) -> bool {
        for _ in 0..TENANTS.min(self.parts.len()) {
            let crowd = self.parts.get(usize::from(self.crowd));
            if crowd.is_some_and(|crowd| crowd.spare() > 0)
                && self.has_more_than_its_share(tenants, self.crowd)
            {
                return true;
            }
            self.next_crowd();
        }
        false
    }

    fn next_crowd(&mut self) {
        let next = usize::from(self.crowd) + 1;
        self.crowd = if next < self.parts.len() { next as u16 } else { 0 };
    }

    /// An established session of the tenant that nothing was heard of for long. Those that it isn't so with are put behind
    /// all others: next time, others are looked at.
    pub(super) fn idle(&mut self, number: u16, tick: u64) -> Option<u32> {
        for _ in 0..LOOKS {
            let head = self.parts.get(usize::from(number))?.list(Room::Settled).head;
            let silent = (tick as u32).wrapping_sub(self.table.get(head)?.last_seen);
            if silent >= ticks_of_seconds(IDLE_SECONDS) {
                return Some(head);
            }
            self.unlink(head);
            self.link(head);
        }
        None
    }

    /// Puts a session at the end of the list of its tenant that it belongs to.
    pub(super) fn link(&mut self, index: u32) {
        let Some(session) = self.table.get_mut(index) else { return };
        let (number, room) = (session.tenant, session.room());
        let Some(part) = self.parts.get_mut(usize::from(number)) else { return };
        let list = &mut part.lists[room as usize];
        let tail = core::mem::replace(&mut list.tail, index);
        if tail == NONE {
            list.head = index;
        }
        list.len += 1;
        session.links = [tail, NONE];
        session.marks.put_list(Some(room));
        part.publish(room);
        let spare = part.spare();
        if self.parts.get(usize::from(self.crowd)).is_none_or(|crowd| crowd.spare() < spare) {
            self.crowd = number;
        }
        if let Some(before) = self.table.get_mut(tail) {
            before.links[1] = index;
        }
    }

    /// Takes a session off its list, if it is on one.
    pub(super) fn unlink(&mut self, index: u32) {
        let Some(session) = self.table.get_mut(index) else { return };
        let Some(room) = session.marks.list() else { return };
        session.marks.put_list(None);
        let ([before, after], number) = (session.links, session.tenant);
        if let Some(session) = self.table.get_mut(before) {
            session.links[1] = after;
        }
        if let Some(session) = self.table.get_mut(after) {
            session.links[0] = before;
        }
        let Some(part) = self.parts.get_mut(usize::from(number)) else { return };
        let list = &mut part.lists[room as usize];
        list.len -= 1;
        if list.head == index {
            list.head = after;
        }
        if list.tail == index {
            list.tail = before;
        }
        part.publish(room);
    }
}
