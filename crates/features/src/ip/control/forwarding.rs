//! The control thread's state of forwarding, and how it is changed.

use super::adjacencies::Adjacencies;
use super::error::ForwardingError;
use super::hops::Hops;
use super::links::Links;
use super::rib::{Candidate, Rib, refused};
use super::route::{Origin, Path, Prefix, RouteState, Via, link_local_prefixes, same_family};
use super::sets::{MAX_PATHS, SetId, Sets, World};
use super::splits::SplitRule;
use crate::ip::{Fibs, LinkLocals, NextHops, VrfTables};
use core::net::Ipv6Addr;
use graph::IfIndex;
use graph::publish::{Key, Schema};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tables::fib::FibWriter;

/// A VRF.
#[derive(Debug)]
pub(super) struct Vrf {
    name: Arc<str>,
    symmetric_hash: bool,
    pub(super) v4: Rib<u32>,
    pub(super) v6: Rib<u128>,
}

impl Vrf {
    fn new(vrf: u16, name: &str, symmetric_hash: bool, bytes: usize) -> Result<Self, ForwardingError> {
        let v4 = Rib::new(FibWriter::with_capacity(bytes).map_err(refused(vrf))?);
        let v6 = Rib::new(FibWriter::with_capacity(bytes).map_err(refused(vrf))?);
        Ok(Self { name: name.into(), symmetric_hash, v4, v6 })
    }

    pub(super) fn tables(&self) -> VrfTables {
        VrfTables {
            v4: self.v4.fib(),
            v6: self.v6.fib(),
            symmetric_hash: self.symmetric_hash,
            name: Arc::clone(&self.name),
        }
    }
}

/// A link-local address on its interface, or with `None` all others there.
pub(super) type Scoped = (IfIndex, Option<Ipv6Addr>);

/// The one writer of everything that forwarding reads. See the [module](super).
///
/// Changes take effect with the next [`Forwarding::commit`]; until then they can be made in any number and order.
#[derive(Debug)]
pub struct Forwarding {
    pub(super) hops_key: Key<NextHops>,
    pub(super) fibs_key: Key<Fibs>,
    pub(super) link_locals_key: Key<LinkLocals>,
    pub(super) vrfs: BTreeMap<u16, Vrf>,
    pub(super) vrf_ids: BTreeSet<u16>,
    pub(super) links: Links,
    pub(super) sets: Sets,
    pub(super) hops: Hops,
    /// The path sets of link-local addresses; without an address, of the others of the link.
    pub(super) scoped: BTreeMap<Scoped, SetId>,
    /// They differ from what is published.
    pub(super) scoped_changed: bool,
    /// VRFs differ from what is published.
    pub(super) vrfs_changed: bool,
    /// Queued changes wait until this mark has passed.
    pub(super) wait: Option<u64>,
    /// Most bytes of each table.
    fib_bytes: usize,
}

impl Forwarding {
    /// Nothing but the empty VRF 0, `default`, for tables of this schema and one worker.
    ///
    /// # Errors
    /// [`ForwardingError::Table`] where there is no memory for the tables, [`ForwardingError::Schema`] where the schema lacks
    /// the parts that [`crate::schema`] declares.
    pub fn new(schema: &Schema) -> Result<Self, ForwardingError> {
        Self::with_capacity(schema, 1, tables::fib::DEFAULT_CAPACITY)
    }

    /// As [`Forwarding::new`], where the table of each VRF and IP version may take `fib_bytes` at most. Workers 0 to `workers` − 1
    /// count what they send.
    ///
    /// # Errors
    /// As for [`Forwarding::new`].
    pub fn with_capacity(schema: &Schema, workers: usize, fib_bytes: usize) -> Result<Self, ForwardingError> {
        let keys = (schema.key(), schema.key(), schema.key());
        let (Some(hops_key), Some(fibs_key), Some(link_locals_key)) = keys else {
            return Err(ForwardingError::Schema);
        };
        let mut forwarding = Self {
            hops_key,
            fibs_key,
            link_locals_key,
            scoped: BTreeMap::new(),
            scoped_changed: false,
            vrfs: BTreeMap::new(),
            vrf_ids: BTreeSet::new(),
            links: Links::default(),
            sets: Sets::default(),
            hops: Hops::of_workers(workers),
            vrfs_changed: true,
            wait: None,
            fib_bytes,
        };
        forwarding.create_vrf(0, "default", false)?;
        Ok(forwarding)
    }

