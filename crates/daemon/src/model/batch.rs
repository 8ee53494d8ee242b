//! What one request wants.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::names::Named;
use api::v1::{Config, ObjectRef, ObjectResult};
use foldhash::fast::RandomState;
use hashbrown::HashSet;

use super::spec::{
    AclSpec, AddressSetDelta, BridgeSpec, EndpointSpec, InterfaceSpec, NatPoolSpec, NeighborSpec, Paths,
    PolicerSpec, RouteSpec, TenantSpec, VipSpec, VrfSpec,
};
use super::{Flaw, Key, Name, RouteKey};

/// Objects to put in and to take out, each checked by itself. No object appears twice.
#[derive(Debug, Default)]
pub struct Batch {
    /// VRFs to put in.
    pub vrfs: Vec<Arc<VrfSpec>>,
    /// Bridges to put in.
    pub bridges: Vec<Arc<BridgeSpec>>,
    /// Interfaces to put in.
    pub interfaces: Vec<Arc<InterfaceSpec>>,
    /// Routes to put in.
    pub routes: Vec<RouteSpec>,
    /// Static neighbours to put in.
    pub neighbors: Vec<Arc<NeighborSpec>>,
    /// Tenants to put in.
    pub tenants: Vec<Arc<TenantSpec>>,
    /// NAT pools to put in.
    pub nat_pools: Vec<Arc<NatPoolSpec>>,
    /// Policers to put in.
    pub policers: Vec<Arc<PolicerSpec>>,
    /// VIPs to put in.
    pub vips: Vec<Arc<VipSpec>>,
    /// Lists of rules to put in.
    pub acls: Vec<Arc<AclSpec>>,
    /// Sets of addresses to put in.
    pub address_sets: Vec<AddressSetDelta>,
    /// Endpoints to put in.
    pub endpoints: Vec<Arc<EndpointSpec>>,
    /// Objects to take out.
    pub deletes: Vec<Key>,
    /// Whether everything not put in is taken out.
    pub replace_all: bool,
    /// All but routes, for [`Self::contains`].
    named: BTreeSet<Key>,
    routes_named: HashSet<RouteKey, RandomState>,
}

impl Batch {
    /// Reads what a client sent.
    ///
    /// # Errors
    /// One result per object that is wrong, in the order of the request.
    pub fn parse(
        upserts: &Config,
        deletes: &[ObjectRef],
        replace_all: bool,
    ) -> Result<Self, Vec<ObjectResult>> {
        let mut reader = Reader::default();
        reader.batch.replace_all = replace_all;
        for object in &upserts.vrfs {
            if let Some(spec) = reader.read(object, VrfSpec::parse, |spec| Key::Vrf(spec.name.clone())) {
                reader.batch.vrfs.push(Arc::new(spec));
            }
        }
        for object in &upserts.bridges {
            if let Some(spec) = reader.read(object, BridgeSpec::parse, |spec| Key::Bridge(spec.name.clone()))
            {
                reader.batch.bridges.push(Arc::new(spec));
            }
        }
        for object in &upserts.interfaces {
            let key = |spec: &InterfaceSpec| Key::Interface(spec.name.clone());
            if let Some(spec) = reader.read(object, InterfaceSpec::parse, key) {
                reader.batch.interfaces.push(Arc::new(spec));
            }
        }
        reader.batch.routes.reserve(upserts.routes.len());
        reader.batch.routes_named.reserve(upserts.routes.len());
        for object in &upserts.routes {
            match RouteSpec::parse(object) {
                Ok(mut spec) => {
                    reader.share(&mut spec);
                    if reader.batch.routes_named.insert(spec.key.clone()) {
                        reader.batch.routes.push(spec);
                    } else {
                        reader.refused.push(twice().refuse(object.object_ref()));
                    }
                }
                Err(flaw) => reader.refused.push(flaw.refuse(object.object_ref())),
            }
        }
        for object in &upserts.neighbors {
            let key = |spec: &NeighborSpec| Key::Neighbor(spec.key.clone());
            if let Some(spec) = reader.read(object, NeighborSpec::parse, key) {
                reader.batch.neighbors.push(Arc::new(spec));
            }
        }
        for object in &upserts.tenants {
            let key = |spec: &TenantSpec| Key::Tenant(spec.name.clone());
            if let Some(spec) = reader.read(object, TenantSpec::parse, key) {
                reader.batch.tenants.push(Arc::new(spec));
            }
        }
        for object in &upserts.nat_pools {
            let key = |spec: &NatPoolSpec| Key::NatPool(spec.name.clone());
            if let Some(spec) = reader.read(object, NatPoolSpec::parse, key) {
                reader.batch.nat_pools.push(Arc::new(spec));
            }
        }
        for object in &upserts.policers {
            let key = |spec: &PolicerSpec| Key::Policer(spec.name.clone());
            if let Some(spec) = reader.read(object, PolicerSpec::parse, key) {
                reader.batch.policers.push(Arc::new(spec));
            }
        }
        for object in &upserts.vips {
            if let Some(spec) = reader.read(object, VipSpec::parse, |spec| Key::Vip(spec.name.clone())) {
                reader.batch.vips.push(Arc::new(spec));
            }
        }
        for object in &upserts.acls {
            if let Some(spec) = reader.read(object, AclSpec::parse, |spec| Key::Acl(spec.name.clone())) {
                reader.batch.acls.push(Arc::new(spec));
            }
        }
        for object in &upserts.address_sets {
            let key = |delta: &AddressSetDelta| Key::AddressSet(delta.spec.name.clone());
            if let Some(delta) = reader.read(object, AddressSetDelta::parse, key) {
                reader.batch.address_sets.push(delta);
            }
        }
        for object in &upserts.endpoints {
            let key = |spec: &EndpointSpec| Key::Endpoint(spec.name.clone());
            if let Some(spec) = reader.read(object, EndpointSpec::parse, key) {
                reader.batch.endpoints.push(Arc::new(spec));
            }
        }
        for object in deletes {
            match Key::parse(object) {
                Ok(key) if reader.name(&key) => reader.batch.deletes.push(key),
                Ok(_) => reader.refused.push(twice().refuse(object.clone())),
                Err(flaw) => reader.refused.push(flaw.refuse(object.clone())),
            }
        }
        if reader.refused.is_empty() { Ok(reader.batch) } else { Err(reader.refused) }
    }

