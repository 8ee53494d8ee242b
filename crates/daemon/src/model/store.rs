//! The desired state.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::v1::Config;
use api::v1::object::Object;
use foldhash::fast::RandomState;
use hashbrown::{HashMap, HashSet};
use ipnet::IpNet;

use super::spec::{
    AclSpec, AddressSetSpec, BridgeSpec, EndpointSpec, InterfaceSpec, NatPoolSpec, NeighborSpec, Paths,
    PolicerSpec, RouteSpec, TenantSpec, VipSpec, VrfSpec,
};
use super::undo::{Replaced, Undo};
use super::{Batch, Key, Name, NeighborKey, RouteKey};

/// An object and the generation in which it last changed.
#[derive(Debug, Clone)]
pub struct Stored<S> {
    /// The object.
    pub spec: Arc<S>,
    /// Generation in which it last changed.
    pub generation: u64,
}

/// A route of a table; its key is where it is kept.
#[derive(Debug, Clone)]
pub struct StoredRoute {
    /// What is done with packets.
    pub paths: Arc<Paths>,
    /// Generation in which it last changed.
    pub generation: u64,
}

/// The routes of one VRF.
#[derive(Debug, Default, Clone)]
pub struct RouteTable {
    /// Routes by destination.
    pub routes: HashMap<IpNet, StoredRoute, RandomState>,
    /// The different sets of paths and how many routes have each.
    pub paths: HashMap<Arc<Paths>, usize, RandomState>,
}

/// Everything that shall exist.
#[derive(Debug, Default, Clone)]
pub struct Model {
    /// Counts changes.
    pub generation: u64,
    /// VRFs; "default" is here only if it was asked for.
    pub vrfs: BTreeMap<Name, Stored<VrfSpec>>,
    /// Bridges.
    pub bridges: BTreeMap<Name, Stored<BridgeSpec>>,
    /// Interfaces.
    pub interfaces: BTreeMap<Name, Stored<InterfaceSpec>>,
    /// Static neighbours.
    pub neighbors: BTreeMap<NeighborKey, Stored<NeighborSpec>>,
    /// Tenants.
    pub tenants: BTreeMap<Name, Stored<TenantSpec>>,
    /// NAT pools.
    pub nat_pools: BTreeMap<Name, Stored<NatPoolSpec>>,
    /// Policers.
    pub policers: BTreeMap<Name, Stored<PolicerSpec>>,
    /// VIPs.
    pub vips: BTreeMap<Name, Stored<VipSpec>>,
    /// Lists of rules.
    pub acls: BTreeMap<Name, Stored<AclSpec>>,
    /// Sets of addresses.
    pub address_sets: BTreeMap<Name, Stored<AddressSetSpec>>,
    /// Endpoints.
    pub endpoints: BTreeMap<Name, Stored<EndpointSpec>>,
    /// Routes by VRF; shared, so that a clone of the model is cheap and copies a table only when it is changed later.
    pub routes: BTreeMap<Name, Arc<RouteTable>>,
}

