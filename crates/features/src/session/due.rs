//! When a worker's sessions are to be looked at, and how they end.

use super::entry::Marks;
use super::events::{End, Tally, What};
use super::nat::Binding;
use super::sessions::Sessions;
use super::tenants::{TICK_BITS, Tenant, Tenants};
use super::traffic::Traffic;
use wire::IpProtocol;

impl Sessions {
    /// Sees to it that the session is looked at by then.
    pub(super) fn due_by(&mut self, index: u32, until: u64) {
        let Some(session) = self.table.get(index) else { return };
        if (until as u32).wrapping_sub(session.due) as i32 <= -1 {
            let timer = session.timer;
            self.wheel.cancel(timer);
            self.arm_at(index, until);
        }
    }

    /// Ends a session.
    pub(super) fn end(&mut self, index: u32, end: End) {
        let tenant = self.table.get(index).map(|session| session.tenant);
        self.remove(index, end);
        if let Some(tenant) = tenant {
            self.count_ends(Some((tenant, end, 1)));
        }
    }

    /// Ends a session whose place of its tenant's quota another one has from now on.
    pub(super) fn end_in_place(&mut self, index: u32, end: End) {
        if let Some(tenant) = self.forget(index, end) {
            self.count_ends(Some((tenant, end, 1)));
        }
    }

    /// Ends a session that is counted by whoever asks for it.
    pub(super) fn remove(&mut self, index: u32, end: End) {
        if let Some(tenant) = self.forget(index, end)
            && let Some(part) = self.parts.get(usize::from(tenant))
        {
            part.occupancy.give();
        }
    }

    /// Ends a session, which keeps its place of the quota, and gives its tenant.
    fn forget(&mut self, index: u32, end: End) -> Option<u16> {
        self.unlink(index);
        self.leave_source(index);
        let mut binding = Binding::default();
        if let Some((handle, _, session)) = self.table.visit(index)
            && session.marks.has(Marks::TRANSLATED)
        {
            binding = self.translations.release(&mut self.table, handle);
        }
        self.tell_of(index, What::Ended(end), binding);
        self.sum_up(index);
        let (_, session) = self.table.remove(index)?;
        self.wheel.cancel(session.timer);
        self.add_up(index, (session.tenant, session.created), Traffic::of(&session));
        Some(session.tenant)
    }

    /// What was noted of a session that is over is added to its tenant's sums.
    pub(super) fn sum_up(&self, index: u32) {
        if let (Some(handle), Some(session)) = (self.table.handle(index), self.table.get(index))
            && let Some(stats) = self.stats.get(handle)
            && let Some(part) = self.parts.get(usize::from(session.tenant))
        {
            part.occupancy.noted.add(stats.sides());
        }
    }

    pub(super) fn count_ends(&self, ended: Option<(u16, End, u64)>) {
        if let Some((tenant, end, count)) = ended
            && let Some(part) = self.parts.get(usize::from(tenant))
        {
            part.occupancy.count_ends(end, count);
        }
    }

    /// Ends the sessions whose time is over, in at most `budget` steps, and gives their number. Second: whether there is
    /// nothing left to do.
    pub(super) fn expire(&mut self, tenants: &Tenants, now: u64, budget: usize) -> (u64, bool) {
        let tick = now >> TICK_BITS;
        let mut due = core::mem::take(&mut self.due);
        let mut steps = self.wheel.advance(tick, budget);
        due.extend(&mut steps);
        let done = steps.is_done();
        let (mut expired, mut tally) = (0, Tally::default());
        for index in due.drain(..) {
            let Some((session, key)) = self.table.get(index).zip(self.table.key(index)) else { continue };
            let tenant = tenants.get(session.tenant);
            let timeout =
                tenant.map_or(0, |tenant| tenant.timeout(session.timer(IpProtocol(key.protocol()))));
            let idle = (tick as u32).wrapping_sub(session.last_seen);
            if idle < timeout && !session.marks.has(Marks::ENDING) {
                self.arm_at(index, tick + u64::from(timeout - idle));
            } else {
                let (tenant, end) = (session.tenant, Self::why_due(tenants, session));
                self.remove(index, end);
                self.count_ends(tally.add(tenant, end));
                expired += 1;
            }
        }
        self.count_ends(tally.take());
        self.due = due;
        (expired, done)
    }

    /// Looks through the sessions at `from` and behind, after tenants have changed: those whose tenant is gone end, others
    /// take over its chain and timeouts. Gives how many ended, and where to go on.
    pub(super) fn revisit(
        &mut self,
        tenants: &Tenants,
        tick: u64,
        from: u32,
        span: u32,
    ) -> (u64, Option<u32>) {
        let (part, next) = self.table.walk(from, span);
        let mut due = core::mem::take(&mut self.due);
        due.extend(part);
        let mut ended = 0;
        for index in due.drain(..) {
            let Some(session) = self.table.get(index) else { continue };
            if session.epoch != tenants.generation as u16 && self.renew(tenants, index).is_none() {
                self.end(index, self.why_not(tenants, index));
                ended += 1;
                continue;
            }
            let Some((_, key, session)) = self.table.visit(index) else { continue };
            let timeout = tenants
                .get(session.tenant)
                .map_or(0, |tenant| tenant.timeout(session.timer(IpProtocol(key.protocol()))));
            let idle = (tick as u32).wrapping_sub(session.last_seen);
            self.due_by(index, tick + u64::from(timeout.saturating_sub(idle)));
        }
        self.due = due;
        (ended, next)
    }

    pub(super) fn arm(&mut self, index: u32, tenant: &Tenant, tick: u64) {
        let Some((session, key)) = self.table.get(index).zip(self.table.key(index)) else { return };
        let timeout = tenant.timeout(session.timer(IpProtocol(key.protocol())));
        self.arm_at(index, tick + u64::from(timeout));
    }

    pub(super) fn arm_at(&mut self, index: u32, tick: u64) {
        let timer = self.wheel.schedule(tick, index);
        if let Some(session) = self.table.get_mut(index) {
            (session.timer, session.due) = (timer, tick as u32);
        }
    }
}
