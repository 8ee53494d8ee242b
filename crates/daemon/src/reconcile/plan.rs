//! The steps from what is to what shall be.
//!
//! Their order: first everything gives away what others may take (neighbours, addresses, bridges, and the ports whose
//! socket, device or tags are wanted by another); then what is new is created, parents first, and configured; then
//! routes move over; and only then goes what nobody uses any more. So traffic that can move to a new way never finds
//! the old one gone before, and nothing ever refers to what doesn't exist.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Realised;
use crate::dataplane::{Change, Operation, RouteChange};
use crate::model::spec::{
    AclSpec, AddressSetSpec, BridgeSpec, Claim, EndpointSpec, InterfaceSpec, NatPoolSpec, NeighborSpec,
    PolicerSpec, PortSpec, TenantSpec, VipSpec, VrfSpec,
};
use crate::model::{Key, Model, Name, NeighborKey, Readiness, ResolvedPaths, RouteKey, Stored};

/// The steps that bring `realised` to what is ready of `model`. Of the routes only `moved` are looked at: those that
/// were changed and those whose way changed.
pub fn plan(realised: &Realised, model: &Model, readiness: &Readiness, moved: &[RouteKey]) -> Vec<Operation> {
    let mut planner = Planner::new(realised, model, readiness);
    planner.give_away();
    planner.clear_the_way(moved);
    planner.create();
    planner.configure();
    planner.move_routes(model, readiness, moved);
    planner.put_neighbors();
    planner.put_nat_pools();
    planner.put_policers();
    planner.put_vips();
    planner.put_acls();
    planner.put_address_sets();
    planner.put_endpoints();
    planner.put_tenants();
    planner.remove();
    planner.operations
}

struct Planner<'a> {
    realised: &'a Realised,
    operations: Vec<Operation>,
    /// What there shall be.
    vrfs: BTreeMap<Name, Arc<VrfSpec>>,
    bridges: BTreeMap<Name, Arc<BridgeSpec>>,
    interfaces: BTreeMap<Name, Arc<InterfaceSpec>>,
    neighbors: BTreeMap<NeighborKey, Arc<NeighborSpec>>,
    tenants: BTreeMap<Name, Arc<TenantSpec>>,
    nat_pools: BTreeMap<Name, Arc<NatPoolSpec>>,
    policers: BTreeMap<Name, Arc<PolicerSpec>>,
    vips: BTreeMap<Name, Arc<VipSpec>>,
    acls: BTreeMap<Name, Arc<AclSpec>>,
    address_sets: BTreeMap<Name, Arc<AddressSetSpec>>,
    endpoints: BTreeMap<Name, Arc<EndpointSpec>>,
    /// What there is at this point of the plan.
    now: Realised,
    /// Interfaces that go before others come.
    early: BTreeSet<Name>,
}

impl<'a> Planner<'a> {
    fn new(realised: &'a Realised, model: &Model, readiness: &Readiness) -> Self {
        let up = |key: Key| readiness.standing(model, &key).is_some_and(|standing| standing.is_up());
        let default = Name::default_vrf();
        let mut vrfs = BTreeMap::from([(default.clone(), Arc::new(VrfSpec::new(default)))]);
        let ready_vrfs = model.vrfs.iter().filter(|(name, _)| up(Key::Vrf((*name).clone())));
        vrfs.extend(ready_vrfs.map(|(name, stored)| (name.clone(), Arc::clone(&stored.spec))));
        let bridge = |(name, stored): (&Name, &Stored<BridgeSpec>)| {
            Some((name.clone(), readiness.effective_bridge(model, &stored.spec)?))
        };
        let tenant = |(name, stored): (&Name, &Stored<TenantSpec>)| {
            Some((name.clone(), readiness.effective_tenant(&stored.spec)?))
        };
        let interface = |(name, stored): (&Name, &Stored<InterfaceSpec>)| {
            Some((name.clone(), readiness.effective_interface(&stored.spec)?))
        };
        Self {
            realised,
            operations: Vec::new(),
            vrfs,
            bridges: model.bridges.iter().filter_map(bridge).collect(),
            interfaces: model.interfaces.iter().filter_map(interface).collect(),
            neighbors: (model.neighbors.iter())
                .filter(|(key, _)| up(Key::Neighbor((*key).clone())))
                .map(|(key, stored)| (key.clone(), Arc::clone(&stored.spec)))
                .collect(),
            tenants: model.tenants.iter().filter_map(tenant).collect(),
            nat_pools: (model.nat_pools.iter())
                .filter(|(name, _)| up(Key::NatPool((*name).clone())))
                .map(|(name, stored)| (name.clone(), Arc::clone(&stored.spec)))
                .collect(),
            policers: (model.policers.iter())
                .filter(|(name, _)| up(Key::Policer((*name).clone())))
                .map(|(name, stored)| (name.clone(), Arc::clone(&stored.spec)))
                .collect(),
            vips: (model.vips.iter())
                .filter(|(name, _)| up(Key::Vip((*name).clone())))
                .map(|(name, stored)| (name.clone(), Arc::clone(&stored.spec)))
                .collect(),
            acls: (model.acls.iter())
                .filter(|(name, _)| up(Key::Acl((*name).clone())))
                .map(|(name, stored)| (name.clone(), Arc::clone(&stored.spec)))
                .collect(),
            address_sets: (model.address_sets.iter())
                .filter(|(name, _)| up(Key::AddressSet((*name).clone())))
                .map(|(name, stored)| (name.clone(), Arc::clone(&stored.spec)))
                .collect(),
            endpoints: (model.endpoints.iter())
                .filter(|(name, _)| up(Key::Endpoint((*name).clone())))
                .map(|(name, stored)| (name.clone(), Arc::clone(&stored.spec)))
                .collect(),
            now: realised.without_routes(),
            early: BTreeSet::new(),
        }
    }

