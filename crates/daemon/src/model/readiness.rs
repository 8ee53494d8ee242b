//! Which objects can be in force, and what the others wait for.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::{HashMap, HashSet};

use super::spec::{BridgeSpec, InterfaceSpec, L2, MacTarget, Paths, PortSpec, TenantSpec};
use super::{
    Connected, Key, Model, Name, NeighborKey, PathStanding, ResolvedPaths, RouteKey, Standing, Waiting,
};

/// Objects that the system refuses at present, and why.
pub type Failures = BTreeMap<Key, Arc<str>>;

/// Where every object stands.
#[derive(Debug, Default)]
pub struct Readiness {
    vrfs: BTreeMap<Name, Standing>,
    bridges: BTreeMap<Name, Standing>,
    interfaces: BTreeMap<Name, Standing>,
    neighbors: BTreeMap<NeighborKey, Standing>,
    tenants: BTreeMap<Name, Standing>,
    nat_pools: BTreeMap<Name, Standing>,
    policers: BTreeMap<Name, Standing>,
    vips: BTreeMap<Name, Standing>,
    acls: BTreeMap<Name, Standing>,
    address_sets: BTreeMap<Name, Standing>,
    endpoints: BTreeMap<Name, Standing>,
    paths: BTreeMap<Name, HashMap<Arc<Paths>, PathStanding, RandomState>>,
    connected: Connected,
    /// Which interface is cross-connected to which, in both directions.
    cross_connects: BTreeMap<Name, Name>,
    failed_routes: BTreeMap<RouteKey, Arc<str>>,
    /// Own addresses by VRF, where there are tunnels, whose ends must be among them.
    ends: HashSet<(Name, IpAddr), RandomState>,
}

impl Readiness {
    /// Finds out where every object of `model` stands.
    pub fn of(model: &Model, failures: &Failures) -> Self {
        let mut readiness = Self::default();
        let failed = |key: Key| failures.get(&key).cloned();
        readiness.vrfs.insert(Name::default_vrf(), Standing::Ready);
        for name in model.vrfs.keys() {
            let standing = failed(Key::Vrf(name.clone())).map_or(Standing::Ready, Standing::Failed);
            readiness.vrfs.insert(name.clone(), standing);
        }
        for name in model.bridges.keys() {
            let standing = failed(Key::Bridge(name.clone())).map_or(Standing::Ready, Standing::Failed);
            readiness.bridges.insert(name.clone(), standing);
        }
        readiness.stand_interfaces(model, failures);
        readiness.stand_members(model);
        for name in model.neighbors.keys() {
            let standing = failed(Key::Neighbor(name.clone())).map_or_else(
                || {
                    let waits = readiness.require(&Key::Interface(name.interface.clone())).err();
                    Standing::from_waits(waits.into_iter().collect())
                },
                Standing::Failed,
            );
            readiness.neighbors.insert(name.clone(), standing);
        }
        for name in model.nat_pools.keys() {
            let standing = failed(Key::NatPool(name.clone())).map_or(Standing::Ready, Standing::Failed);
            readiness.nat_pools.insert(name.clone(), standing);
        }
        for name in model.policers.keys() {
            let standing = failed(Key::Policer(name.clone())).map_or(Standing::Ready, Standing::Failed);
            readiness.policers.insert(name.clone(), standing);
        }
        for name in model.vips.keys() {
            let standing = failed(Key::Vip(name.clone())).map_or(Standing::Ready, Standing::Failed);
            readiness.vips.insert(name.clone(), standing);
        }
        for name in model.acls.keys() {
            let standing = failed(Key::Acl(name.clone())).map_or(Standing::Ready, Standing::Failed);
            readiness.acls.insert(name.clone(), standing);
        }
        for name in model.address_sets.keys() {
            let standing = failed(Key::AddressSet(name.clone())).map_or(Standing::Ready, Standing::Failed);
            readiness.address_sets.insert(name.clone(), standing);
        }
        for name in model.endpoints.keys() {
            let standing = failed(Key::Endpoint(name.clone())).map_or(Standing::Ready, Standing::Failed);
            readiness.endpoints.insert(name.clone(), standing);
        }
        readiness.stand_tenants(model, failures);
        readiness.stand_paths(model);
        readiness.failed_routes = failures
            .iter()
            .filter_map(|(key, reason)| match key {
                Key::Route(key) => Some((key.clone(), Arc::clone(reason))),
                _ => None,
            })
            .collect();
        readiness
    }