impl Model {
    /// Puts a batch in. The generation grows by one if anything changed.
    pub fn merge(&mut self, batch: &Batch) -> Undo {
        let mut undo = Undo::nothing(self.generation);
        let generation = self.generation + 1;
        for key in self.removals(batch) {
            self.remove(&key, &mut undo);
        }
        for spec in &batch.vrfs {
            let old = put(&mut self.vrfs, spec.name.clone(), spec, generation);
            undo.note(old.map(|old| Replaced::Vrf(spec.name.clone(), old)));
        }
        for spec in &batch.bridges {
            let old = put(&mut self.bridges, spec.name.clone(), spec, generation);
            undo.note(old.map(|old| Replaced::Bridge(spec.name.clone(), old)));
        }
        for spec in &batch.interfaces {
            let old = put(&mut self.interfaces, spec.name.clone(), spec, generation);
            undo.note(old.map(|old| Replaced::Interface(spec.name.clone(), old)));
        }
        for spec in &batch.neighbors {
            let old = put(&mut self.neighbors, spec.key.clone(), spec, generation);
            undo.note(old.map(|old| Replaced::Neighbor(spec.key.clone(), old)));
        }
        for spec in &batch.tenants {
            let old = put(&mut self.tenants, spec.name.clone(), spec, generation);
            undo.note(old.map(|old| Replaced::Tenant(spec.name.clone(), old)));
        }
        for spec in &batch.nat_pools {
            let old = put(&mut self.nat_pools, spec.name.clone(), spec, generation);
            undo.note(old.map(|old| Replaced::NatPool(spec.name.clone(), old)));
        }
        for spec in &batch.policers {
            let old = put(&mut self.policers, spec.name.clone(), spec, generation);
            undo.note(old.map(|old| Replaced::Policer(spec.name.clone(), old)));
        }
        for spec in &batch.vips {
            let old = put(&mut self.vips, spec.name.clone(), spec, generation);
            undo.note(old.map(|old| Replaced::Vip(spec.name.clone(), old)));
        }
        for spec in &batch.acls {
            let old = put(&mut self.acls, spec.name.clone(), spec, generation);
            undo.note(old.map(|old| Replaced::Acl(spec.name.clone(), old)));
        }
        for delta in &batch.address_sets {
            let name = delta.spec.name.clone();
            let spec = delta.after(self.address_sets.get(&name).map(|stored| &stored.spec));
            let old = put(&mut self.address_sets, name.clone(), &spec, generation);
            undo.note(old.map(|old| Replaced::AddressSet(name, old)));
        }
        for spec in &batch.endpoints {
            let old = put(&mut self.endpoints, spec.name.clone(), spec, generation);
            undo.note(old.map(|old| Replaced::Endpoint(spec.name.clone(), old)));
        }
        for spec in &batch.routes {
            let table = match self.routes.get_mut(&spec.key.vrf) {
                Some(table) => table,
                None => self.routes.entry(spec.key.vrf.clone()).or_default(),
            };
            if table.routes.get(&spec.key.prefix).is_some_and(|stored| stored.paths == spec.paths) {
                undo.unchanged += 1;
                continue;
            }
            let route = StoredRoute { paths: Arc::clone(&spec.paths), generation };
            let old = Arc::make_mut(table).put(spec.key.prefix, Some(route));
            undo.note(Some(Replaced::Route(spec.key.clone(), old)));
        }
        if !undo.is_empty() {
            self.generation = generation;
        }
        undo
    }

    /// Takes out again what [`Self::merge`] put in.
    pub fn undo(&mut self, undo: Undo) {
        self.generation = undo.generation;
        for replaced in undo.replaced.into_iter().rev() {
            match replaced {
                Replaced::Vrf(name, old) => restore(&mut self.vrfs, name, old),
                Replaced::Bridge(name, old) => restore(&mut self.bridges, name, old),
                Replaced::Interface(name, old) => restore(&mut self.interfaces, name, old),
                Replaced::Neighbor(key, old) => restore(&mut self.neighbors, key, old),
                Replaced::Route(key, old) => self.put_route(key, old),
                Replaced::Tenant(name, old) => restore(&mut self.tenants, name, old),
                Replaced::NatPool(name, old) => restore(&mut self.nat_pools, name, old),
                Replaced::Policer(name, old) => restore(&mut self.policers, name, old),
                Replaced::Vip(name, old) => restore(&mut self.vips, name, old),
                Replaced::Acl(name, old) => restore(&mut self.acls, name, old),
                Replaced::AddressSet(name, old) => restore(&mut self.address_sets, name, old),
                Replaced::Endpoint(name, old) => restore(&mut self.endpoints, name, old),
            }
        }
    }

    /// The set of paths of a route.
    pub fn route(&self, key: &RouteKey) -> Option<&StoredRoute> {
        self.routes.get(&key.vrf)?.routes.get(&key.prefix)
    }

