//! What the dataplane has.

use std::collections::BTreeMap;
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use ipnet::IpNet;

use crate::dataplane::{Change, Operation, RouteChange};
use crate::model::spec::{
    AclSpec, AddressSetSpec, BridgeSpec, EndpointSpec, InterfaceSpec, NatPoolSpec, NeighborSpec, PolicerSpec,
    TenantSpec, VipSpec, VrfSpec,
};
use crate::model::{Name, NeighborKey, ResolvedPaths, RouteKey};

/// What the dataplane has, kept true by telling it of every operation that was executed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Realised {
    /// VRFs.
    pub vrfs: BTreeMap<Name, Arc<VrfSpec>>,
    /// Bridges.
    pub bridges: BTreeMap<Name, Arc<BridgeSpec>>,
    /// Interfaces.
    pub interfaces: BTreeMap<Name, Running>,
    /// Static neighbours.
    pub neighbors: BTreeMap<NeighborKey, Arc<NeighborSpec>>,
    /// Tenants.
    pub tenants: BTreeMap<Name, Arc<TenantSpec>>,
    /// NAT pools.
    pub nat_pools: BTreeMap<Name, Arc<NatPoolSpec>>,
    /// Policers.
    pub policers: BTreeMap<Name, Arc<PolicerSpec>>,
    /// VIPs.
    pub vips: BTreeMap<Name, Arc<VipSpec>>,
    /// Lists of rules.
    pub acls: BTreeMap<Name, Arc<AclSpec>>,
    /// Sets of addresses.
    pub address_sets: BTreeMap<Name, Arc<AddressSetSpec>>,
    /// Endpoints.
    pub endpoints: BTreeMap<Name, Arc<EndpointSpec>>,
    routes: BTreeMap<Name, HashMap<IpNet, Arc<ResolvedPaths>, RandomState>>,
}

/// An interface the dataplane has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Running {
    /// What it is.
    pub spec: Arc<InterfaceSpec>,
    /// Whether its port is open.
    pub open: bool,
}

impl Default for Realised {
    /// What a dataplane has from the start: the default VRF.
    fn default() -> Self {
        let default = Name::default_vrf();
        Self {
            vrfs: BTreeMap::from([(default.clone(), Arc::new(VrfSpec::new(default)))]),
            bridges: BTreeMap::new(),
            interfaces: BTreeMap::new(),
            neighbors: BTreeMap::new(),
            tenants: BTreeMap::new(),
            nat_pools: BTreeMap::new(),
            policers: BTreeMap::new(),
            vips: BTreeMap::new(),
            acls: BTreeMap::new(),
            address_sets: BTreeMap::new(),
            endpoints: BTreeMap::new(),
            routes: BTreeMap::new(),
        }
    }
}

impl Realised {
    /// Takes note of an operation that was executed.
    pub fn record(&mut self, operation: &Operation) {
        match operation {
            Operation::Vrf(change) => put(&mut self.vrfs, change, |spec| spec.name.clone()),
            Operation::Bridge(change) => put(&mut self.bridges, change, |spec| spec.name.clone()),
            Operation::Neighbor(change) => put(&mut self.neighbors, change, |spec| spec.key.clone()),
            Operation::Tenant(change) => put(&mut self.tenants, change, |spec| spec.name.clone()),
            Operation::NatPool(change) => put(&mut self.nat_pools, change, |spec| spec.name.clone()),
            Operation::Policer(change) => put(&mut self.policers, change, |spec| spec.name.clone()),
            Operation::Vip(change) => put(&mut self.vips, change, |spec| spec.name.clone()),
            Operation::Acl(change) => put(&mut self.acls, change, |spec| spec.name.clone()),
            Operation::AddressSet(change) => put(&mut self.address_sets, change, |spec| spec.name.clone()),
            Operation::Endpoint(change) => put(&mut self.endpoints, change, |spec| spec.name.clone()),
            Operation::CreateInterface(spec) => {
                let running = Running { spec: Arc::new(spec.bare()), open: true };
                self.interfaces.insert(spec.name.clone(), running);
            }
            Operation::DestroyInterface(spec) => {
                self.interfaces.remove(&spec.name);
            }
            Operation::ClosePort(spec) => {
                if let Some(running) = self.interfaces.get_mut(&spec.name) {
                    running.open = false;
                }
            }
            Operation::OpenPort(spec) => {
                if let Some(running) = self.interfaces.get_mut(&spec.name) {
                    running.open = true;
                    running.spec =
                        Arc::new(InterfaceSpec { port: spec.port.clone(), ..(*running.spec).clone() });
                }
            }
            Operation::Configure { after, .. } => {
                if let Some(running) = self.interfaces.get_mut(&after.name) {
                    running.spec = Arc::clone(after);
                }
            }
            Operation::Routes(changes) => changes.iter().for_each(|change| self.record_route(change)),
        }
    }

    /// Where packets to a destination go.
    pub fn route(&self, key: &RouteKey) -> Option<&Arc<ResolvedPaths>> {
        self.routes.get(&key.vrf)?.get(&key.prefix)
    }

    /// All but the routes.
    pub(super) fn without_routes(&self) -> Self {
        Self {
            vrfs: self.vrfs.clone(),
            bridges: self.bridges.clone(),
            interfaces: self.interfaces.clone(),
            neighbors: self.neighbors.clone(),
            tenants: self.tenants.clone(),
            nat_pools: self.nat_pools.clone(),
            policers: self.policers.clone(),
            vips: self.vips.clone(),
            acls: self.acls.clone(),
            address_sets: self.address_sets.clone(),
            endpoints: self.endpoints.clone(),
            routes: BTreeMap::new(),
        }
    }

    /// Number of routes.
    pub fn routes(&self) -> usize {
        self.routes.values().map(HashMap::len).sum()
    }

    fn record_route(&mut self, RouteChange { key, after, .. }: &RouteChange) {
        match after {
            Some(paths) => {
                // Not `entry`: it would need a clone of the name for each of a million routes.
                if let Some(table) = self.routes.get_mut(&key.vrf) {
                    table.insert(key.prefix, Arc::clone(paths));
                } else {
                    self.routes.entry(key.vrf.clone()).or_default().insert(key.prefix, Arc::clone(paths));
                }
            }
            None => {
                if let Some(table) = self.routes.get_mut(&key.vrf) {
                    table.remove(&key.prefix);
                    if table.is_empty() {
                        self.routes.remove(&key.vrf);
                    }
                }
            }
        }
    }
}

fn put<K: Ord, S>(map: &mut BTreeMap<K, Arc<S>>, change: &Change<S>, key: impl Fn(&S) -> K) {
    match (&change.before, &change.after) {
        (_, Some(after)) => {
            map.insert(key(after), Arc::clone(after));
        }
        (Some(before), None) => {
            map.remove(&key(before));
        }
        (None, None) => {}
    }
}
