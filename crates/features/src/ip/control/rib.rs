//! The routes of one VRF and IP version, and the queue of changes that their FIB still has to take.

use super::error::ForwardingError;
use super::route::Origin;
use super::sets::{SetId, Sets};
use graph::publish::Publisher;
use std::collections::{BTreeSet, VecDeque};
use tables::fib::{Address, Fib, FibError, FibWriter, NextHopId, Prefixes, Retired, RouteChange, Usage};

/// Changes after which a batch sets its retired blocks aside.
const REST_EVERY: usize = 4096;
/// Changes that are carried out in one go: some tens of milliseconds, in which the control thread does nothing else.
const MAX_CHANGES: usize = 16 * REST_EVERY;

/// A route to a prefix from one origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) set: SetId,
    pub(super) origin: Origin,
    /// The interface it comes from, or 0.
    pub(super) owner: u16,
}

/// The routes of one VRF and IP version.
#[derive(Debug)]
pub(super) struct Rib<A: Address> {
    writer: FibWriter<A>,
    /// The most preferred candidate of each prefix.
    first: Prefixes<A, Candidate>,
    /// The others, of the few prefixes that have several, in order of preference.
    others: Prefixes<A, Vec<Candidate>>,
    queue: VecDeque<RouteChange<A>>,
    /// Prefixes whose change the FIB had no room for: each once, however often it has been refused.
    unplaced: BTreeSet<(A, u8)>,
    retired: VecDeque<(u64, Retired)>,
}

impl<A: Address> Rib<A> {
    pub(super) fn new(writer: FibWriter<A>) -> Self {
        Self {
            writer,
            first: Prefixes::default(),
            others: Prefixes::default(),
            queue: VecDeque::new(),
            unplaced: BTreeSet::new(),
            retired: VecDeque::new(),
        }
    }

    /// What workers read.
    pub(super) fn fib(&self) -> Fib<A> {
        self.writer.reader()
    }

    /// Routes that there are.
    pub(super) fn len(&self) -> usize {
        self.first.len() + self.others.iter().map(|(.., others)| others.len()).sum::<usize>()
    }

    /// Adds a candidate, or replaces the one of the same origin and owner, whose set is returned.
    pub(super) fn add(&mut self, sets: &Sets, prefix: A, len: u8, new: Candidate) -> Option<SetId> {
        let rank = |candidate: &Candidate| (candidate.origin, candidate.owner);
        let Some(first) = self.first.get_or_insert(prefix, len, new) else {
            // The only one, as nearly always.
            self.queue(prefix, len, sets.active(new.set));
            return None;
        };
        let mut old = None;
        if rank(first) == rank(&new) {
            old = Some(core::mem::replace(first, new).set);
        } else {
            let other = if rank(&new) < rank(first) { core::mem::replace(first, new) } else { new };
            match self.others.get_mut(prefix, len) {
                None => {
                    self.others.get_or_insert(prefix, len, vec![other]);
                }
                Some(others) => match others.binary_search_by_key(&rank(&other), rank) {
                    Ok(at) => old = Some(core::mem::replace(&mut others[at], other).set),
                    Err(at) => others.insert(at, other),
                },
            }
        }
        self.queue_best(sets, prefix, len);
        old
    }

    /// Removes the candidate of this origin and owner and returns its set.
    pub(super) fn remove(
        &mut self,
        sets: &Sets,
        prefix: A,
        len: u8,
        origin: Origin,
        owner: u16,
    ) -> Option<SetId> {
        let is = |candidate: &Candidate| (candidate.origin, candidate.owner) == (origin, owner);
        let first = self.first.get_mut(prefix, len)?;
        let Some(others) = self.others.get_mut(prefix, len) else {
            // The only one, as nearly always.
            let set = is(first).then_some(first.set)?;
            self.first.remove(prefix, len);
            self.queue(prefix, len, None);
            return Some(set);
        };
        let gone = if is(first) {
            core::mem::replace(first, others.remove(0))
        } else {
            others.remove(others.iter().position(is)?)
        };
        if others.is_empty() {
            self.others.remove(prefix, len);
        }
        self.queue_best(sets, prefix, len);
        Some(gone.set)
    }