    /// Where an object stands; `None` if there is none.
    pub fn standing(&self, model: &Model, key: &Key) -> Option<Standing> {
        match key {
            Key::Vrf(name) => self.vrfs.get(name).cloned(),
            Key::Bridge(name) => self.bridges.get(name).cloned(),
            Key::Interface(name) => self.interfaces.get(name).cloned(),
            Key::Neighbor(key) => self.neighbors.get(key).cloned(),
            Key::Route(key) => self.route_standing(key, &model.route(key)?.paths),
            Key::Tenant(name) => self.tenants.get(name).cloned(),
            Key::NatPool(name) => self.nat_pools.get(name).cloned(),
            Key::Policer(name) => self.policers.get(name).cloned(),
            Key::Vip(name) => self.vips.get(name).cloned(),
            Key::Acl(name) => self.acls.get(name).cloned(),
            Key::AddressSet(name) => self.address_sets.get(name).cloned(),
            Key::Endpoint(name) => self.endpoints.get(name).cloned(),
        }
    }

    /// Where a route with these paths stands.
    pub fn route_standing(&self, key: &RouteKey, paths: &Arc<Paths>) -> Option<Standing> {
        if let Some(reason) = self.failed_routes.get(key) {
            return Some(Standing::Failed(Arc::clone(reason)));
        }
        if let Err(waiting) = self.require(&Key::Vrf(key.vrf.clone())) {
            return Some(Standing::Pending(vec![waiting]));
        }
        if let Some(waiting) = self.shadow(key) {
            return Some(Standing::Pending(vec![waiting]));
        }
        Some(self.paths.get(&key.vrf)?.get(paths)?.standing())
    }

    /// What is in force for a route with these paths; `None`: nothing.
    pub fn route_paths(&self, key: &RouteKey, paths: &Arc<Paths>) -> Option<Arc<ResolvedPaths>> {
        if self.failed_routes.contains_key(key)
            || !self.vrfs.get(&key.vrf)?.is_up()
            || self.connected.exactly(&key.vrf, key.prefix).is_some()
        {
            return None;
        }
        self.paths.get(&key.vrf)?.get(paths)?.resolved.clone()
    }

    /// `Ok` if an object (no route) is in force.
    pub(super) fn require(&self, key: &Key) -> Result<(), Waiting> {
        let standing = match key {
            Key::Vrf(name) => self.vrfs.get(name),
            Key::Bridge(name) => self.bridges.get(name),
            Key::Interface(name) => self.interfaces.get(name),
            Key::Neighbor(key) => self.neighbors.get(key),
            Key::Tenant(name) => self.tenants.get(name),
            Key::NatPool(name) => self.nat_pools.get(name),
            Key::Policer(name) => self.policers.get(name),
            Key::Vip(name) => self.vips.get(name),
            Key::Acl(name) => self.acls.get(name),
            Key::AddressSet(name) => self.address_sets.get(name),
            Key::Endpoint(name) => self.endpoints.get(name),
            Key::Route(_) => None,
        };
        match standing {
            Some(standing) if standing.is_up() => Ok(()),
            Some(_) => Err(Waiting::idle(key.clone())),
            None => Err(Waiting::missing(key.clone())),
        }
    }

    /// The networks of the interfaces that are in force.
    pub fn connected(&self) -> &Connected {
        &self.connected
    }

    /// What the dataplane shall have for an interface; `None`: it isn't in force.
    pub fn effective_interface(&self, spec: &Arc<InterfaceSpec>) -> Option<Arc<InterfaceSpec>> {
        if !self.interfaces.get(&spec.name)?.is_up() {
            return None;
        }
        let l2 = match (self.cross_connects.get(&spec.name), &spec.l2) {
            // Named as the other side of a cross-connect, it has to know too.
            (Some(other), None) => Some(L2::CrossConnect(other.clone())),
            // The other side isn't there.
            (None, Some(L2::CrossConnect(_))) => None,
            _ => return Some(Arc::clone(spec)),
        };
        Some(Arc::new(InterfaceSpec { l2, ..(**spec).clone() }))
    }

    /// What the dataplane shall have for a bridge; `None`: it isn't in force.
    pub fn effective_bridge(&self, model: &Model, spec: &Arc<BridgeSpec>) -> Option<Arc<BridgeSpec>> {
        match self.bridges.get(&spec.name)? {
            Standing::Ready => Some(Arc::clone(spec)),
            Standing::Partial(_) => {
                let mut bridge = (**spec).clone();
                bridge.static_macs.retain(|entry| match &entry.target {
                    MacTarget::Member(member) => self.member(model, member, &spec.name).is_ok(),
                    MacTarget::Drop => true,
                });
                Some(Arc::new(bridge))
            }
            Standing::Pending(_) | Standing::Failed(_) => None,
        }
    }