    /// Creates a VRF. `symmetric_hash`: equal-cost next hops are chosen by a hash that is the same for both directions
    /// of a flow.
    ///
    /// # Errors
    /// [`ForwardingError::VrfExists`]; [`ForwardingError::Table`] where there is no memory for its tables.
    pub fn create_vrf(&mut self, vrf: u16, name: &str, symmetric_hash: bool) -> Result<(), ForwardingError> {
        if self.vrfs.contains_key(&vrf) {
            return Err(ForwardingError::VrfExists { vrf });
        }
        self.vrfs.insert(vrf, Vrf::new(vrf, name, symmetric_hash, self.fib_bytes)?);
        self.vrf_ids.insert(vrf);
        self.vrfs_changed = true;
        self.resolve_all();
        for prefix in link_local_prefixes().into_iter().flatten() {
            self.insert(vrf, prefix, Origin::LinkLocal, 0, &[Path::from(Via::LinkLocal)])?;
        }
        Ok(())
    }

    /// Changes whether a VRF's flow hash is the same for both directions.
    ///
    /// # Errors
    /// [`ForwardingError::NoVrf`].
    pub fn set_symmetric_hash(&mut self, vrf: u16, symmetric_hash: bool) -> Result<(), ForwardingError> {
        let entry = self.vrfs.get_mut(&vrf).ok_or(ForwardingError::NoVrf { vrf })?;
        self.vrfs_changed |= entry.symmetric_hash != symmetric_hash;
        entry.symmetric_hash = symmetric_hash;
        Ok(())
    }

    /// Deletes a VRF with its routes. Routes of other VRFs that lead into it become pending.
    ///
    /// # Errors
    /// [`ForwardingError::NoVrf`], [`ForwardingError::DefaultVrf`], [`ForwardingError::VrfInUse`].
    pub fn delete_vrf(&mut self, vrf: u16) -> Result<(), ForwardingError> {
        if vrf == 0 {
            return Err(ForwardingError::DefaultVrf);
        }
        if let Some((interface, _)) = self.links.list.iter().find(|(_, link)| link.vrf == vrf) {
            return Err(ForwardingError::VrfInUse { vrf, interface: *interface });
        }
        let gone = self.vrfs.remove(&vrf).ok_or(ForwardingError::NoVrf { vrf })?;
        self.vrf_ids.remove(&vrf);
        self.vrfs_changed = true;
        let v4 = gone.v4.iter().map(|(_, _, candidate)| candidate.set);
        let sets: Vec<SetId> = v4.chain(gone.v6.iter().map(|(_, _, candidate)| candidate.set)).collect();
        sets.into_iter().for_each(|set| self.sets.release(&mut self.hops, set));
        self.resolve_all();
        Ok(())
    }

    /// Adds a route, or replaces the static one to the same prefix. Several paths share the traffic by their weights.
    ///
    /// # Errors
    /// [`ForwardingError`] says what is wrong with it; the route that was there before stays.
    pub fn add_route(
        &mut self,
        vrf: u16,
        prefix: Prefix,
        paths: &[Path],
    ) -> Result<RouteState, ForwardingError> {
        let paths = normal(vrf, prefix, paths)?;
        let set = self.insert(vrf, prefix, Origin::Static, 0, &paths)?;
        Ok(self.sets.get(set).map_or(RouteState::Active, |set| set.state))
    }

    /// As [`Forwarding::add_route`], where packets go one of two ways by their destination port.
    ///
    /// # Errors
    /// Likewise.
    pub fn add_split_route(
        &mut self,
        vrf: u16,
        prefix: Prefix,
        rule: &SplitRule,
    ) -> Result<RouteState, ForwardingError> {
        for via in rule.ways() {
            match via {
                Via::Address { address, interface: Some(_) } if same_family(address, prefix) => {}
                Via::Address { interface: Some(_), .. } => {
                    return Err(ForwardingError::Family { prefix, via });
                }
                Via::Interface(_) => {}
                _ => {
                    let reason = "a port split leads to interfaces: name one for each way";
                    return Err(ForwardingError::PortSplit { prefix, reason });
                }
            }
        }
        let number = self.sets.rules.number(rule);
        let number = number.map_err(|reason| ForwardingError::PortSplit { prefix, reason })?;
        let set = self.insert(vrf, prefix, Origin::Static, 0, &[Path::from(Via::PortSplit(number))]);
        if set.is_err() {
            self.sets.rules.drop_unused(number);
        }
        Ok(self.sets.get(set?).map_or(RouteState::Active, |set| set.state))
    }

