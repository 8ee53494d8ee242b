//! Carrying changes to the workers.

use super::error::ForwardingError;
use super::forwarding::Forwarding;
use super::rib::refused;
use super::route::Prefix;
use crate::ip::{Fibs, LinkLocals};
use graph::IfIndex;
use graph::publish::Publisher;
use std::collections::BTreeSet;
use wire::{Ipv4Prefix, Ipv6Prefix};

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
    /// [`ForwardingError::Table`] where a FIB is full: all other changes are carried out, and those that it had no room
    /// for are tried again by the next call.
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
        let mut done = true;
        let mut failed = None;
        for (number, vrf) in &mut self.vrfs {
            vrf.v4.retry(&self.sets);
            vrf.v6.retry(&self.sets);
            for applied in [vrf.v4.apply(publisher), vrf.v6.apply(publisher)] {
                match applied.map_err(refused(*number)) {
                    Ok(all) => done &= all,
                    Err(error) => failed = failed.or(Some(error)),
                }
            }
        }
        if !done {
            return Ok(Progress::Waiting { routes: self.waiting() });
        }
        // While one VRF's table is full, what the others give up is used again all the same.
        let ribs = self.vrfs.values();
        let held = match &failed {
            Some(_) => ribs.flat_map(|vrf| vrf.v4.held().chain(vrf.v6.held())).collect(),
            None => BTreeSet::new(),
        };
        self.hops.rest(publisher, &held);
        failed.map_or(Ok(Progress::Done), Err)
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

    /// Changes of routes that no [`Forwarding::commit`] has carried out yet.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.vrfs.values().map(|vrf| vrf.v4.waiting() + vrf.v6.waiting()).sum()
    }

    /// The prefixes whose last change a full FIB had no room for, with their VRF and the interface that their preferred
    /// route follows from, if it does from one.
    pub fn unplaced(&self) -> impl Iterator<Item = (u16, Prefix, Option<IfIndex>)> {
        self.vrfs.iter().flat_map(|(number, vrf)| {
            let v4 = vrf.v4.unplaced(&self.sets);
            let v4 = v4.filter_map(|(bits, len, owner)| {
                Some((Prefix::from(Ipv4Prefix::new(bits.into(), len).ok()?), owner))
            });
            let v6 = vrf.v6.unplaced(&self.sets);
            let v6 = v6.filter_map(|(bits, len, owner)| {
                Some((Prefix::from(Ipv6Prefix::new(bits.into(), len).ok()?), owner))
            });
            v4.chain(v6).map(|(prefix, owner)| (*number, prefix, owner))
        })
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