    /// What the dataplane shall have for a tenant: the interfaces that are in force; `None`: it isn't in force.
    pub fn effective_tenant(&self, spec: &Arc<TenantSpec>) -> Option<Arc<TenantSpec>> {
        match self.tenants.get(&spec.name)? {
            Standing::Ready => Some(Arc::clone(spec)),
            Standing::Partial(_) => {
                let up = |name: &Name| self.require(&Key::Interface(name.clone())).is_ok();
                Some(Arc::new(spec.with_interfaces(up)))
            }
            Standing::Pending(_) | Standing::Failed(_) => None,
        }
    }

    /// Routes whose way may have changed since `before`, besides those that were changed themselves; in no particular
    /// order, some perhaps twice.
    pub fn moved_routes(&self, before: &Self, model: &Model) -> Vec<RouteKey> {
        let mut moved = Vec::new();
        for (vrf, table) in &model.routes {
            let key = Key::Vrf(vrf.clone());
            let vrf_moved = self.require(&key).is_ok() != before.require(&key).is_ok();
            let changed = |paths: &Arc<Paths>| {
                let now = self.paths.get(vrf).and_then(|table| table.get(paths));
                // Paths that weren't there before belong to routes that were changed themselves.
                let Some(then) = before.paths.get(vrf).and_then(|table| table.get(paths)) else {
                    return false;
                };
                now.map(|standing| &standing.resolved) != Some(&then.resolved)
            };
            let moved_paths =
                table.paths.keys().filter(|paths| vrf_moved || changed(paths)).collect::<Vec<_>>();
            if moved_paths.is_empty() {
                continue;
            }
            let moved_paths = moved_paths.into_iter().collect::<HashSet<_, RandomState>>();
            let routes = table.routes.iter().filter(|(_, route)| moved_paths.contains(&route.paths));
            moved.extend(routes.map(|(prefix, _)| RouteKey { vrf: vrf.clone(), prefix: *prefix }));
        }
        // A network that came or went gives way to, or makes way for, the route of the same destination.
        if self.connected != before.connected {
            for (vrf, prefix) in self.connected.networks().chain(before.connected.networks()) {
                let key = RouteKey { vrf: vrf.clone(), prefix };
                if model.route(&key).is_some() {
                    moved.push(key);
                }
            }
        }
        if self.failed_routes != before.failed_routes {
            moved.extend(self.failed_routes.keys().chain(before.failed_routes.keys()).cloned());
        }
        moved
    }

    /// The connected network that takes a route's place, if there is one.
    fn shadow(&self, key: &RouteKey) -> Option<Waiting> {
        let interface = self.connected.exactly(&key.vrf, key.prefix)?;
        let reason = format!("{} is the connected network of interface {interface}", key.prefix);
        Some(Waiting { on: Some(Key::Interface(interface.clone())), reason })
    }

    fn stand_interfaces(&mut self, model: &Model, failures: &Failures) {
        let specs = || model.interfaces.values().map(|stored| &stored.spec);
        if specs().any(|spec| matches!(spec.port, PortSpec::Tunnel(_))) {
            let own =
                specs().flat_map(|spec| spec.addresses.iter().map(|own| (spec.vrf.clone(), own.addr())));
            self.ends = own.collect();
        }
        let base = model
            .interfaces
            .values()
            .map(|stored| (stored.spec.name.clone(), self.base(model, &stored.spec, failures)))
            .collect::<BTreeMap<_, _>>();
        for stored in model.interfaces.values() {
            let spec = &stored.spec;
            let mut standing = base.get(&spec.name).cloned().unwrap_or(Standing::Ready);
            if let (true, Some(L2::CrossConnect(other))) = (standing.is_up(), &spec.l2) {
                let other_key = Key::Interface(other.clone());
                standing = match base.get(other) {
                    Some(other_standing) if other_standing.is_up() => {
                        self.cross_connects.insert(spec.name.clone(), other.clone());
                        self.cross_connects.insert(other.clone(), spec.name.clone());
                        Standing::Ready
                    }
                    Some(_) => Standing::Partial(vec![Waiting::idle(other_key)]),
                    None => Standing::Partial(vec![Waiting::missing(other_key)]),
                };
            }
            if standing.is_up() {
                self.connected.add(spec);
            }
            self.interfaces.insert(spec.name.clone(), standing);
        }
    }

