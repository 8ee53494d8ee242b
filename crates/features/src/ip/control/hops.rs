//! Next hops by id, as the next snapshot will have them.

use super::adjacencies::Adjacencies;
use super::error::ForwardingError;
use crate::ip::{NextHop, NextHopKind, NextHops};
use crate::port_split::SplitHop;
use graph::publish::Publisher;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use tables::fib::NextHopId;

/// What a group leads to.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Group {
    /// Its buckets, a power of two.
    pub(super) buckets: Vec<NextHopId>,
    /// Members that have none of them.
    pub(super) idle: Vec<NextHopId>,
}

/// All next hops. Ids given up rest until no worker can meet them any more.
#[derive(Debug)]
pub(super) struct Hops {
    list: Vec<NextHop>,
    /// Whom they lead to.
    pub(super) adjacencies: Adjacencies,
    /// The groups, by their id.
    groups: BTreeMap<u32, Group>,
    /// What port splits lead to, by the split's id.
    splits: BTreeMap<u32, SplitHop>,
    free: Vec<u32>,
    /// Given up, but queued changes may still replace FIB entries that hold them.
    released: Vec<u32>,
    /// Given up and out of all FIBs; usable when the mark has passed.
    resting: VecDeque<(u64, Vec<u32>)>,
    /// Something differs from what is published.
    changed: bool,
    /// An id is in use that the published version has no next hop for.
    fresh: bool,
}

impl Hops {
    /// None but "no route", for that many workers.
    pub(super) fn of_workers(workers: usize) -> Self {
        Self {
            list: NextHops::default().list,
            adjacencies: Adjacencies::of_workers(workers),
            groups: BTreeMap::new(),
            splits: BTreeMap::new(),
            free: Vec::new(),
            released: Vec::new(),
            resting: VecDeque::new(),
            changed: false,
            fresh: false,
        }
    }

    /// An id for a next hop that is to be [set](Self::set).
    pub(super) fn allocate(&mut self) -> Result<u32, ForwardingError> {
        self.fresh = true;
        self.changed = true;
        if let Some(id) = self.free.pop() {
            return Ok(id);
        }
        let id = self.list.len() as u32;
        if id > NextHopId::MAX.0 {
            return Err(ForwardingError::TooManyNextHops { max: NextHopId::MAX.0 });
        }
        self.list.push(NextHop::default());
        Ok(id)
    }

    /// The next hop.
    pub(super) fn get(&self, id: u32) -> &NextHop {
        self.list.get(id as usize).unwrap_or(&self.list[0])
    }

    /// Replaces a next hop.
    pub(super) fn set(&mut self, id: u32, hop: NextHop) {
        self.groups.remove(&id);
        self.splits.remove(&id);
        self.replace(id, hop);
    }

    /// Makes a next hop a group.
    pub(super) fn set_group(&mut self, id: u32, group: Group) {
        let mask = group.buckets.len().saturating_sub(1) as u16;
        if self.groups.get(&id) != Some(&group) {
            self.groups.insert(id, group);
            self.changed = true;
        }
        self.replace(id, NextHop { kind: NextHopKind::Group, bucket_mask: mask, ..NextHop::default() });
    }

    /// Makes a next hop a port split.
    pub(super) fn set_split(&mut self, id: u32, split: SplitHop) {
        if self.splits.get(&id) != Some(&split) {
            self.splits.insert(id, split);
            self.changed = true;
        }
        self.replace(id, NextHop { kind: NextHopKind::PortSplit, ..NextHop::default() });
    }

    fn replace(&mut self, id: u32, hop: NextHop) {
        let Some(place) = self.list.get_mut(id as usize) else { return };
        if *place != (NextHop { adjacency: place.adjacency, ..hop }) {
            let adjacency = self.adjacencies.turn(place, &hop);
            *place = NextHop { adjacency, ..hop };
            self.changed = true;
        }
    }

    /// Gives an id up. The next hop stays as it is until [`Hops::rest`]: packets may still be led to it.
    pub(super) fn release(&mut self, id: u32) {
        self.adjacencies.release(self.get(id));
        self.released.push(id);
    }

    /// No FIB holds a released id any more, but those of `held`: the others may be used again once every worker has passed a
    /// boundary.
    pub(super) fn rest(&mut self, publisher: &Publisher, held: &BTreeSet<u32>) {
        let released = core::mem::take(&mut self.released);
        let held = self.with_ways(released.iter().copied().filter(|id| held.contains(id)));
        let (held, free): (Vec<u32>, Vec<u32>) = released.into_iter().partition(|id| held.contains(id));
        let counted = held.iter().map(|id| self.get(*id).adjacency).collect();
        self.adjacencies.rest(publisher, &counted);
        self.released = held;
        if free.is_empty() {
            return;
        }
        for id in &free {
            self.groups.remove(id);
            self.splits.remove(id);
        }
        self.resting.push_back((publisher.mark(), free));
    }

    /// These next hops, and those that groups and port splits among them lead to.
    fn with_ways(&self, ids: impl Iterator<Item = u32>) -> BTreeSet<u32> {
        let mut all = BTreeSet::new();
        for id in ids {
            all.insert(id);
            let members =
                self.groups.get(&id).into_iter().flat_map(|group| group.buckets.iter().chain(&group.idle));
            all.extend(members.map(|member| member.0));
            all.extend(self.splits.get(&id).into_iter().flat_map(|split| [split.matching, split.others]));
        }
        all
    }

    /// Makes ids usable that no worker can meet any more. Returns whether some still rest.
    pub(super) fn reclaim(&mut self, publisher: &Publisher) -> bool {
        while self.resting.front().is_some_and(|(mark, _)| publisher.passed(*mark)) {
            let Some((_, ids)) = self.resting.pop_front() else { break };
            for id in &ids {
                self.list[*id as usize] = NextHop::default();
            }
            self.free.extend(ids);
        }
        self.adjacencies.reclaim(publisher) | !self.resting.is_empty()
    }

    /// The part to publish, where it differs from the published one, and whether it has ids that one lacks.
    pub(super) fn part(&mut self) -> Option<(NextHops, bool)> {
        if !core::mem::take(&mut self.changed) {
            return None;
        }
        let (list, tallies) = (self.list.clone(), self.adjacencies.tallies());
        let mut part = NextHops { list, tallies, ..NextHops::default() };
        for (id, Group { buckets, idle }) in &self.groups {
            if let Some(group) = part.list.get_mut(*id as usize) {
                group.first_bucket = part.buckets.len() as u32;
                if !idle.is_empty() {
                    part.idle.insert(group.first_bucket, idle.iter().map(|id| id.0).collect());
                }
                part.buckets.extend(buckets.iter().map(|id| id.0));
            }
        }
        for (id, split) in &self.splits {
            if let Some(hop) = part.list.get_mut(*id as usize) {
                hop.first_bucket = part.splits.len() as u32;
                part.splits.push(split.clone());
            }
        }
        Some((part, core::mem::take(&mut self.fresh)))
    }

    /// Number of ids in use.
    pub(super) fn len(&self) -> usize {
        let resting: usize = self.resting.iter().map(|(_, ids)| ids.len()).sum();
        self.list.len() - 1 - self.free.len() - resting - self.released.len()
    }
}