    fn push(&mut self, operation: Operation) {
        // Routes are looked up in `realised`; keeping a second table of them would double the memory.
        if !matches!(operation, Operation::Routes(_)) {
            self.now.record(&operation);
        }
        self.operations.push(operation);
    }

    /// Neighbours, entries of bridges, addresses, VRFs, memberships that will be gone, go.
    fn give_away(&mut self) {
        for (key, spec) in &self.realised.neighbors {
            if !self.neighbors.contains_key(key) {
                self.push(Operation::Neighbor(Change::removed(spec)));
            }
        }
        for (name, before) in &self.realised.tenants {
            match self.tenants.get(name) {
                None => self.push(Operation::Tenant(Change::removed(before))),
                Some(after) => {
                    let kept = |interface: &Name| after.all_interfaces().any(|other| other == interface);
                    let after = Arc::new(before.with_interfaces(kept));
                    self.change_tenant(before, &after);
                }
            }
        }
        for (name, before) in &self.realised.bridges {
            let kept = self.bridges.get(name).map_or(&[][..], |after| &after.static_macs);
            let mut after = (**before).clone();
            after.static_macs.retain(|entry| kept.contains(entry));
            self.change_bridge(before, after);
        }
        for (name, running) in &self.realised.interfaces {
            let after = running.spec.stripped(self.interfaces.get(name).map(|after| &**after));
            self.change_interface(&running.spec, after);
        }
    }

    /// Ports whose socket, device, file or tags are wanted by another are closed or go.
    fn clear_the_way(&mut self, moved: &[RouteKey]) {
        let wanted = self
            .interfaces
            .values()
            .filter(|spec| {
                self.realised.interfaces.get(&spec.name).is_none_or(|now| now.spec.port != spec.port)
            })
            .flat_map(|spec| spec.port.claims())
            .collect::<BTreeSet<Claim>>();
        let going = self.going();
        self.early = going
            .iter()
            .filter(|spec| spec.port.claims().iter().any(|claim| wanted.contains(claim)))
            .map(|spec| spec.name.clone())
            .collect();
        // A parent doesn't go before its vlans.
        for spec in &going {
            if matches!(&spec.port, PortSpec::Vlan(vlan) if self.early.contains(&vlan.parent)) {
                self.early.insert(spec.name.clone());
            }
        }
        self.withdraw_from_early(moved);
        // First of all: a vlan that becomes something else may have a parent that goes.
        for (name, running) in &self.realised.interfaces {
            let reopened = self.interfaces.get(name).is_some_and(|after| after.port != running.spec.port);
            if reopened && running.open {
                let spec = self.now.interfaces.get(name).map_or(&running.spec, |now| &now.spec);
                self.push(Operation::ClosePort(Arc::clone(spec)));
            }
        }
        for spec in going.iter().filter(|spec| self.early.contains(&spec.name)).collect::<Vec<_>>() {
            self.destroy(&spec.name);
        }
    }

