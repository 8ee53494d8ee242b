//! Routes and neighbours: the engine's hold on the features' control sides.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use features::interface::Interfaces;
use features::ip::control::{Forwarding, ForwardingError, Path, Prefix, Progress, SplitRule, Via as Way};
use features::neighbour::control::{Action, Neighbours};
use features::port_split::WithoutPeer;
use graph::packet::OwnedPacket;
use graph::plan::Plan;
use graph::port::IfIndex;
use graph::publish::Publisher;
use memory::clock::nanoseconds;
use tables::fib::DEFAULT_CAPACITY as FIB_BYTES;
use wire::MacAddr;

use super::core::Core;
use super::directory::Inventory;
use super::start::EngineOptions;
use crate::dataplane::{Change, Rejection, RouteChange};
use crate::model::spec::NeighborSpec;
use crate::model::{Flaw, Key, Name, ResolvedHop, ResolvedPaths, ResolvedSplit, RouteKey, Via};

/// Neighbour timers dealt with at a time.
const TIMERS: usize = 1024;

/// Forwarding tables, and who is behind which address.
#[derive(Debug)]
pub(super) struct Routing {
    pub(super) forwarding: Forwarding,
    /// Locked for moments, under the engine's lock or by whoever looks.
    neighbours: Arc<Mutex<Neighbours>>,
    /// Workers don't see all changes yet.
    unsettled: bool,
}

impl Routing {
    pub(super) fn new(
        plan: &Plan,
        publisher: &mut Publisher,
        options: &EngineOptions,
    ) -> Result<Self, ForwardingError> {
        let bytes = options.fib_bytes.unwrap_or(FIB_BYTES);
        let mut forwarding = Forwarding::with_capacity(&plan.schema, options.cores.len(), bytes)?;
        forwarding.commit(publisher)?;
        Ok(Self {
            forwarding,
            neighbours: Arc::new(Mutex::new(Neighbours::new(Default::default(), nanoseconds()))),
            unsettled: true,
        })
    }

    /// Who is behind which address, to be shared with those who look.
    pub(super) fn shared_neighbours(&self) -> Arc<Mutex<Neighbours>> {
        Arc::clone(&self.neighbours)
    }

    fn neighbours(&self) -> MutexGuard<'_, Neighbours> {
        self.neighbours.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_vrf(&mut self, index: u16, name: &str, symmetric: bool) -> Result<(), Flaw> {
        self.unsettled = true;
        match self.forwarding.create_vrf(index, name, symmetric) {
            Ok(()) => Ok(()),
            Err(ForwardingError::VrfExists { .. }) => {
                self.forwarding.set_symmetric_hash(index, symmetric).map_err(flaw)
            }
            Err(error) => Err(flaw(error)),
        }
    }

    pub(super) fn remove_vrf(&mut self, index: u16) -> Result<(), Flaw> {
        self.unsettled = true;
        self.forwarding.delete_vrf(index).map_err(flaw)
    }

    /// An interface goes. Its neighbours have gone before.
    fn remove_interface(&mut self, index: IfIndex) {
        self.unsettled = true;
        if let Err(error) = self.forwarding.set_interface(index, None) {
            tracing::error!(index, %error, "an interface could not be taken out of the forwarding tables");
        }
    }
}

fn flaw(error: ForwardingError) -> Flaw {
    Flaw::new("", error.to_string())
}

/// Where a next hop leads, as forwarding knows it.
fn way(inventory: &Inventory, via: &Via) -> Way {
    match via {
        Via::Router { interface, address } => {
            Way::Address { address: *address, interface: inventory.registry.index(interface) }
        }
        Via::Attached(interface) => Way::Interface(inventory.registry.index(interface).unwrap_or_default()),
        Via::Lookup(vrf) => Way::Vrf(inventory.vrf_index(vrf)),
    }
}

/// A port split, likewise.
fn split_rule(inventory: &Inventory, resolved: &ResolvedSplit) -> SplitRule {
    let ResolvedSplit { split, matching, others } = resolved;
    SplitRule {
        ports: Arc::clone(&split.ports),
        matching: matching.as_ref().map(|via| way(inventory, via)),
        others: way(inventory, others),
        without_peer: if split.drop_without_peer { WithoutPeer::Drop } else { WithoutPeer::AsOthers },
    }
}

impl Core {
    /// Tells forwarding and neighbours of interfaces as they are published.
    pub(super) fn route_interfaces(&mut self, inventory: &Inventory, interfaces: &Interfaces) {
        let now = nanoseconds();
        for (index, interface) in interfaces.iter() {
            if let Err(error) = self.routing.forwarding.set_interface(index, Some(interface))
                && let Some(entry) = inventory.registry.get(index)
            {
                self.lose(Key::Interface(entry.spec.name.clone()), flaw(error));
            }
            self.routing.neighbours().set_interface(now, index, Some(interface));
        }
        self.routing.unsettled = true;
        self.act();
    }