    /// The candidates of a prefix, in order of preference.
    pub(super) fn candidates(&self, prefix: A, len: u8) -> impl Iterator<Item = &Candidate> {
        self.first.get(prefix, len).into_iter().chain(self.others.get(prefix, len).into_iter().flatten())
    }

    /// All candidates with their prefixes, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (A, u8, &Candidate)> {
        let others = self
            .others
            .iter()
            .flat_map(|(prefix, len, others)| others.iter().map(move |candidate| (prefix, len, candidate)));
        self.first.iter().chain(others)
    }

    /// The prefix a lookup of `address` ends at once the queue is carried out.
    pub(super) fn longest(&self, sets: &Sets, address: A) -> Option<(A, u8, &Candidate)> {
        (0..=A::BITS).rev().find_map(|len| {
            let prefix = address.masked(len);
            let best = self.candidates(prefix, len).find(|candidate| sets.active(candidate.set).is_some());
            best.map(|candidate| (prefix, len, candidate))
        })
    }

    /// Looks again at all prefixes that have a candidate among the sets that have turned.
    pub(super) fn requeue(&mut self, sets: &Sets) {
        let turned = |candidate: &Candidate| sets.turned.contains(&candidate.set);
        let keys: Vec<(A, u8)> = self
            .iter()
            .filter(|(_, _, candidate)| turned(candidate))
            .map(|(prefix, len, _)| (prefix, len))
            .collect();
        keys.into_iter().for_each(|(prefix, len)| self.queue_best(sets, prefix, len));
    }

    fn queue_best(&mut self, sets: &Sets, prefix: A, len: u8) {
        let hop = self.candidates(prefix, len).find_map(|candidate| sets.active(candidate.set));
        self.queue(prefix, len, hop);
    }

    /// Has the FIB lead a prefix to a next hop, or nowhere.
    fn queue(&mut self, prefix: A, len: u8, hop: Option<u32>) {
        let id = hop.map_or(NextHopId::NO_ROUTE, NextHopId);
        self.queue.push_back(RouteChange { prefix, len, id });
    }

    /// Memory of the table, in bytes.
    pub(super) fn usage(&self) -> Usage {
        self.writer.usage()
    }

    /// Changes that wait.
    pub(super) fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// The prefixes whose change the FIB had no room for, and the interface that their preferred candidate comes from.
    pub(super) fn unplaced(&self, sets: &Sets) -> impl Iterator<Item = (A, u8, Option<u16>)> {
        self.unplaced.iter().map(|(prefix, len)| {
            let best = self.candidates(*prefix, *len).find(|candidate| sets.active(candidate.set).is_some());
            (*prefix, *len, best.map(|candidate| candidate.owner).filter(|owner| *owner != 0))
        })
    }

    /// Ids that the FIB holds, or will hold for a moment, whatever routes lead to by now: of prefixes whose change it has refused, and of those whose
    /// changes are still queued.
    pub(super) fn held(&self) -> impl Iterator<Item = u32> {
        let unplaced = self.unplaced.iter().map(|(prefix, len)| self.writer.get(*prefix, *len));
        let queued = self.queue.iter();
        let queued = queued.flat_map(|change| [self.writer.get(change.prefix, change.len), Some(change.id)]);
        unplaced.chain(queued).flatten().map(|id| id.0)
    }

    /// Tries again what the FIB had no room for.
    pub(super) fn retry(&mut self, sets: &Sets) {
        for (prefix, len) in core::mem::take(&mut self.unplaced) {
            self.queue_best(sets, prefix, len);
        }
    }

    /// Carries queued changes into the FIB. Returns whether all of them are: very many take several calls, and where the
    /// FIB's memory is used up but blocks given up still rest, the others have to wait for those.
    ///
    /// A change that there is no room for is set aside for [`Rib::retry`], so that those behind it, which may make room,
    /// are carried out; the error is returned in the end.
    pub(super) fn apply(&mut self, publisher: &Publisher) -> Result<bool, FibError> {
        let mut full = None;
        let mut changes = 0;
        while changes < MAX_CHANGES && !self.queue.is_empty() {
            let (next, _) = self.queue.as_slices();
            let next = &next[..next.len().min(REST_EVERY)];
            let (done, error) = match self.writer.change_all(next) {
                Ok(()) => (next.len(), None),
                Err((done, error)) => (done, Some(error)),
            };
            changes += done;
            let refused = error.and_then(|_| next.get(done)).map(|change| (change.prefix, change.len));
            self.queue.drain(..done);
            // A long batch uses again what it gave up itself.
            self.rest(publisher);
            match error {
                Some(FibError::Full { retired, .. }) if retired > 0 => return Ok(false),
                Some(error) => {
                    self.unplaced.extend(refused);
                    self.queue.pop_front();
                    changes += 1;
                    full = Some(error);
                }
                None => {}
            }
            self.reclaim(publisher);
        }
        // Not before all are through: what is left of millions would be moved each time.
        if self.queue.is_empty() {
            self.queue.shrink_to(REST_EVERY);
        }
        full.map_or(Ok(self.queue.is_empty()), Err)
    }

    /// Sets the blocks aside that changes have given up.
    fn rest(&mut self, publisher: &Publisher) {
        self.retired.push_back((publisher.mark(), self.writer.retire_mark()));
    }

    /// Makes blocks usable that no worker can meet any more. Returns whether some still rest.
    pub(super) fn reclaim(&mut self, publisher: &Publisher) -> bool {
        while self.retired.front().is_some_and(|(mark, _)| publisher.passed(*mark)) {
            let Some((_, retired)) = self.retired.pop_front() else { break };
            self.writer.reclaim(retired);
        }
        !self.retired.is_empty()
    }
}

