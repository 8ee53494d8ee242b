//! Routes and neighbours: the engine's hold on the features' control sides.

use features::interface::Interfaces;
use features::ip::control::{Forwarding, ForwardingError, Path, Prefix, Progress, Via as Way};
use features::neighbour::control::{Action, Neighbours};
use graph::packet::OwnedPacket;
use graph::plan::Plan;
use graph::port::IfIndex;
use graph::publish::Publisher;
use memory::clock::nanoseconds;
use wire::MacAddr;

use super::core::Core;
use crate::dataplane::{Change, Rejection, RouteChange};
use crate::model::spec::NeighborSpec;
use crate::model::{Flaw, Key, ResolvedPaths, RouteKey, Via};

/// Neighbour timers dealt with at a time.
const TIMERS: usize = 1024;

/// Forwarding tables, and who is behind which address.
#[derive(Debug)]
pub(super) struct Routing {
    pub(super) forwarding: Forwarding,
    pub(super) neighbours: Neighbours,
    /// Workers don't see all changes yet.
    unsettled: bool,
}

impl Routing {
    pub(super) fn new(plan: &Plan, publisher: &mut Publisher) -> Result<Self, ForwardingError> {
        let mut forwarding = Forwarding::new(&plan.schema)?;
        forwarding.commit(publisher)?;
        Ok(Self {
            forwarding,
            neighbours: Neighbours::new(Default::default(), nanoseconds()),
            unsettled: true,
        })
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

impl Core {
    /// Tells forwarding and neighbours of interfaces as they are published.
    pub(super) fn route_interfaces(&mut self, interfaces: &Interfaces) {
        let now = nanoseconds();
        for (index, interface) in interfaces.iter() {
            if let Err(error) = self.routing.forwarding.set_interface(index, Some(interface)) {
                tracing::error!(interface = %interface.name, %error, "its addresses could not be put into the tables");
            }
            self.routing.neighbours.set_interface(now, index, Some(interface));
        }
        self.routing.unsettled = true;
        self.act();
    }

    /// An interface goes: first its neighbours, as long as the tables know where they belong.
    pub(super) fn unroute_interface(&mut self, index: IfIndex) {
        self.routing.neighbours.set_interface(nanoseconds(), index, None);
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

    /// Carries changes to the workers, as far as that goes without waiting for them. True when all is done.
    pub(super) fn settle(&mut self) -> bool {
        if !self.departed() {
            return false;
        }
        if self.interfaces_changed {
            self.publish_interfaces();
        }
        match self.settle_routes() {
            Some(false) => false,
            Some(true) => self.arrive(),
            None => {
                // Routes that don't fit mustn't keep new interfaces silent for ever.
                self.arrive();
                false
            }
        }
    }

    /// Whether all routes are in the tables; `None` where they can't be put there.
    fn settle_routes(&mut self) -> Option<bool> {
        if !self.routing.unsettled {
            return Some(true);
        }
        match self.routing.forwarding.commit(&mut self.publisher) {
            Ok(Progress::Done) => {
                self.routing.unsettled = self.routing.forwarding.reclaim(&self.publisher);
                Some(true)
            }
            Ok(Progress::Waiting { .. }) => Some(false),
            Err(error) => {
                tracing::error!(%error, "routes could not be put into the tables; it is tried again");
                None
            }
        }
    }

    /// Routes come, change or go.
    pub(super) fn routes(&mut self, changes: &[RouteChange]) -> Result<(), Rejection> {
        self.routing.unsettled = true;
        for (at, change) in changes.iter().enumerate() {
            if let Err(rejection) = self.route(&change.key, change.after.as_deref()) {
                // Nothing of an operation that is rejected may remain.
                for change in &changes[..at] {
                    if let Err(rejection) = self.route(&change.key, change.before.as_deref()) {
                        tracing::error!(%rejection, "a route could not be put back");
                    }
                }
                return Err(rejection);
            }
        }
        Ok(())
    }

    fn route(&mut self, key: &RouteKey, paths: Option<&ResolvedPaths>) -> Result<(), Rejection> {
        let vrf = self.vrf_index(&key.vrf);
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
            Some(paths) => {
                let paths = self.paths(paths);
                self.routing.forwarding.add_route(vrf, prefix, &paths).map(|_| ())
            }
        };
        done.map_err(|error| rejection(error.to_string()))
    }

    fn paths(&self, paths: &ResolvedPaths) -> Vec<Path> {
        match paths {
            ResolvedPaths::Blackhole => vec![Path::from(Way::Blackhole)],
            ResolvedPaths::Unreachable => vec![Path::from(Way::Unreachable)],
            ResolvedPaths::Prohibit => vec![Path::from(Way::Prohibit)],
            ResolvedPaths::Forward(hops) => {
                let way = |via: &Via| match via {
                    Via::Router { interface, address } => {
                        Way::Address { address: *address, interface: self.registry.index(interface) }
                    }
                    Via::Attached(interface) => {
                        Way::Interface(self.registry.index(interface).unwrap_or_default())
                    }
                    Via::Lookup(vrf) => Way::Vrf(self.vrf_index(vrf)),
                };
                hops.iter().map(|hop| Path { via: way(&hop.via), weight: hop.weight }).collect()
            }
        }
    }

    /// A static neighbour comes, changes or goes.
    pub(super) fn static_neighbour(&mut self, change: &Change<NeighborSpec>) -> Result<(), Flaw> {
        let Some(spec) = change.either() else { return Ok(()) };
        let Some(index) = self.registry.index(&spec.key.interface) else { return Ok(()) };
        let mac = change.after.as_ref().map(|after| MacAddr(after.mac.0));
        // The interface's addresses decide what may be a neighbour: they have to be known first.
        if self.interfaces_changed {
            self.publish_interfaces();
        }
        let neighbours = &mut self.routing.neighbours;
        match mac {
            Some(mac) => neighbours.set_static(nanoseconds(), index, spec.key.address, mac),
            None => neighbours.remove_static(index, spec.key.address),
        }
        self.act();
        Ok(())
    }

    /// A packet for the slow path.
    pub(super) fn punt(&mut self, worker: usize, kind: &'static str, packet: OwnedPacket) {
        if !self.routing.neighbours.punt(nanoseconds(), worker, kind, packet) {
            tracing::warn!(kind, "a packet came to the slow path that no feature takes");
        }
        self.act();
    }

    /// The other side of an interface has just come: it is told who we are.
    pub(super) fn link_up(&mut self, index: IfIndex) {
        self.routing.neighbours.link_up(nanoseconds(), index);
        self.act();
    }

    /// Timers.
    pub(super) fn tick(&mut self) {
        self.routing.neighbours.tick(nanoseconds(), TIMERS);
        self.age_bridges();
        self.act();
    }

    /// Does what the neighbours' state machine wants done.
    fn act(&mut self) {
        let mut after = Vec::new();
        for action in self.routing.neighbours.take_actions() {
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
                Action::Inject { worker, target, packet } => {
                    after.push((worker, target, packet));
                    continue;
                }
                Action::Conflict { interface, address, mac } => {
                    let name = self.registry.name(interface);
                    tracing::warn!(interface = name, %address, %mac, "another station claims our address");
                    continue;
                }
            };
            self.routing.unsettled = true;
            if let Err(error) = done {
                tracing::warn!(interface = self.registry.name(interface), %error, "a neighbour could not be programmed");
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