    /// An interface goes: first its neighbours, as long as the tables know where they belong.
    pub(super) fn unroute_interface(&mut self, index: IfIndex) {
        self.routing.neighbours().set_interface(nanoseconds(), index, None);
        self.act();
        self.routing.remove_interface(index);
    }

    /// Whether workers don't see everything yet.
    pub(super) fn busy(&self) -> bool {
        self.routing.unsettled
            || self.departure.is_some()
            || !self.arrivals.is_empty()
            || !self.frames.is_empty()
    }

    /// Carries changes to the workers, as far as that goes without waiting for them. True when workers see everything
    /// that there is room for.
    pub(super) fn settle(&mut self) -> bool {
        if !self.departed() {
            return false;
        }
        if self.interfaces_changed {
            self.publish_interfaces();
        }
        if !self.in_batch && (self.balancer.is_changed() || self.filters.is_changed()) {
            self.publish_sessions();
        }
        self.settle_routes() && self.arrive()
    }

    /// Whether all routes that there is room for are in the tables.
    fn settle_routes(&mut self) -> bool {
        if !self.routing.unsettled {
            return true;
        }
        match self.routing.forwarding.commit(&mut self.publisher) {
            Ok(Progress::Done) => {
                self.routing.unsettled = self.routing.forwarding.reclaim(&self.publisher);
                true
            }
            Ok(Progress::Waiting { .. }) => false,
            Err(error) => {
                // All that fits is in the tables. The rest is the control thread's to withdraw, which may make room.
                self.lose_unplaced(&error);
                self.routing.unsettled = self.routing.forwarding.reclaim(&self.publisher);
                true
            }
        }
    }

    /// Notes the objects whose routes a full table had no room for.
    fn lose_unplaced(&mut self, error: &ForwardingError) {
        let unplaced: Vec<_> = self.routing.forwarding.unplaced().collect();
        let inventory = self.directory.get();
        let names: HashMap<u16, Name> =
            inventory.vrfs.iter().map(|(name, index)| (*index, name.clone())).collect();
        for (vrf, prefix, owner) in unplaced {
            let key = match (owner, prefix.to_string().parse(), names.get(&vrf)) {
                (Some(interface), ..) => {
                    inventory.registry.get(interface).map(|entry| Key::Interface(entry.spec.name.clone()))
                }
                (None, Ok(prefix), Some(vrf)) => Some(Key::Route(RouteKey { vrf: vrf.clone(), prefix })),
                _ => None,
            };
            if let Some(key) = key {
                self.lose(key, Flaw::new("", error.to_string()));
            }
        }
    }

    /// Routes come, change or go: all of `changes` or none.
    pub(super) fn routes(&mut self, changes: &[RouteChange]) -> Result<(), Rejection> {
        self.routing.unsettled = true;
        let inventory = self.directory.get();
        for (at, change) in changes.iter().enumerate() {
            if let Err(rejection) = self.route(&inventory, &change.key, change.after.as_deref()) {
                self.put_routes_back(changes.get(..at).unwrap_or_default());
                return Err(rejection);
            }
        }
        Ok(())
    }

    /// Undoes changes that were made.
    pub(super) fn put_routes_back(&mut self, changes: &[RouteChange]) {
        self.routing.unsettled = true;
        let inventory = self.directory.get();
        for change in changes {
            if let Err(rejection) = self.route(&inventory, &change.key, change.before.as_deref()) {
                tracing::error!(%rejection, "a route could not be put back");
            }
        }
    }

    fn route(
        &mut self,
        inventory: &Inventory,
        key: &RouteKey,
        paths: Option<&ResolvedPaths>,
    ) -> Result<(), Rejection> {
        let vrf = inventory.vrf_index(&key.vrf);
        let prefix = match key.prefix {
            ipnet::IpNet::V4(net) => Prefix::covering(net.network().into(), net.prefix_len()),
            ipnet::IpNet::V6(net) => Prefix::covering(net.network().into(), net.prefix_len()),
        };
        let rejection = |reason: String| Rejection {
            key: Some(Key::Route(key.clone())),
            flaw: Flaw::new("prefix", reason),
        };
        let prefix = prefix.map_err(|error| rejection(error.to_string()))?;
        let done = match paths {
            None => self.routing.forwarding.delete_route(vrf, prefix).map(|_| ()),
            Some(paths) => self.add_route(inventory, vrf, prefix, paths),
        };
        // Who passes the nodes that remember flows follows from routes.
        self.interfaces_changed |= self.routing.forwarding.take_splits_changed();
        done.map_err(|error| rejection(error.to_string()))
    }

