//! Carrying changes to the workers.

use super::error::ForwardingError;
use super::forwarding::Forwarding;
use super::rib::refused;
use crate::ip::{Fibs, LinkLocals};
use graph::publish::Publisher;

/// How far a commit has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Workers see all changes.
    Done,
    /// Some changes wait: until every worker has passed a round boundary (microseconds, where they run), or because
    /// there are so many that others should have a turn on the control thread. Call [`Forwarding::commit`] again.
    Waiting {
        /// Routes that wait.
        routes: usize,
    },
}

impl Forwarding {
    /// Carries all changes to the workers, as far as that can be done without waiting. To be called until it is
    /// [`Progress::Done`], and from time to time after that (see [`Forwarding::reclaim`]).
    ///
    /// # Errors
    /// [`ForwardingError::Table`] where a FIB is full. The changes that follow stay queued; they are tried again by the
    /// next call.
    pub fn commit(&mut self, publisher: &mut Publisher) -> Result<Progress, ForwardingError> {
        if !self.sets.turned.is_empty() {
            for vrf in self.vrfs.values_mut() {
                vrf.v4.requeue(&self.sets);
                vrf.v6.requeue(&self.sets);
            }
            self.sets.turned.clear();
        }
        self.publish(publisher);
        self.reclaim(publisher);
        if self.wait.is_some_and(|mark| !publisher.passed(mark)) {
            return Ok(Progress::Waiting { routes: self.waiting() });
        }
        self.wait = None;
        for (number, vrf) in &mut self.vrfs {
            let v4 = vrf.v4.apply(publisher).map_err(refused(*number))?;
            let v6 = vrf.v6.apply(publisher).map_err(refused(*number))?;
            if !(v4 && v6) {
                return Ok(Progress::Waiting { routes: self.waiting() });
            }
        }
        self.hops.rest(publisher);
        Ok(Progress::Done)
    }

    /// Makes memory and next-hop ids usable again that no worker can meet any more. Returns whether some still wait:
    /// call it again later.
    pub fn reclaim(&mut self, publisher: &Publisher) -> bool {
        let mut waits = self.hops.reclaim(publisher);
        for vrf in self.vrfs.values_mut() {
            waits |= vrf.v4.reclaim(publisher);
            waits |= vrf.v6.reclaim(publisher);
        }
        waits
    }

    fn waiting(&self) -> usize {
        self.vrfs.values().map(|vrf| vrf.v4.waiting() + vrf.v6.waiting()).sum()
    }

    fn publish(&mut self, publisher: &mut Publisher) {
        let hops = self.hops.part();
        if hops.is_none() && !self.vrfs_changed && !self.scoped_changed {
            return;
        }
        let mut draft = publisher.draft();
        let mut fresh = false;
        if let Some((part, has_fresh)) = hops {
            draft.set(self.hops_key, part);
            fresh = has_fresh;
        }
        if core::mem::take(&mut self.vrfs_changed) {
            let mut fibs = Fibs::default();
            for (number, vrf) in &self.vrfs {
                fibs.set(*number, Some(vrf.tables()));
            }
            draft.set(self.fibs_key, fibs);
        }
        if core::mem::take(&mut self.scoped_changed) {
            let mut link_locals = LinkLocals::default();
            for ((interface, address), set) in &self.scoped {
                if let Some(set) = self.sets.get(*set) {
                    link_locals.set(*interface, *address, set.hop);
                }
            }
            draft.set(self.link_locals_key, link_locals);
        }
        publisher.publish(draft);
        // Until it has passed a boundary, a worker looks for next hops in an older snapshot, which lacks the new ones.
        if fresh {
            self.wait = Some(publisher.mark());
        }
    }
}