    /// Whether an object exists; the default VRF always does.
    pub fn contains(&self, key: &Key) -> bool {
        match key {
            Key::Vrf(name) => *name == Name::default_vrf() || self.vrfs.contains_key(name),
            Key::Bridge(name) => self.bridges.contains_key(name),
            Key::Interface(name) => self.interfaces.contains_key(name),
            Key::Neighbor(key) => self.neighbors.contains_key(key),
            Key::Route(key) => self.route(key).is_some(),
            Key::Tenant(name) => self.tenants.contains_key(name),
            Key::NatPool(name) => self.nat_pools.contains_key(name),
            Key::Policer(name) => self.policers.contains_key(name),
            Key::Vip(name) => self.vips.contains_key(name),
            Key::Acl(name) => self.acls.contains_key(name),
            Key::AddressSet(name) => self.address_sets.contains_key(name),
            Key::Endpoint(name) => self.endpoints.contains_key(name),
        }
    }

    /// An object in canonical form; `None` if there is no such object.
    pub fn object(&self, key: &Key) -> Option<Object> {
        Some(match key {
            Key::Vrf(name) => Object::Vrf(self.vrfs.get(name)?.spec.to_api()),
            Key::Bridge(name) => Object::Bridge(self.bridges.get(name)?.spec.to_api()),
            Key::Interface(name) => Object::Interface(self.interfaces.get(name)?.spec.to_api()),
            Key::Neighbor(key) => Object::Neighbor(self.neighbors.get(key)?.spec.to_api()),
            Key::Route(key) => Object::Route(RouteSpec::api_of(key, &self.route(key)?.paths)),
            Key::Tenant(name) => Object::Tenant(self.tenants.get(name)?.spec.to_api()),
            Key::NatPool(name) => Object::NatPool(self.nat_pools.get(name)?.spec.to_api()),
            Key::Policer(name) => Object::Policer(self.policers.get(name)?.spec.to_api()),
            Key::Vip(name) => Object::Vip(self.vips.get(name)?.spec.to_api()),
            Key::Acl(name) => Object::Acl(self.acls.get(name)?.spec.to_api()),
            Key::AddressSet(name) => Object::AddressSet(self.address_sets.get(name)?.spec.to_api()),
            Key::Endpoint(name) => Object::Endpoint(self.endpoints.get(name)?.spec.to_api()),
        })
    }

    /// Generation in which an object last changed; `None` if there is no such object.
    pub fn changed_in(&self, key: &Key) -> Option<u64> {
        Some(match key {
            Key::Vrf(name) => self.vrfs.get(name)?.generation,
            Key::Bridge(name) => self.bridges.get(name)?.generation,
            Key::Interface(name) => self.interfaces.get(name)?.generation,
            Key::Neighbor(key) => self.neighbors.get(key)?.generation,
            Key::Route(key) => self.route(key)?.generation,
            Key::Tenant(name) => self.tenants.get(name)?.generation,
            Key::NatPool(name) => self.nat_pools.get(name)?.generation,
            Key::Policer(name) => self.policers.get(name)?.generation,
            Key::Vip(name) => self.vips.get(name)?.generation,
            Key::Acl(name) => self.acls.get(name)?.generation,
            Key::AddressSet(name) => self.address_sets.get(name)?.generation,
            Key::Endpoint(name) => self.endpoints.get(name)?.generation,
        })
    }

    /// Number of objects.
    pub fn len(&self) -> usize {
        let routes = self.routes.values().map(|table| table.routes.len()).sum::<usize>();
        let others = self.bridges.len() + self.interfaces.len() + self.neighbors.len() + self.tenants.len();
        self.vrfs.len()
            + others
            + self.nat_pools.len()
            + self.policers.len()
            + self.vips.len()
            + self.acls.len()
            + self.address_sets.len()
            + self.endpoints.len()
            + routes
    }

