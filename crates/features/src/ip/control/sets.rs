//! Path sets: what routes lead to, shared by all routes that lead to the same.

use super::error::ForwardingError;
use super::hops::{Group, Hops};
use super::links::Links;
use super::route::{Path, Pending, RouteState, Via};
use super::splits::{Rules, rule_of};
use crate::ip::{NextHop, NextHopKind};
use crate::port_split::{PortSplit, SplitHop};
use core::net::IpAddr;
use foldhash::fast::RandomState;
use graph::IfIndex;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use tables::ecmp::{self, Member};
use tables::fib::NextHopId;

/// Number of a path set.
pub(super) type SetId = u32;

/// Paths a route can have: as many as [`ecmp::buckets_for`] gives buckets to.
pub(super) const MAX_PATHS: usize = 1024;

/// What a set's next hop is made from.
pub(super) struct World<'w> {
    pub(super) links: &'w Links,
    pub(super) vrfs: &'w BTreeSet<u16>,
    pub(super) hops: &'w mut Hops,
}

/// The next hops of one or more routes in a VRF.
#[derive(Debug)]
pub(super) struct PathSet {
    vrf: u16,
    pub(super) paths: Box<[Path]>,
    /// Routes that lead here, and groups that this is a member of.
    uses: u32,
    /// Its next hop's id, for life.
    pub(super) hop: u32,
    pub(super) state: RouteState,
    /// The neighbour that packets go to, where it is one.
    neighbour: Option<(IfIndex, IpAddr)>,
    /// For several paths: the set of each path alone. Its id stands in the group's buckets. For a port split: those of its ways.
    members: Box<[SetId]>,
    /// The groups that this is a member of.
    groups: BTreeSet<SetId>,
    /// What the group's buckets hold, kept where flows should stay where they are.
    buckets: Vec<NextHopId>,
}

/// All path sets.
#[derive(Debug, Default)]
pub(super) struct Sets {
    list: Vec<Option<PathSet>>,
    free: Vec<SetId>,
    index: HashMap<u16, HashMap<Box<[Path]>, SetId, RandomState>, RandomState>,
    by_neighbour: BTreeMap<(IfIndex, IpAddr), BTreeSet<SetId>>,
    /// Sets that have become active or pending: the routes that use them have to be looked at.
    pub(super) turned: BTreeSet<SetId>,
    /// Port splits that path sets are.
    pub(super) rules: Rules,
}

impl Sets {
    /// A set.
    pub(super) fn get(&self, id: SetId) -> Option<&PathSet> {
        self.list.get(id as usize)?.as_ref()
    }

    /// What a set's paths lead to: each with the set of it alone, and how many of the group's buckets it has.
    pub(super) fn shares(&self, id: SetId) -> Vec<(Path, &PathSet, usize)> {
        let Some(set) = self.get(id) else { return Vec::new() };
        if set.members.is_empty() || rule_of(&set.paths).is_some() {
            return set.paths.iter().map(|path| (*path, set, 1)).collect();
        }
        let members = set.paths.iter().zip(&set.members).filter_map(|(path, member)| {
            let member = self.get(*member)?;
            let held = set.buckets.iter().filter(|id| id.0 == member.hop).count();
            Some((*path, member, held))
        });
        members.collect()
    }

    /// What a set's paths lead to, each with whether it does by itself; of a port split, its ways.
    pub(super) fn states(&self, id: SetId) -> Vec<(Path, RouteState)> {
        let Some(set) = self.get(id) else { return Vec::new() };
        let members = set.members.iter().filter_map(|member| self.get(*member)).map(|member| member.state);
        match rule_of(&set.paths) {
            Some(_) => self.ways(&set.paths).into_iter().map(Path::from).zip(members).collect(),
            None if set.members.is_empty() => set.paths.iter().map(|path| (*path, set.state)).collect(),
            None => set.paths.iter().copied().zip(members).collect(),
        }
    }

    /// The next-hop id of a set that leads somewhere.
    pub(super) fn active(&self, id: SetId) -> Option<u32> {
        self.get(id).filter(|set| set.state == RouteState::Active).map(|set| set.hop)
    }

    /// Sets that there are.
    pub(super) fn len(&self) -> usize {
        self.list.len() - self.free.len()
    }