/// A table's refusal, with the VRF's number.
pub(super) fn refused(vrf: u16) -> impl Fn(FibError) -> ForwardingError {
    move |source| ForwardingError::Table { vrf, source }
}

#[cfg(test)]
mod tests {
    use super::super::hops::Hops;
    use super::super::links::Links;
    use super::super::route::{Path, Via};
    use super::super::sets::World;
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_full_table_takes_what_makes_room_and_then_the_rest() {
        let (links, vrfs, mut hops) = (Links::default(), BTreeSet::from([0]), Hops::of_workers(1));
        let mut sets = Sets::default();
        let world = &mut World { links: &links, vrfs: &vrfs, hops: &mut hops };
        let set = sets.acquire(world, 0, &[Path::from(Via::Blackhole)]).unwrap();
        let route = Candidate { set, origin: Origin::Static, owner: 0 };
        let publisher = Publisher::new(&crate::schema());
        let mut rib: Rib<u32> = Rib::new(FibWriter::with_capacity(0).unwrap());
        let fib = rib.fib();
        // Far apart, so that each takes nodes of its own.
        let prefixes: Vec<u32> = (0..20_000).map(|n| (n * 3 + 1) << 16 | 0x0100).collect();
        for prefix in &prefixes {
            rib.add(&sets, *prefix, 24, route);
        }
        let apply = |rib: &mut Rib<u32>| loop {
            match rib.apply(&publisher) {
                Ok(false) => assert!(!rib.reclaim(&publisher), "no worker holds anything"),
                other => break other,
            }
        };
        assert!(matches!(apply(&mut rib), Err(FibError::Full { .. })));
        let found = |prefix: &&u32| fib.lookup(**prefix + 9) != NextHopId::NO_ROUTE;
        let placed = prefixes.iter().filter(found).count();
        assert!(placed > 1000 && placed < prefixes.len(), "{placed}");
        assert_eq!((rib.waiting(), rib.unplaced(&sets).count()), (0, prefixes.len() - placed));
        assert!(
            rib.unplaced(&sets).all(|(prefix, len, owner)| !found(&&prefix) && (len, owner) == (24, None))
        );
        // Withdrawn is what came in; the others follow.
        for prefix in &prefixes[..prefixes.len() - 200] {
            rib.remove(&sets, *prefix, 24, Origin::Static, 0);
        }
        let _ = apply(&mut rib);
        rib.reclaim(&publisher);
        rib.retry(&sets);
        assert_eq!(apply(&mut rib), Ok(true));
        assert_eq!(prefixes.iter().filter(found).count(), 200);
        assert!(prefixes.iter().rev().take(200).all(|prefix| found(&prefix)));
    }
}
