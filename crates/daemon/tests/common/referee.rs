//! A dataplane without packets that holds the control plane to its promises: it keeps what it was told and objects to
//! every step that doesn't make sense at that moment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use quiverd::dataplane::{Change, Dataplane, Operation, Rejection};
use quiverd::model::spec::{InterfaceSpec, L2, MacTarget, PortSpec};
use quiverd::model::{Flaw, Name, Refusal, ResolvedPaths, RouteKey, Via};
use quiverd::reconcile::{Realised, Running};

/// What the test and the dataplane share: the test looks at it, and says what the system outside refuses.
#[derive(Clone, Default)]
pub struct World(Arc<Mutex<State>>);

#[derive(Default)]
pub struct State {
    /// What the dataplane has.
    pub realised: Realised,
    /// Its routes: `Realised` doesn't show them one by one.
    pub routes: BTreeMap<RouteKey, Arc<ResolvedPaths>>,
    /// Every step that was executed, as text.
    pub log: Vec<String>,
    /// Times it was published.
    pub published: usize,
    /// Interfaces whose port can't be opened, noticed when asked beforehand.
    pub refused_by_check: BTreeSet<String>,
    /// Interfaces whose port can't be opened, noticed only when it is tried.
    pub refused_by_execute: BTreeSet<String>,
    /// What can't be in force (any more), to be told next.
    pub lost: Vec<Refusal>,
    /// Workers don't take what is published.
    pub stuck: bool,
    /// Sessions that workers have room for; none: any number.
    pub session_room: Option<u64>,
}

impl World {
    pub fn referee(&self) -> Referee {
        Referee(self.clone())
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Names of the interfaces there are.
    pub fn interfaces(&self) -> Vec<String> {
        self.state().realised.interfaces.keys().map(ToString::to_string).collect()
    }

    /// The steps since the last call.
    pub fn take_log(&self) -> Vec<String> {
        std::mem::take(&mut self.state().log)
    }

    /// Where packets of a destination go: "router 10.0.0.2 on a".
    pub fn route(&self, prefix: &str) -> Option<String> {
        let key = RouteKey { vrf: Name::default_vrf(), prefix: prefix.parse().unwrap() };
        Some(describe(self.state().routes.get(&key)?))
    }
}

fn describe(paths: &ResolvedPaths) -> String {
    let ResolvedPaths::Forward(hops) = paths else { return format!("{paths:?}").to_lowercase() };
    let hops = hops.iter().map(|hop| match &hop.via {
        Via::Router { interface, address } => format!("router {address} on {interface}"),
        Via::Attached(interface) => format!("attached to {interface}"),
        Via::Lookup(vrf) => format!("lookup in {vrf}"),
    });
    hops.collect::<Vec<_>>().join(", ")
}

/// The dataplane.
pub struct Referee(World);

impl Dataplane for Referee {
    fn session_room(&self) -> u64 {
        self.0.state().session_room.unwrap_or(u64::MAX)
    }

    fn check(&mut self, operation: &Operation) -> Result<(), Rejection> {
        let state = self.0.state();
        match operation {
            Operation::CreateInterface(spec) | Operation::OpenPort(spec)
                if state.refused_by_check.contains(&*spec.name) =>
            {
                Err(Flaw::new("tap.netns", "doesn't exist").remedy("create it").into())
            }
            _ => Ok(()),
        }
    }

    fn execute(&mut self, operation: &Operation) -> Result<(), Rejection> {
        let mut state = self.0.state();
        if let Operation::CreateInterface(spec) | Operation::OpenPort(spec) = operation
            && (state.refused_by_check.contains(&*spec.name)
                || state.refused_by_execute.contains(&*spec.name))
        {
            return Err(Flaw::new("tap.host_name", "is taken").into());
        }
        state.judge(operation);
        state.log.push(operation.to_string());
        state.realised.record(operation);
        if let Operation::Routes(changes) = operation {
            for change in changes {
                match &change.after {
                    Some(paths) => state.routes.insert(change.key.clone(), Arc::clone(paths)),
                    None => state.routes.remove(&change.key),
                };
            }
        }
        state.judge_whole(operation);
        Ok(())
    }

    fn publish(&mut self) -> Result<(), Flaw> {
        let mut state = self.0.state();
        state.published += 1;
        if state.stuck { Err(Flaw::new("", "a worker doesn't take it")) } else { Ok(()) }
    }