    fn add_route(
        &mut self,
        inventory: &Inventory,
        vrf: u16,
        prefix: Prefix,
        paths: &ResolvedPaths,
    ) -> Result<(), ForwardingError> {
        let forwarding = &mut self.routing.forwarding;
        let action = |via: Way| vec![Path::from(via)];
        let paths = match paths {
            ResolvedPaths::Split(resolved) => {
                let rule = split_rule(inventory, resolved);
                return forwarding.add_split_route(vrf, prefix, &rule).map(|_| ());
            }
            ResolvedPaths::Blackhole => action(Way::Blackhole),
            ResolvedPaths::Unreachable => action(Way::Unreachable),
            ResolvedPaths::Prohibit => action(Way::Prohibit),
            ResolvedPaths::Forward(hops) => {
                let path = |hop: &ResolvedHop| Path { via: way(inventory, &hop.via), weight: hop.weight };
                hops.iter().map(path).collect()
            }
        };
        forwarding.add_route(vrf, prefix, &paths).map(|_| ())
    }

    /// A static neighbour comes, changes or goes.
    pub(super) fn static_neighbour(&mut self, change: &Change<NeighborSpec>) -> Result<(), Flaw> {
        let Some(spec) = change.either() else { return Ok(()) };
        let index = self.directory.get().registry.index(&spec.key.interface);
        let Some(index) = index else { return Ok(()) };
        let mac = change.after.as_ref().map(|after| MacAddr(after.mac.0));
        // The interface's addresses decide what may be a neighbour: they have to be known first.
        if self.interfaces_changed {
            self.publish_interfaces();
        }
        let mut neighbours = self.routing.neighbours();
        match mac {
            Some(mac) => neighbours.set_static(nanoseconds(), index, spec.key.address, mac),
            None => neighbours.remove_static(index, spec.key.address),
        }
        drop(neighbours);
        self.act();
        Ok(())
    }

    /// A packet for the slow path, from a worker and at the expense of an interface.
    pub(super) fn punt(&mut self, from: (usize, IfIndex), kind: &'static str, packet: OwnedPacket) {
        if !self.routing.neighbours().punt(nanoseconds(), from, kind, packet) {
            tracing::warn!(kind, "a packet came to the slow path that no feature takes");
        }
        self.act();
    }

    /// The other side of an interface has just come: it is told who we are.
    pub(super) fn link_up(&mut self, index: IfIndex) {
        self.routing.neighbours().link_up(nanoseconds(), index);
        self.act();
    }

    /// Timers.
    pub(super) fn tick(&mut self) {
        self.routing.neighbours().tick(nanoseconds(), TIMERS);
        self.age_bridges();
        self.review_moves();
        self.beat_engines();
        self.act();
    }

    /// Does what the neighbours' state machine wants done.
    fn act(&mut self) {
        let mut after = Vec::new();
        let actions = self.routing.neighbours().take_actions();
        for action in actions {
            let forwarding = &mut self.routing.forwarding;
            let (interface, done) = match action {
                Action::Program { interface, address, mac } => {
                    (interface, forwarding.set_neighbour(interface, address, Some(mac)))
                }
                Action::Unprogram { interface, address } => {
                    (interface, forwarding.set_neighbour(interface, address, None))
                }
                Action::Send { tx_if, frame } => {
                    self.frames.push(features::neighbour::frame(tx_if, frame));
                    continue;
                }
                // What only ends needs no tables, and nothing is to keep it waiting.
                Action::Inject { worker, target: features::neighbour::DROP, packet } => {
                    self.pool.inject(worker, features::neighbour::DROP, packet);
                    continue;
                }
                Action::Inject { worker, target, packet } => {
                    after.push((worker, target, packet));
                    continue;
                }
                Action::Conflict { interface, address, mac } => {
                    let name = self.directory.get().registry.name(interface);
                    tracing::warn!(interface = name, %address, %mac, "another station claims our address");
                    continue;
                }
            };
            self.routing.unsettled = true;
            if let Err(error) = done {
                let name = self.directory.get().registry.name(interface);
                tracing::warn!(interface = name, %error, "a neighbour could not be programmed");
            }
        }
        self.waiting.extend(after);
        self.send_frames();
        self.release();
    }

    /// Sends packets on whose neighbours workers know now.
    pub(super) fn release(&mut self) {
        if !self.waiting.is_empty() && self.settle() {
            for (worker, target, packet) in self.waiting.drain(..) {
                self.pool.inject(worker, target, packet);
            }
        }
    }
}