    /// Number of objects, of rules in lists and of members of sets: how much it is to write down.
    pub fn weight(&self) -> usize {
        let rules: usize = self.acls.values().map(|stored| stored.spec.config.rules.len()).sum();
        let members: usize = self.address_sets.values().map(|stored| stored.spec.members.len()).sum();
        self.len() + rules + members
    }

    /// Whether nothing shall exist.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All of it in canonical form, ordered by kind and name.
    pub fn to_api(&self) -> Config {
        Config {
            vrfs: self.vrfs.values().map(|stored| stored.spec.to_api()).collect(),
            bridges: self.bridges.values().map(|stored| stored.spec.to_api()).collect(),
            interfaces: self.interfaces.values().map(|stored| stored.spec.to_api()).collect(),
            routes: self
                .routes
                .iter()
                .flat_map(|(vrf, table)| {
                    table.sorted().into_iter().map(|(prefix, stored)| {
                        RouteSpec::api_of(&RouteKey { vrf: vrf.clone(), prefix }, &stored.paths)
                    })
                })
                .collect(),
            neighbors: self.neighbors.values().map(|stored| stored.spec.to_api()).collect(),
            tenants: self.tenants.values().map(|stored| stored.spec.to_api()).collect(),
            nat_pools: self.nat_pools.values().map(|stored| stored.spec.to_api()).collect(),
            policers: self.policers.values().map(|stored| stored.spec.to_api()).collect(),
            vips: self.vips.values().map(|stored| stored.spec.to_api()).collect(),
            acls: self.acls.values().map(|stored| stored.spec.to_api()).collect(),
            address_sets: self.address_sets.values().map(|stored| stored.spec.to_api()).collect(),
            endpoints: self.endpoints.values().map(|stored| stored.spec.to_api()).collect(),
        }
    }

    /// What a batch takes out: what it names, and with `replace_all` what it doesn't put in.
    fn removals(&self, batch: &Batch) -> Vec<Key> {
        if !batch.replace_all {
            return batch.deletes.clone();
        }
        let routes = self.routes.iter().flat_map(|(vrf, table)| {
            table.routes.keys().map(|prefix| Key::Route(RouteKey { vrf: vrf.clone(), prefix: *prefix }))
        });
        let kept = batch.deletes.iter().collect::<HashSet<_, RandomState>>();
        (self.vrfs.keys().cloned().map(Key::Vrf))
            .chain(self.bridges.keys().cloned().map(Key::Bridge))
            .chain(self.interfaces.keys().cloned().map(Key::Interface))
            .chain(self.neighbors.keys().cloned().map(Key::Neighbor))
            .chain(self.tenants.keys().cloned().map(Key::Tenant))
            .chain(self.nat_pools.keys().cloned().map(Key::NatPool))
            .chain(self.policers.keys().cloned().map(Key::Policer))
            .chain(self.vips.keys().cloned().map(Key::Vip))
            .chain(self.acls.keys().cloned().map(Key::Acl))
            .chain(self.address_sets.keys().cloned().map(Key::AddressSet))
            .chain(self.endpoints.keys().cloned().map(Key::Endpoint))
            .chain(routes)
            .filter(|key| !batch.contains(key) || kept.contains(key))
            .collect()
    }