    /// The set of these paths, used once more. They are in the order and form that [`super::forwarding`] brings them to.
    pub(super) fn acquire(
        &mut self,
        world: &mut World<'_>,
        vrf: u16,
        paths: &[Path],
    ) -> Result<SetId, ForwardingError> {
        if let Some(id) = self.index.get(&vrf).and_then(|index| index.get(paths)).copied() {
            self.share(id);
            return Ok(id);
        }
        let hop = world.hops.allocate()?;
        let mut members = Vec::new();
        for via in self.ways(paths) {
            match self.acquire(world, vrf, &[Path::from(via)]) {
                Ok(member) => members.push(member),
                Err(error) => {
                    members.into_iter().for_each(|member| self.release(world.hops, member));
                    world.hops.release(hop);
                    return Err(error);
                }
            }
        }
        if let Some(rule) = rule_of(paths) {
            self.rules.acquire(rule);
        }
        let id = self.free.pop().unwrap_or(self.list.len() as SetId);
        for member in &members {
            if let Some(Some(member)) = self.list.get_mut(*member as usize) {
                member.groups.insert(id);
            }
        }
        let state = RouteState::Pending(Pending::NoVrf(vrf));
        let set = PathSet {
            vrf,
            paths: paths.into(),
            uses: 1,
            hop,
            state,
            neighbour: None,
            members: members.into(),
            groups: BTreeSet::new(),
            buckets: Vec::new(),
        };
        if id as usize == self.list.len() {
            self.list.push(None);
        }
        self.list[id as usize] = Some(set);
        self.index.entry(vrf).or_default().insert(paths.into(), id);
        self.resolve(world, id);
        // Nobody uses it yet.
        self.turned.remove(&id);
        Ok(id)
    }

    /// Where a set leads that consists of others.
    fn ways(&self, paths: &[Path]) -> Vec<Via> {
        match rule_of(paths) {
            Some(rule) => self.rules.get(rule).into_iter().flat_map(|rule| rule.ways()).collect(),
            None if paths.len() > 1 => paths.iter().map(|path| path.via).collect(),
            None => Vec::new(),
        }
    }

    fn share(&mut self, id: SetId) {
        if let Some(Some(set)) = self.list.get_mut(id as usize) {
            set.uses += 1;
        }
    }

    /// Undoes one [`Sets::acquire`].
    pub(super) fn release(&mut self, hops: &mut Hops, id: SetId) {
        let Some(slot) = self.list.get_mut(id as usize) else { return };
        let Some(set) = slot else { return };
        set.uses -= 1;
        if set.uses > 0 {
            return;
        }
        let Some(set) = slot.take() else { return };
        self.free.push(id);
        self.turned.remove(&id);
        if let Some(index) = self.index.get_mut(&set.vrf) {
            index.remove(&set.paths);
        }
        self.forget_neighbour(id, set.neighbour);
        hops.release(set.hop);
        if let Some(rule) = rule_of(&set.paths) {
            self.rules.release(rule);
        }
        for member in set.members {
            if let Some(Some(member)) = self.list.get_mut(member as usize) {
                member.groups.remove(&id);
            }
            self.release(hops, member);
        }
    }

    /// Works all sets out again: interfaces, connected networks or VRFs have changed.
    pub(super) fn resolve_all(&mut self, world: &mut World<'_>) {
        // Members before groups, which are worked out by their members' change.
        for id in 0..self.list.len() as SetId {
            if self.get(id).is_some_and(|set| set.members.is_empty()) {
                self.resolve(world, id);
            }
        }
    }

    /// Works the sets out again that lead to a neighbour.
    pub(super) fn resolve_neighbour(&mut self, world: &mut World<'_>, index: IfIndex, address: IpAddr) {
        let ids = self.by_neighbour.get(&(index, address)).cloned().unwrap_or_default();
        ids.into_iter().for_each(|id| self.resolve(world, id));
    }

    /// Works out what a set's next hop is, and those of the groups it is a member of.
    fn resolve(&mut self, world: &mut World<'_>, id: SetId) {
        let Some(set) = self.get(id) else { return };
        if !set.members.is_empty() {
            return self.resolve_composite(world, id);
        }
        let Some(path) = set.paths.first() else { return };
        let (hop, neighbour) = match resolve_path(world, set.vrf, path.via) {
            Ok((hop, neighbour)) => (Ok(hop), neighbour),
            Err(pending) => (Err(pending), None),
        };
        let (hop_id, before, old) = (set.hop, set.state, set.neighbour);
        let state = match hop {
            Ok(hop) => {
                world.hops.set(hop_id, hop);
                RouteState::Active
            }
            Err(pending) => {
                world.hops.set(hop_id, NextHop::default());
                RouteState::Pending(pending)
            }
        };
        if old != neighbour {
            self.forget_neighbour(id, old);
            if let Some(neighbour) = neighbour {
                self.by_neighbour.entry(neighbour).or_default().insert(id);
            }
        }
        let Some(Some(set)) = self.list.get_mut(id as usize) else { return };
        (set.state, set.neighbour) = (state, neighbour);
        if (before == RouteState::Active) != (state == RouteState::Active) {
            let groups = set.groups.clone();
            self.turned.insert(id);
            groups.into_iter().for_each(|group| self.resolve_composite(world, group));
        }
    }