    fn lost(&mut self) -> Vec<Refusal> {
        std::mem::take(&mut self.0.state().lost)
    }
}

impl State {
    /// A step must fit what is there.
    fn judge(&self, operation: &Operation) {
        let interface = |spec: &InterfaceSpec| self.realised.interfaces.get(&spec.name);
        let running = |spec: &InterfaceSpec| {
            interface(spec).unwrap_or_else(|| panic!("{operation}: there is no interface {}", spec.name))
        };
        match operation {
            Operation::Vrf(change) => {
                known(operation, change, |spec| self.realised.vrfs.get(&spec.name).cloned());
            }
            Operation::Bridge(change) => {
                known(operation, change, |spec| self.realised.bridges.get(&spec.name).cloned());
            }
            Operation::Neighbor(change) => {
                known(operation, change, |spec| self.realised.neighbors.get(&spec.key).cloned());
            }
            Operation::Tenant(change) => {
                known(operation, change, |spec| self.realised.tenants.get(&spec.name).cloned());
            }
            Operation::Vip(change) => {
                known(operation, change, |spec| self.realised.vips.get(&spec.name).cloned());
            }
            Operation::NatPool(change) => {
                known(operation, change, |spec| self.realised.nat_pools.get(&spec.name).cloned());
            }
            Operation::Policer(change) => {
                known(operation, change, |spec| self.realised.policers.get(&spec.name).cloned());
            }
            Operation::Acl(change) => {
                known(operation, change, |spec| self.realised.acls.get(&spec.name).cloned());
            }
            Operation::AddressSet(change) => {
                known(operation, change, |spec| self.realised.address_sets.get(&spec.name).cloned());
            }
            Operation::Endpoint(change) => {
                known(operation, change, |spec| self.realised.endpoints.get(&spec.name).cloned());
            }
            Operation::CreateInterface(spec) => {
                assert!(interface(spec).is_none(), "{operation}: it is there already");
                if let PortSpec::Vlan(vlan) = &spec.port {
                    assert!(
                        self.realised.interfaces.contains_key(&vlan.parent),
                        "{operation}: before its parent"
                    );
                }
            }
            Operation::DestroyInterface(spec) => {
                assert_eq!(*running(spec).spec, spec.bare(), "{operation}: it isn't bare");
            }
            Operation::ClosePort(spec) => {
                assert!(running(spec).open, "{operation}: it is closed");
                assert_eq!(running(spec).spec.port, spec.port, "{operation}: it has another port");
            }
            Operation::OpenPort(spec) => assert!(!running(spec).open, "{operation}: it is open"),
            Operation::Configure { before, after } => {
                assert_eq!(running(before).spec, *before, "{operation}: it is something else");
                assert!(running(before).open, "{operation}: its port is closed");
                assert_eq!((&before.name, &before.port), (&after.name, &after.port));
                assert_ne!(before, after, "{operation}: nothing changes");
            }
            Operation::Routes(changes) => {
                let mut seen = BTreeSet::new();
                for change in changes {
                    assert!(seen.insert(&change.key), "{operation}: {:?} twice", change.key);
                    assert_eq!(self.routes.get(&change.key), change.before.as_ref(), "{:?}", change.key);
                    assert_ne!(change.before, change.after, "{:?}: nothing changes", change.key);
                }
            }
        }
    }

    /// What is there after a step must make sense as a whole.
    fn judge_whole(&self, operation: &Operation) {
        let interfaces = &self.realised.interfaces;
        let (mut claims, mut addresses) = (BTreeMap::new(), BTreeMap::new());
        for Running { spec, open } in interfaces.values() {
            for claim in spec.port.claims().into_iter().filter(|_| *open) {
                let other = claims.insert(claim.clone(), &spec.name);
                assert_eq!(other, None, "{operation}: {claim} is taken twice");
            }
            for address in spec.addresses.iter().filter(|address| !is_link_local(address.addr())) {
                let other = addresses.insert((&spec.vrf, address.addr()), &spec.name);
                assert_eq!(other, None, "{operation}: {address} is there twice");
            }
            assert!(self.realised.vrfs.contains_key(&spec.vrf), "{operation}: {} has no VRF", spec.name);
            match &spec.l2 {
                Some(L2::Bridge { name, .. }) => {
                    assert!(self.realised.bridges.contains_key(name), "{operation}")
                }
                Some(L2::CrossConnect(other)) => assert!(interfaces.contains_key(other), "{operation}"),
                None => {}
            }
            if let (PortSpec::Vlan(vlan), true) = (&spec.port, open) {
                assert!(interfaces.contains_key(&vlan.parent), "{operation}: {} lost its parent", spec.name);
            }
        }
        for tenant in self.realised.tenants.values() {
            for name in tenant.all_interfaces() {
                assert!(self.realised.interfaces.contains_key(name), "{operation}: {name} isn't there");
            }
            for other in self.realised.tenants.values().filter(|other| other.name != tenant.name) {
                let shared = tenant.interfaces.iter().find(|name| other.interfaces.contains(name));
                assert_eq!(shared, None, "{operation}: it is {}'s and {}'s", tenant.name, other.name);
            }
        }
        for bridge in self.realised.bridges.values() {
            for entry in &bridge.static_macs {
                let MacTarget::Member(member) = &entry.target else { continue };
                let l2 = interfaces.get(member).and_then(|running| running.spec.l2.as_ref());
                let is_member = matches!(l2, Some(L2::Bridge { name, .. }) if *name == bridge.name);
                assert!(is_member, "{operation}: {member} is no member of {}", bridge.name);
            }
        }
        for key in self.realised.neighbors.keys() {
            assert!(interfaces.contains_key(&key.interface), "{operation}: neighbour without interface");
        }
        // Only after steps that can break it: there may be a million routes.
        if matches!(operation, Operation::DestroyInterface(_) | Operation::Vrf(_)) {
            for (key, paths) in &self.routes {
                assert!(self.realised.vrfs.contains_key(&key.vrf), "{operation}: {key:?} has no VRF");
                for interface in paths.interfaces() {
                    assert!(interfaces.contains_key(interface), "{operation}: {key:?} leads nowhere");
                }
            }
        }
    }
}

/// Such addresses may be on every interface.
fn is_link_local(address: std::net::IpAddr) -> bool {
    match address {
        std::net::IpAddr::V4(address) => address.is_link_local(),
        std::net::IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

/// A change must begin with what is there.
#[track_caller]
fn known<S: PartialEq + std::fmt::Debug>(
    operation: &Operation,
    change: &Change<S>,
    there: impl Fn(&S) -> Option<Arc<S>>,
) {
    let spec = change.either().unwrap_or_else(|| panic!("{operation}: without object"));
    assert_eq!(there(spec), change.before, "{operation}: it is something else");
    assert_ne!(change.before, change.after, "{operation}: nothing changes");
}