    /// Whether it puts this object in or takes it out by name.
    pub fn contains(&self, key: &Key) -> bool {
        match key {
            Key::Route(route) => self.contains_route(route),
            _ => self.named.contains(key),
        }
    }

    /// The same of a route.
    pub fn contains_route(&self, route: &RouteKey) -> bool {
        self.routes_named.contains(route)
    }

    /// Whether it contains any of these.
    pub fn contains_any<'a>(&self, mut keys: impl Iterator<Item = &'a Key>) -> bool {
        keys.any(|key| self.contains(key))
    }

    /// The objects to put in: VRFs, bridges, interfaces, routes, neighbours, tenants, NAT pools, policers, VIPs, lists of rules, sets, endpoints, each in the order of the request.
    pub fn upserts(&self) -> impl Iterator<Item = Key> + '_ {
        (self.vrfs.iter().map(|spec| Key::Vrf(spec.name.clone())))
            .chain(self.bridges.iter().map(|spec| Key::Bridge(spec.name.clone())))
            .chain(self.interfaces.iter().map(|spec| Key::Interface(spec.name.clone())))
            .chain(self.routes.iter().map(|spec| Key::Route(spec.key.clone())))
            .chain(self.neighbors.iter().map(|spec| Key::Neighbor(spec.key.clone())))
            .chain(self.tenants.iter().map(|spec| Key::Tenant(spec.name.clone())))
            .chain(self.nat_pools.iter().map(|spec| Key::NatPool(spec.name.clone())))
            .chain(self.policers.iter().map(|spec| Key::Policer(spec.name.clone())))
            .chain(self.vips.iter().map(|spec| Key::Vip(spec.name.clone())))
            .chain(self.acls.iter().map(|spec| Key::Acl(spec.name.clone())))
            .chain(self.address_sets.iter().map(|delta| Key::AddressSet(delta.spec.name.clone())))
            .chain(self.endpoints.iter().map(|spec| Key::Endpoint(spec.name.clone())))
    }

    /// Objects to put in and to take out by name.
    pub fn len(&self) -> usize {
        self.vrfs.len()
            + self.bridges.len()
            + self.interfaces.len()
            + self.routes.len()
            + self.neighbors.len()
            + self.tenants.len()
            + self.nat_pools.len()
            + self.policers.len()
            + self.vips.len()
            + self.acls.len()
            + self.address_sets.len()
            + self.endpoints.len()
            + self.deletes.len()
    }

    /// Whether it names no object.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A batch being read.
#[derive(Default)]
struct Reader {
    batch: Batch,
    refused: Vec<ObjectResult>,
    /// A million routes share a few names and a few sets of next hops.
    names: HashSet<Name, RandomState>,
    paths: HashSet<Arc<Paths>, RandomState>,
}

impl Reader {
    fn read<T: Named, S>(
        &mut self,
        object: &T,
        parse: impl Fn(&T) -> Result<S, Flaw>,
        key: impl Fn(&S) -> Key,
    ) -> Option<S> {
        let flaw = match parse(object) {
            Ok(spec) if self.name(&key(&spec)) => return Some(spec),
            Ok(_) => twice(),
            Err(flaw) => flaw,
        };
        self.refused.push(flaw.refuse(object.object_ref()));
        None
    }

    /// Notes that the object is in the batch; false if it already was.
    fn name(&mut self, key: &Key) -> bool {
        match key {
            Key::Route(route) => self.batch.routes_named.insert(route.clone()),
            _ => self.batch.named.insert(key.clone()),
        }
    }

    /// Makes equal parts of routes one.
    fn share(&mut self, spec: &mut RouteSpec) {
        spec.key.vrf = self.names.get_or_insert_with(&spec.key.vrf, Name::clone).clone();
        spec.paths = self.paths.get_or_insert_with(&spec.paths, Arc::clone).clone();
    }
}

fn twice() -> Flaw {
    Flaw::new("name", "appears twice in the batch")
        .remedy("order has no meaning in a batch; keep one of the two")
}