    /// Works out what a set of several others leads to.
    fn resolve_composite(&mut self, world: &mut World<'_>, id: SetId) {
        let rule = self.get(id).and_then(|set| rule_of(&set.paths));
        match rule.and_then(|rule| self.rules.split(rule)) {
            Some(split) => self.resolve_split(world, id, split),
            None => self.resolve_group(world, id),
        }
    }

    /// Works out where a port split's ways lead. It leads somewhere as long as one of them does.
    fn resolve_split(&mut self, world: &mut World<'_>, id: SetId, split: Arc<PortSplit>) {
        let Some(set) = self.get(id) else { return };
        let way = |at: usize| set.members.get(at).and_then(|member| self.active(*member));
        let (others, matching) = (way(0), way(1));
        let first = set.members.first().and_then(|member| self.get(*member)).map(|member| member.state);
        let (hop, before) = (set.hop, set.state);
        let state = if others.or(matching).is_some() { Some(RouteState::Active) } else { first };
        let (others, matching) = (others.unwrap_or_default(), matching.unwrap_or_default());
        world.hops.set_split(hop, SplitHop { split, matching, others });
        let (Some(Some(set)), Some(state)) = (self.list.get_mut(id as usize), state) else { return };
        set.state = state;
        if (before == RouteState::Active) != (state == RouteState::Active) {
            self.turned.insert(id);
        }
    }

    /// Spreads a group over those of its members that lead somewhere.
    fn resolve_group(&mut self, world: &mut World<'_>, id: SetId) {
        let Some(set) = self.get(id) else { return };
        let before = set.state;
        let pairs = set.paths.iter().zip(&set.members);
        let active = pairs.clone().filter_map(|(path, member)| {
            Some(Member { id: NextHopId(self.active(*member)?), weight: path.weight })
        });
        let active: Vec<Member> = active.collect();
        let first = set.members.first().and_then(|member| self.get(*member)).map(|member| member.state);
        let count = ecmp::buckets_for(set.paths.len());
        let buckets = ecmp::spread(&active, &set.buckets, count);
        let Some(Some(set)) = self.list.get_mut(id as usize) else { return };
        match buckets {
            Ok(buckets) => {
                set.state = RouteState::Active;
                set.buckets.clone_from(&buckets);
                let held: BTreeSet<u32> = buckets.iter().map(|id| id.0).collect();
                let ids = active.iter().map(|member| member.id);
                let idle = ids.filter(|id| !held.contains(&id.0)).collect();
                world.hops.set_group(set.hop, Group { buckets, idle });
            }
            Err(_) => {
                if let Some(state) = first {
                    set.state = state;
                }
                world.hops.set(set.hop, NextHop::default());
            }
        }
        if (before == RouteState::Active) != (set.state == RouteState::Active) {
            self.turned.insert(id);
        }
    }

    fn forget_neighbour(&mut self, id: SetId, neighbour: Option<(IfIndex, IpAddr)>) {
        let Some(key) = neighbour else { return };
        if let Some(ids) = self.by_neighbour.get_mut(&key) {
            ids.remove(&id);
            if ids.is_empty() {
                self.by_neighbour.remove(&key);
            }
        }
    }
}

type Resolved = (NextHop, Option<(IfIndex, IpAddr)>);

fn resolve_path(world: &World<'_>, vrf: u16, via: Via) -> Result<Resolved, Pending> {
    let action = |kind| Ok((NextHop { kind, ..NextHop::default() }, None));
    match via {
        Via::Blackhole => action(NextHopKind::Blackhole),
        Via::Unreachable => action(NextHopKind::Unreachable),
        Via::Prohibit => action(NextHopKind::Prohibit),
        Via::LinkLocal => action(NextHopKind::LinkLocal),
        // Made of others.
        Via::PortSplit(_) => action(NextHopKind::NoRoute),
        Via::Local(index) => world.links.local(index).map(|hop| (hop, None)),
        Via::Interface(index) => world.links.out(index).map(|hop| (hop, None)),
        Via::Vrf(to) if !world.vrfs.contains(&to) => Err(Pending::NoVrf(to)),
        Via::Vrf(to) => Ok((NextHop { kind: NextHopKind::LookupIn, vrf: to, ..NextHop::default() }, None)),
        Via::Address { address, interface } => {
            let connected = || world.links.connected(vrf, address).ok_or(Pending::NotConnected(address));
            let index = interface.map_or_else(connected, Ok)?;
            Ok((world.links.to(index, address)?, Some((index, address))))
        }
    }
}
