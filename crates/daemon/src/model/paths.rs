//! Where packets go, once it is known which interface leads there.

use std::net::IpAddr;
use std::sync::Arc;

use super::spec::{Hop, Paths, SplitSpec};
use super::{Key, Name, Readiness, Standing, Waiting};

/// What is done with packets that match a route, with every next hop tied to an interface. Only what is in force.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ResolvedPaths {
    /// They take one of these, at least one.
    Forward(Vec<ResolvedHop>),
    /// They take one of two ways, by destination port.
    Split(Box<ResolvedSplit>),
    /// They are dropped silently.
    Blackhole,
    /// They are answered with ICMP destination unreachable.
    Unreachable,
    /// They are answered with ICMP administratively prohibited.
    Prohibit,
}

/// One of two ways, by destination port.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ResolvedSplit {
    /// As it was asked for.
    pub split: SplitSpec,
    /// The way of packets to its ports; `None`: it isn't in force.
    pub matching: Option<Via>,
    /// The way of all others.
    pub others: Via,
}

/// One of several ways.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ResolvedHop {
    /// Where to.
    pub via: Via,
    /// Share of the flows, 1 to 255.
    pub weight: u32,
}

/// Where to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Via {
    /// A router.
    Router {
        /// The interface it is behind.
        interface: Name,
        /// Its address.
        address: IpAddr,
    },
    /// The destination is itself behind this interface.
    Attached(Name),
    /// The destination is looked up again in this VRF.
    Lookup(Name),
}

impl ResolvedPaths {
    /// The interfaces packets leave through.
    pub fn interfaces(&self) -> impl Iterator<Item = &Name> + '_ {
        let (hops, split) = match self {
            Self::Forward(hops) => (&hops[..], None),
            Self::Split(split) => (&[][..], Some(split)),
            _ => (&[][..], None),
        };
        let ways = split.into_iter().flat_map(|split| split.matching.iter().chain([&split.others]));
        hops.iter().map(|hop| &hop.via).chain(ways).filter_map(|via| match via {
            Via::Router { interface, .. } | Via::Attached(interface) => Some(interface),
            Via::Lookup(_) => None,
        })
    }
}

/// Where a set of paths stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathStanding {
    /// The ways that are in force; `None`: none is.
    pub resolved: Option<Arc<ResolvedPaths>>,
    /// What the others wait for.
    pub waits: Vec<Waiting>,
}

impl PathStanding {
    /// Where the route stands that has these paths.
    pub fn standing(&self) -> Standing {
        match (&self.resolved, self.waits.is_empty()) {
            (Some(_), true) => Standing::Ready,
            (Some(_), false) => Standing::Partial(self.waits.clone()),
            (None, _) => Standing::Pending(self.waits.clone()),
        }
    }

    /// Ties paths to interfaces.
    pub(super) fn resolve(paths: &Paths, readiness: &Readiness) -> Self {
        let always = |paths| Self { resolved: Some(Arc::new(paths)), waits: Vec::new() };
        let hops = match paths {
            Paths::Forward(hops) => hops,
            Paths::Split(split) => return Self::resolve_split(split, readiness),
            Paths::Blackhole => return always(ResolvedPaths::Blackhole),
            Paths::Unreachable => return always(ResolvedPaths::Unreachable),
            Paths::Prohibit => return always(ResolvedPaths::Prohibit),
        };
        let mut resolved = Vec::with_capacity(hops.len());
        let mut waits = Vec::new();
        for hop in hops {
            match resolve_hop(&hop.hop, readiness) {
                Ok(via) => resolved.push(ResolvedHop { via, weight: hop.weight }),
                Err(waiting) => waits.push(waiting),
            }
        }
        let resolved =
            if resolved.is_empty() { None } else { Some(Arc::new(ResolvedPaths::Forward(resolved))) };
        Self { resolved, waits }
    }
}

impl PathStanding {
    /// A port split is in force where the way of other ports is: the ports' own interface may come later.
    fn resolve_split(split: &SplitSpec, readiness: &Readiness) -> Self {
        let mut waits = Vec::new();
        let mut way = |hop| resolve_hop(hop, readiness).map_err(|waiting| waits.push(waiting)).ok();
        let (others, matching) = (way(&split.others), way(&split.matching));
        let resolved = others.map(|others| {
            Arc::new(ResolvedPaths::Split(Box::new(ResolvedSplit { split: split.clone(), matching, others })))
        });
        Self { resolved, waits }
    }
}

fn resolve_hop(hop: &Hop, readiness: &Readiness) -> Result<Via, Waiting> {
    match hop {
        Hop::Router { address, interface } => {
            readiness.require(&Key::Interface(interface.clone()))?;
            Ok(Via::Router { interface: interface.clone(), address: *address })
        }
        Hop::Attached(interface) => {
            readiness.require(&Key::Interface(interface.clone()))?;
            Ok(Via::Attached(interface.clone()))
        }
        Hop::Lookup(vrf) => {
            readiness.require(&Key::Vrf(vrf.clone()))?;
            Ok(Via::Lookup(vrf.clone()))
        }
        Hop::Covered { address, vrf } => {
            readiness.require(&Key::Vrf(vrf.clone()))?;
            if let Some(owner) = readiness.connected().owner(vrf, *address) {
                let reason = format!("{address} is the own address of interface {owner}, no router");
                return Err(Waiting { on: Some(Key::Interface(owner.clone())), reason });
            }
            match readiness.connected().covering(vrf, *address) {
                Some(interface) => Ok(Via::Router { interface: interface.clone(), address: *address }),
                None => Err(Waiting {
                    on: None,
                    reason: format!("no interface in VRF {vrf} has a network that covers {address}"),
                }),
            }
        }
    }
}