    /// What a [`Via::PortSplit`] stands for.
    #[must_use]
    pub fn split_rule(&self, number: u32) -> Option<&SplitRule> {
        self.sets.rules.get(number)
    }

    /// The interfaces that port splits lead to: their packets are to pass `ip4-port-split-learn` and `ip6-port-split-learn`.
    #[must_use]
    pub fn split_interfaces(&self) -> BTreeSet<IfIndex> {
        self.sets.rules.interfaces()
    }

    /// Whom next hops lead to, and what has been sent there; to be shared with those who look.
    #[must_use]
    pub fn adjacencies(&self) -> Adjacencies {
        self.hops.adjacencies.clone()
    }

    /// Whether [`Forwarding::split_interfaces`] may have changed since this was asked last.
    pub fn take_splits_changed(&mut self) -> bool {
        self.sets.rules.take_changed()
    }

    /// Removes a static route. False: there was none.
    ///
    /// # Errors
    /// [`ForwardingError::NoVrf`].
    pub fn delete_route(&mut self, vrf: u16, prefix: Prefix) -> Result<bool, ForwardingError> {
        self.remove(vrf, prefix, Origin::Static, 0)
    }

    pub(super) fn insert(
        &mut self,
        vrf: u16,
        prefix: Prefix,
        origin: Origin,
        owner: u16,
        paths: &[Path],
    ) -> Result<SetId, ForwardingError> {
        let Self { vrfs, sets, links, vrf_ids, hops, .. } = self;
        let ribs = vrfs.get_mut(&vrf).ok_or(ForwardingError::NoVrf { vrf })?;
        let set = sets.acquire(&mut World { links, vrfs: vrf_ids, hops }, vrf, paths)?;
        let candidate = Candidate { set, origin, owner };
        let old = match prefix {
            Prefix::V4(prefix) => ribs.v4.add(sets, prefix.bits(), prefix.len(), candidate),
            Prefix::V6(prefix) => ribs.v6.add(sets, prefix.bits(), prefix.len(), candidate),
        };
        if let Some(old) = old {
            sets.release(hops, old);
        }
        Ok(set)
    }

    pub(super) fn remove(
        &mut self,
        vrf: u16,
        prefix: Prefix,
        origin: Origin,
        owner: u16,
    ) -> Result<bool, ForwardingError> {
        let Self { vrfs, sets, hops, .. } = self;
        let ribs = vrfs.get_mut(&vrf).ok_or(ForwardingError::NoVrf { vrf })?;
        let old = match prefix {
            Prefix::V4(prefix) => ribs.v4.remove(sets, prefix.bits(), prefix.len(), origin, owner),
            Prefix::V6(prefix) => ribs.v6.remove(sets, prefix.bits(), prefix.len(), origin, owner),
        };
        if let Some(old) = old {
            sets.release(hops, old);
        }
        Ok(old.is_some())
    }

    pub(super) fn resolve_all(&mut self) {
        let Self { sets, links, vrf_ids, hops, .. } = self;
        sets.resolve_all(&mut World { links, vrfs: vrf_ids, hops });
    }
}

/// The paths of a static route in their one form: checked, sorted, each once.
fn normal(vrf: u16, prefix: Prefix, paths: &[Path]) -> Result<Cow<'_, [Path]>, ForwardingError> {
    for Path { via, weight } in paths.iter().copied() {
        if via.is_action() && paths.len() > 1 {
            return Err(ForwardingError::NotAlone { prefix, via });
        }
        if weight == 0 || weight > u16::MAX.into() {
            return Err(ForwardingError::Weight { prefix, via });
        }
        match via {
            Via::Address { address, .. } if !same_family(address, prefix) => {
                return Err(ForwardingError::Family { prefix, via });
            }
            Via::Vrf(to) if to == vrf => return Err(ForwardingError::SameVrf { prefix, vrf }),
            _ => {}
        }
    }
    if let [Path { weight: 1, .. }] = paths {
        return Ok(Cow::Borrowed(paths));
    }
    let mut paths = paths.to_vec();
    paths.sort_unstable();
    paths.dedup_by(|next, path| {
        let same = next.via == path.via;
        if same {
            path.weight += next.weight;
        }
        same
    });
    match paths.as_mut_slice() {
        [] => return Err(ForwardingError::NoPath { prefix }),
        // Alone, whatever its weight, it takes everything.
        [path] => path.weight = 1,
        all if all.len() > MAX_PATHS => {
            return Err(ForwardingError::TooManyPaths { prefix, paths: all.len(), max: MAX_PATHS });
        }
        _ => {}
    }
    Ok(Cow::Owned(paths))
}