    /// Where an interface stands, the other side of a cross-connect left aside.
    fn base(&self, model: &Model, spec: &InterfaceSpec, failures: &Failures) -> Standing {
        if let Some(reason) = failures.get(&Key::Interface(spec.name.clone())) {
            return Standing::Failed(Arc::clone(reason));
        }
        let mut waits = Vec::new();
        waits.extend(self.require(&Key::Vrf(spec.vrf.clone())).err());
        if let Some(L2::Bridge { name, .. }) = &spec.l2 {
            waits.extend(self.require(&Key::Bridge(name.clone())).err());
        }
        if let PortSpec::Vlan(vlan) = &spec.port {
            let parent = Key::Interface(vlan.parent.clone());
            match model.interfaces.get(&vlan.parent) {
                // A vlan on a vlan is a conflict and never gets here; asking no further keeps this finite.
                Some(stored) if matches!(stored.spec.port, PortSpec::Vlan(_)) => {
                    waits.push(Waiting::idle(parent))
                }
                Some(stored) if !self.base(model, &stored.spec, failures).is_up() => {
                    waits.push(Waiting::idle(parent));
                }
                Some(_) => {}
                None => waits.push(Waiting::missing(parent)),
            }
        }
        if let PortSpec::Tunnel(tunnel) = &spec.port {
            waits.extend(self.require(&Key::Vrf(tunnel.underlay_vrf.clone())).err());
            if !self.ends.contains(&(tunnel.underlay_vrf.clone(), tunnel.local)) {
                let (end, vrf) = (tunnel.local, &tunnel.underlay_vrf);
                waits.push(Waiting {
                    on: None,
                    reason: format!("no interface of VRF {vrf} has the address {end} yet"),
                });
            }
        }
        Standing::from_waits(waits)
    }

    /// Bridges whose static entries name interfaces that are no members are in force but for those.
    fn stand_members(&mut self, model: &Model) {
        let mut partial = Vec::new();
        for stored in model.bridges.values() {
            let waits = stored
                .spec
                .static_macs
                .iter()
                .filter_map(|entry| match &entry.target {
                    MacTarget::Member(member) => self.member(model, member, &stored.spec.name).err(),
                    MacTarget::Drop => None,
                })
                .collect::<Vec<_>>();
            if !waits.is_empty() {
                partial.push((stored.spec.name.clone(), waits));
            }
        }
        for (name, waits) in partial {
            if let Some(standing @ Standing::Ready) = self.bridges.get_mut(&name) {
                *standing = Standing::Partial(waits);
            }
        }
    }

    /// `Ok` if an interface is in force and a member of a bridge.
    fn member(&self, model: &Model, interface: &Name, bridge: &Name) -> Result<(), Waiting> {
        let key = Key::Interface(interface.clone());
        self.require(&key)?;
        let l2 = model.interfaces.get(interface).and_then(|stored| stored.spec.l2.as_ref());
        match l2 {
            Some(L2::Bridge { name, .. }) if name == bridge => Ok(()),
            _ => Err(Waiting { reason: format!("{key} is no member of the bridge"), on: Some(key) }),
        }
    }

    /// Tenants are in force but for interfaces that aren't, and without a pool that isn't.
    fn stand_tenants(&mut self, model: &Model, failures: &Failures) {
        for (name, stored) in &model.tenants {
            let standing = failures.get(&Key::Tenant(name.clone())).cloned().map_or_else(
                || {
                    let missing = |name: &Name| self.require(&Key::Interface(name.clone())).err();
                    let pool = stored.spec.nat_pool.clone().map(Key::NatPool);
                    let pool = pool.and_then(|key| self.require(&key).err());
                    let interfaces = stored
                        .spec
                        .all_interfaces()
                        .chain(stored.spec.engine_interfaces())
                        .filter_map(missing);
                    let waits: Vec<Waiting> = interfaces.chain(pool).collect();
                    if waits.is_empty() { Standing::Ready } else { Standing::Partial(waits) }
                },
                Standing::Failed,
            );
            self.tenants.insert(name.clone(), standing);
        }
    }

    fn stand_paths(&mut self, model: &Model) {
        let mut all = BTreeMap::new();
        for (vrf, table) in &model.routes {
            let standings = table
                .paths
                .keys()
                .map(|paths| (Arc::clone(paths), PathStanding::resolve(paths, self)))
                .collect::<HashMap<_, _, RandomState>>();
            all.insert(vrf.clone(), standings);
        }
        self.paths = all;
    }
}
