//! Who makes room for whom: each tenant's sessions that are embryonic or over, the oldest first.

use super::entry::{Marks, Session};
use super::sessions::Sessions;
use super::tenants::{Occupancy, Tenant};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tables::session::NONE;

/// What a tenant has at this worker.
#[derive(Debug, Default)]
pub(super) struct Part {
    /// Its figures, which outlive it.
    pub(super) occupancy: Arc<Occupancy>,
    /// Sessions that make room for new ones: embryonic and ended, the oldest first.
    head: u32,
    tail: u32,
    len: u32,
}

impl Sessions {
    /// Sees to it that the tenant has a part here.
    pub(super) fn part(&mut self, number: u16, tenant: &Tenant) {
        let at = usize::from(number);
        if self.parts.len() <= at {
            self.parts.resize_with(at + 1, || Part { head: NONE, tail: NONE, ..Part::default() });
        }
        let occupancy = &mut self.parts[at].occupancy;
        if !Arc::ptr_eq(occupancy, &tenant.occupancy) {
            *occupancy = Arc::clone(&tenant.occupancy);
        }
    }

    /// Ends the oldest session of a tenant that makes room. False where it has none.
    pub(super) fn evict(&mut self, number: u16) -> bool {
        let Some(part) = self.parts.get(usize::from(number)).filter(|part| part.head != NONE) else {
            return false;
        };
        part.occupancy.evicted.fetch_add(1, Ordering::Relaxed);
        self.end(part.head);
        true
    }

    /// Puts a session at the end of its tenant's list of those that make room.
    pub(super) fn link(&mut self, index: u32) {
        let Some(number) = self.table.get(index).map(|session| session.tenant) else { return };
        let Some(part) = self.parts.get_mut(usize::from(number)) else { return };
        let tail = core::mem::replace(&mut part.tail, index);
        part.len += 1;
        if tail == NONE {
            part.head = index;
        }
        let len = part.len;
        if self.parts.get(usize::from(self.crowd)).is_none_or(|crowd| crowd.len < len) {
            self.crowd = number;
        }
        if let Some(before) = self.table.get_mut(tail) {
            before.links[1] = index;
        }
        if let Some(session) = self.table.get_mut(index) {
            session.links = [tail, NONE];
            session.marks.put(Marks::LISTED, true);
        }
    }

    /// Takes a session off the list, if it is on it.
    pub(super) fn unlink(&mut self, index: u32) {
        let listed = |session: &&mut Session| session.marks.has(Marks::LISTED);
        let Some(session) = self.table.get_mut(index).filter(listed) else { return };
        session.marks.put(Marks::LISTED, false);
        let ([before, after], number) = (session.links, session.tenant);
        if let Some(session) = self.table.get_mut(before) {
            session.links[1] = after;
        }
        if let Some(session) = self.table.get_mut(after) {
            session.links[0] = before;
        }
        let Some(part) = self.parts.get_mut(usize::from(number)) else { return };
        part.len -= 1;
        if part.head == index {
            part.head = after;
        }
        if part.tail == index {
            part.tail = before;
        }
    }
}