    fn remove(&mut self, key: &Key, undo: &mut Undo) {
        let replaced = match key {
            Key::Vrf(name) => self.vrfs.remove(name).map(|old| Replaced::Vrf(name.clone(), Some(old))),
            Key::Bridge(name) => {
                self.bridges.remove(name).map(|old| Replaced::Bridge(name.clone(), Some(old)))
            }
            Key::Interface(name) => {
                self.interfaces.remove(name).map(|old| Replaced::Interface(name.clone(), Some(old)))
            }
            Key::Neighbor(key) => {
                self.neighbors.remove(key).map(|old| Replaced::Neighbor(key.clone(), Some(old)))
            }
            Key::Tenant(name) => {
                self.tenants.remove(name).map(|old| Replaced::Tenant(name.clone(), Some(old)))
            }
            Key::NatPool(name) => {
                self.nat_pools.remove(name).map(|old| Replaced::NatPool(name.clone(), Some(old)))
            }
            Key::Policer(name) => {
                self.policers.remove(name).map(|old| Replaced::Policer(name.clone(), Some(old)))
            }
            Key::Vip(name) => self.vips.remove(name).map(|old| Replaced::Vip(name.clone(), Some(old))),
            Key::Acl(name) => self.acls.remove(name).map(|old| Replaced::Acl(name.clone(), Some(old))),
            Key::AddressSet(name) => {
                self.address_sets.remove(name).map(|old| Replaced::AddressSet(name.clone(), Some(old)))
            }
            Key::Endpoint(name) => {
                self.endpoints.remove(name).map(|old| Replaced::Endpoint(name.clone(), Some(old)))
            }
            Key::Route(key) => {
                let old = self.routes.get_mut(&key.vrf).and_then(|table| {
                    // Without this look a delete of nothing would copy a shared table.
                    table
                        .routes
                        .contains_key(&key.prefix)
                        .then(|| Arc::make_mut(table).put(key.prefix, None))?
                });
                self.drop_empty_table(&key.vrf);
                old.map(|old| Replaced::Route(key.clone(), Some(old)))
            }
        };
        if let Some(replaced) = replaced {
            undo.deleted += 1;
            undo.note(Some(replaced));
        }
    }

    fn put_route(&mut self, key: RouteKey, route: Option<StoredRoute>) {
        Arc::make_mut(self.routes.entry(key.vrf.clone()).or_default()).put(key.prefix, route);
        self.drop_empty_table(&key.vrf);
    }

    fn drop_empty_table(&mut self, vrf: &Name) {
        if self.routes.get(vrf).is_some_and(|table| table.routes.is_empty()) {
            self.routes.remove(vrf);
        }
    }
}

impl RouteTable {
    /// Its routes, ordered by destination.
    pub fn sorted(&self) -> Vec<(IpNet, &StoredRoute)> {
        let mut routes = self.routes.iter().map(|(prefix, route)| (*prefix, route)).collect::<Vec<_>>();
        routes.sort_unstable_by_key(|(prefix, _)| *prefix);
        routes
    }

    /// Puts a route in, or takes it out with `None`; returns what was there.
    fn put(&mut self, prefix: IpNet, route: Option<StoredRoute>) -> Option<StoredRoute> {
        let old = match route {
            Some(StoredRoute { paths, generation }) => {
                // One set of paths is kept once, however many batches brought it.
                let paths = match self.paths.get_key_value(&paths) {
                    Some((known, _)) => Arc::clone(known),
                    None => paths,
                };
                *self.paths.entry(Arc::clone(&paths)).or_default() += 1;
                self.routes.insert(prefix, StoredRoute { paths, generation })
            }
            None => self.routes.remove(&prefix),
        };
        if let Some(old) = &old
            && let Some(users) = self.paths.get_mut(&old.paths)
        {
            *users -= 1;
            if *users == 0 {
                self.paths.remove(&old.paths);
            }
        }
        old
    }
}

/// Puts an object in. `None`: an equal one is there; `Some(old)`: done, and what was there.
#[allow(clippy::option_option)] // outside: whether anything changed; inside: whether something was there
fn put<K: Ord, S: PartialEq>(
    map: &mut BTreeMap<K, Stored<S>>,
    key: K,
    spec: &Arc<S>,
    generation: u64,
) -> Option<Option<Stored<S>>> {
    if map.get(&key).is_some_and(|stored| stored.spec == *spec) {
        return None;
    }
    Some(map.insert(key, Stored { spec: Arc::clone(spec), generation }))
}

fn restore<K: Ord, S>(map: &mut BTreeMap<K, Stored<S>>, key: K, old: Option<Stored<S>>) {
    match old {
        Some(old) => map.insert(key, old),
        None => map.remove(&key),
    };
}
