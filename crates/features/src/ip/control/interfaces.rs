//! Interfaces and neighbours: the routes and link-local next hops that follow from them.

use super::error::ForwardingError;
use super::forwarding::{Forwarding, Scoped};
use super::links::{Derived, Link};
use super::route::{Path, Prefix, Via, link_local};
use super::sets::World;
use crate::interface::Interface;
use core::net::IpAddr;
use graph::IfIndex;
use std::collections::{BTreeMap, BTreeSet};
use wire::MacAddr;

impl Forwarding {
    /// Tells of an interface: new, changed, or with `None` gone. Its connected and local routes follow from it; routes
    /// that lead through it become active or pending.
    ///
    /// # Errors
    /// [`ForwardingError::InterfaceZero`], [`ForwardingError::NoVrf`], [`ForwardingError::BadAddress`],
    /// [`ForwardingError::TooManyNextHops`]; nothing has changed but for the last.
    pub fn set_interface(
        &mut self,
        index: IfIndex,
        interface: Option<&Interface>,
    ) -> Result<(), ForwardingError> {
        let link = interface.map(Link::from);
        if index == 0 {
            return Err(ForwardingError::InterfaceZero);
        }
        if let Some(link) = &link {
            if !self.vrfs.contains_key(&link.vrf) {
                return Err(ForwardingError::NoVrf { vrf: link.vrf });
            }
            if let Some(bad) =
                link.addresses.iter().find(|a| Prefix::covering(a.address, a.prefix_len).is_err())
            {
                let (address, prefix_len) = (bad.address, bad.prefix_len);
                return Err(ForwardingError::BadAddress { interface: index, address, prefix_len });
            }
        }
        if self.links.list.get(&index) == link.as_ref() {
            return Ok(());
        }
        let before = self.derived(index);
        match link {
            Some(link) => self.links.list.insert(index, link),
            None => {
                self.links.neighbours.retain(|(of, _), _| *of != index);
                self.links.list.remove(&index)
            }
        };
        let after = self.derived(index);
        self.resolve_all();
        after.difference(&before).try_for_each(|route| self.add_derived(index, route))?;
        before.difference(&after).for_each(|route| self.remove_derived(index, route));
        self.set_scoped(index)
    }

    /// Tells that a neighbour's link-layer address is known, has changed, or with `None` is known no more. All routes
    /// that lead to it switch at once.
    ///
    /// # Errors
    /// [`ForwardingError::NoInterface`], [`ForwardingError::TooManyNextHops`].
    pub fn set_neighbour(
        &mut self,
        interface: IfIndex,
        address: IpAddr,
        mac: Option<MacAddr>,
    ) -> Result<(), ForwardingError> {
        let link = self.links.list.get(&interface).ok_or(ForwardingError::NoInterface { interface })?;
        let route = link.neighbour_route(interface, address);
        let key = (interface, address);
        let old = match mac {
            Some(mac) => self.links.neighbours.insert(key, mac),
            None => self.links.neighbours.remove(&key),
        };
        if old == mac {
            return Ok(());
        }
        let Self { sets, links, vrf_ids, hops, .. } = self;
        sets.resolve_neighbour(&mut World { links, vrfs: vrf_ids, hops }, interface, address);
        if link_local(address).is_some() {
            return self.set_scoped(interface);
        }
        match route {
            Some(route) if old.is_none() => self.add_derived(interface, &route),
            Some(route) if mac.is_none() => {
                self.remove_derived(interface, &route);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn derived(&self, index: IfIndex) -> BTreeSet<Derived> {
        let Some(link) = self.links.list.get(&index) else { return BTreeSet::new() };
        let neighbours = self.links.neighbours_of(index);
        let neighbours = neighbours.filter_map(|address| link.neighbour_route(index, address));
        link.routes(index).into_iter().chain(neighbours).collect()
    }

    fn add_derived(&mut self, index: IfIndex, route: &Derived) -> Result<(), ForwardingError> {
        let paths = [Path::from(route.via)];
        self.insert(route.vrf, route.prefix, route.origin, index, &paths).map(|_| ())
    }

    fn remove_derived(&mut self, index: IfIndex, route: &Derived) {
        // A VRF can't be deleted while it has interfaces.
        let _ = self.remove(route.vrf, route.prefix, route.origin, index);
    }

    /// Brings the next hops of an interface's link-local addresses up to date.
    fn set_scoped(&mut self, index: IfIndex) -> Result<(), ForwardingError> {
        let mut wanted = BTreeMap::new();
        let mut vrf = 0;
        if let Some(link) = self.links.list.get(&index) {
            vrf = link.vrf;
            let neighbours = self.links.neighbours_of(index).filter_map(link_local);
            let neighbours = neighbours.map(|address| {
                (Some(address), Via::Address { address: address.into(), interface: Some(index) })
            });
            wanted.extend(neighbours.chain(link.scoped(index)));
        }
        let Self { sets, links, vrf_ids, hops, scoped, .. } = self;
        let mut sets_of = BTreeMap::new();
        for (address, via) in wanted {
            let world = &mut World { links, vrfs: vrf_ids, hops };
            sets_of.insert((index, address), sets.acquire(world, vrf, &[Path::from(via)])?);
        }
        let old: Vec<Scoped> = scoped.range((index, None)..).map(|(key, _)| *key).collect();
        for key in old.into_iter().take_while(|(of, _)| *of == index) {
            let old = scoped.remove(&key);
            self.scoped_changed |= old != sets_of.get(&key).copied();
            old.into_iter().for_each(|set| sets.release(hops, set));
        }
        for (key, set) in sets_of {
            self.scoped_changed |= scoped.insert(key, set).is_none();
        }
        Ok(())
    }
}