    /// Routes through interfaces that go early can't move over, for their new way isn't there yet.
    fn withdraw_from_early(&mut self, moved: &[RouteKey]) {
        if self.early.is_empty() {
            return;
        }
        let withdrawn = moved
            .iter()
            .filter_map(|key| Some((key, self.realised.route(key)?)))
            .filter(|(_, paths)| paths.interfaces().any(|interface| self.early.contains(interface)))
            .map(|(key, paths)| RouteChange {
                key: key.clone(),
                before: Some(Arc::clone(paths)),
                after: None,
            })
            .collect::<Vec<_>>();
        if !withdrawn.is_empty() {
            self.push(Operation::Routes(withdrawn));
        }
    }

    /// VRFs, bridges and interfaces that are new, come; closed ports open.
    fn create(&mut self) {
        for (name, after) in self.vrfs.clone() {
            let before = self.realised.vrfs.get(&name).cloned();
            if before.as_ref() != Some(&after) {
                self.push(Operation::Vrf(Change { before, after: Some(after) }));
            }
        }
        for (name, target) in self.bridges.clone() {
            // Its entries come when its members are there.
            let before = self.now.bridges.get(&name).cloned();
            let static_macs = before.as_ref().map(|bridge| bridge.static_macs.clone()).unwrap_or_default();
            let after = Arc::new(BridgeSpec { static_macs, ..(*target).clone() });
            if before.as_ref() != Some(&after) {
                self.push(Operation::Bridge(Change { before, after: Some(after) }));
            }
        }
        let (vlans, others): (Vec<_>, Vec<_>) =
            self.interfaces.values().cloned().partition(|spec| matches!(spec.port, PortSpec::Vlan(_)));
        for spec in others.into_iter().chain(vlans) {
            match self.now.interfaces.get(&spec.name) {
                None => self.push(Operation::CreateInterface(spec)),
                Some(running) if !running.open => self.push(Operation::OpenPort(spec)),
                Some(_) => {}
            }
        }
    }

    /// Interfaces become what they shall be; then bridges get their entries.
    fn configure(&mut self) {
        for after in self.interfaces.clone().into_values() {
            if let Some(running) = self.now.interfaces.get(&after.name) {
                let before = Arc::clone(&running.spec);
                if before != after {
                    self.push(Operation::Configure { before, after });
                }
            }
        }
        for (name, after) in self.bridges.clone() {
            if let Some(before) = self.now.bridges.get(&name).cloned() {
                self.change_bridge(&before, (*after).clone());
            }
        }
    }

    fn move_routes(&mut self, model: &Model, readiness: &Readiness, moved: &[RouteKey]) {
        let withdrawn = |paths: &Arc<ResolvedPaths>| {
            !self.early.is_empty() && paths.interfaces().any(|interface| self.early.contains(interface))
        };
        let changes = moved
            .iter()
            .filter_map(|key| {
                let before = self.realised.route(key).filter(|paths| !withdrawn(paths)).cloned();
                let after = model.route(key).and_then(|route| readiness.route_paths(key, &route.paths));
                (before != after).then(|| RouteChange { key: key.clone(), before, after })
            })
            .collect::<Vec<_>>();
        if !changes.is_empty() {
            self.push(Operation::Routes(changes));
        }
    }

    fn put_neighbors(&mut self) {
        for (key, after) in self.neighbors.clone() {
            let before = self.realised.neighbors.get(&key).cloned();
            if before.as_ref() != Some(&after) {
                self.push(Operation::Neighbor(Change { before, after: Some(after) }));
            }
        }
    }

    /// Workers see pools when all operations are done: what one loses another may take.
    fn put_nat_pools(&mut self) {
        for (name, before) in &self.realised.nat_pools {
            if !self.nat_pools.contains_key(name) {
                self.push(Operation::NatPool(Change::removed(before)));
            }
        }
        for (name, after) in self.nat_pools.clone() {
            let before = self.now.nat_pools.get(&name).cloned();
            if before.as_ref() != Some(&after) {
                self.push(Operation::NatPool(Change { before, after: Some(after) }));
            }
        }
    }

    /// Likewise.
    fn put_policers(&mut self) {
        for (name, before) in &self.realised.policers {
            if !self.policers.contains_key(name) {
                self.push(Operation::Policer(Change::removed(before)));
            }
        }
        for (name, after) in self.policers.clone() {
            let before = self.now.policers.get(&name).cloned();
            if before.as_ref() != Some(&after) {
                self.push(Operation::Policer(Change { before, after: Some(after) }));
            }
        }
    }

    /// Likewise.
    fn put_vips(&mut self) {
        for (name, before) in &self.realised.vips {
            if !self.vips.contains_key(name) {
                self.push(Operation::Vip(Change::removed(before)));
            }
        }
        for (name, after) in self.vips.clone() {
            let before = self.now.vips.get(&name).cloned();
            if before.as_ref() != Some(&after) {
                self.push(Operation::Vip(Change { before, after: Some(after) }));
            }
        }
    }

    /// Likewise.
    fn put_acls(&mut self) {
        for (name, before) in &self.realised.acls {
            if !self.acls.contains_key(name) {
                self.push(Operation::Acl(Change::removed(before)));
            }
        }
        for (name, after) in self.acls.clone() {
            let before = self.now.acls.get(&name).cloned();
            if before.as_ref() != Some(&after) {
                self.push(Operation::Acl(Change { before, after: Some(after) }));
            }
        }
    }

    /// Likewise.
    fn put_address_sets(&mut self) {
        for (name, before) in &self.realised.address_sets {
            if !self.address_sets.contains_key(name) {
                self.push(Operation::AddressSet(Change::removed(before)));
            }
        }
        for (name, after) in self.address_sets.clone() {
            let before = self.now.address_sets.get(&name).cloned();
            if before.as_ref() != Some(&after) {
                self.push(Operation::AddressSet(Change { before, after: Some(after) }));
            }
        }
    }

    /// Likewise.
    fn put_endpoints(&mut self) {
        for (name, before) in &self.realised.endpoints {
            if !self.endpoints.contains_key(name) {
                self.push(Operation::Endpoint(Change::removed(before)));
            }
        }
        for (name, after) in self.endpoints.clone() {
            let before = self.now.endpoints.get(&name).cloned();
            if before.as_ref() != Some(&after) {
                self.push(Operation::Endpoint(Change { before, after: Some(after) }));
            }
        }
    }

    fn put_tenants(&mut self) {
        for (name, after) in self.tenants.clone() {
            match self.now.tenants.get(&name).cloned() {
                Some(before) => self.change_tenant(&before, &after),
                None => self.push(Operation::Tenant(Change::added(&after))),
            }
        }
    }

    /// What nobody uses any more, goes.
    fn remove(&mut self) {
        for spec in self.going() {
            self.destroy(&spec.name);
        }
        for (name, spec) in self.now.bridges.clone() {
            if !self.bridges.contains_key(&name) {
                self.push(Operation::Bridge(Change::removed(&spec)));
            }
        }
        for (name, spec) in self.now.vrfs.clone() {
            if !self.vrfs.contains_key(&name) {
                self.push(Operation::Vrf(Change::removed(&spec)));
            }
        }
    }

    /// Interfaces that are there and shall not be, vlans first.
    fn going(&self) -> Vec<Arc<InterfaceSpec>> {
        let mut going = self
            .now
            .interfaces
            .values()
            .filter(|running| !self.interfaces.contains_key(&running.spec.name))
            .map(|running| Arc::clone(&running.spec))
            .collect::<Vec<_>>();
        going.sort_by_key(|spec| !matches!(spec.port, PortSpec::Vlan(_)));
        going
    }

    fn destroy(&mut self, name: &Name) {
        let Some(running) = self.now.interfaces.get(name) else { return };
        let before = Arc::clone(&running.spec);
        let bare = before.bare();
        self.change_interface(&before, bare.clone());
        self.push(Operation::DestroyInterface(Arc::new(bare)));
    }

    fn change_interface(&mut self, before: &Arc<InterfaceSpec>, after: InterfaceSpec) {
        if **before != after {
            self.push(Operation::Configure { before: Arc::clone(before), after: Arc::new(after) });
        }
    }

    fn change_tenant(&mut self, before: &Arc<TenantSpec>, after: &Arc<TenantSpec>) {
        if before != after {
            let (before, after) = (Some(Arc::clone(before)), Some(Arc::clone(after)));
            self.push(Operation::Tenant(Change { before, after }));
        }
    }

    fn change_bridge(&mut self, before: &Arc<BridgeSpec>, after: BridgeSpec) {
        if **before != after {
            self.push(Operation::Bridge(Change {
                before: Some(Arc::clone(before)),
                after: Some(Arc::new(after)),
            }));
        }
    }
}
