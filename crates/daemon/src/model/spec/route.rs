//! Routes.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use api::v1::{NextHop, Route, RouteAction};

use super::port_split::SplitSpec;
use crate::model::{Flaw, Name, RouteKey, fields};

/// Most equal ways of one route.
const MAX_NEXT_HOPS: usize = 64;

/// A route; see [`Route`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteSpec {
    /// VRF and destination.
    pub key: RouteKey,
    /// What is done with packets; shared by all routes that do the same.
    pub paths: Arc<Paths>,
}

/// What is done with packets that match a route.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Paths {
    /// They take one of these, at least one, ordered.
    Forward(Vec<NextHopSpec>),
    /// They take one of two ways, by destination port.
    Split(Box<SplitSpec>),
    /// They are dropped silently.
    Blackhole,
    /// They are answered with ICMP destination unreachable.
    Unreachable,
    /// They are answered with ICMP administratively prohibited.
    Prohibit,
}

/// One of several ways.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NextHopSpec {
    /// Where to.
    pub hop: Hop,
    /// Share of the flows, 1 to 255.
    pub weight: u32,
}

/// Where to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Hop {
    /// A router behind a given interface.
    Router {
        /// Its address.
        address: IpAddr,
        /// The interface.
        interface: Name,
    },
    /// A router behind whatever interface has its network.
    Covered {
        /// Its address.
        address: IpAddr,
        /// VRF whose interfaces are meant.
        vrf: Name,
    },
    /// The destination is itself behind this interface.
    Attached(Name),
    /// The destination is looked up again in this VRF.
    Lookup(Name),
}

impl RouteSpec {
    /// Reads what a client sent.
    ///
    /// # Errors
    /// [`Flaw`] naming the field.
    pub fn parse(route: &Route) -> Result<Self, Flaw> {
        let key = RouteKey {
            vrf: fields::vrf("vrf", &route.vrf)?,
            prefix: fields::network("prefix", &route.prefix)?,
        };
        Ok(Self { paths: Arc::new(Paths::parse(route, &key)?), key })
    }

    /// The canonical form.
    pub fn to_api(&self) -> Route {
        Self::api_of(&self.key, &self.paths)
    }

    /// The canonical form of a route with this key and these paths.
    pub fn api_of(key: &RouteKey, paths: &Paths) -> Route {
        let mut port_split = None;
        let (next_hops, action) = match paths {
            Paths::Split(split) => {
                port_split = Some(split.to_api(&key.vrf));
                (vec![split.others.to_api(&key.vrf)], RouteAction::Unspecified)
            }
            Paths::Forward(hops) => {
                (hops.iter().map(|hop| hop.to_api(&key.vrf)).collect(), RouteAction::Unspecified)
            }
            Paths::Blackhole => (Vec::new(), RouteAction::Blackhole),
            Paths::Unreachable => (Vec::new(), RouteAction::Unreachable),
            Paths::Prohibit => (Vec::new(), RouteAction::Prohibit),
        };
        Route {
            vrf: if key.vrf == Name::default_vrf() { String::new() } else { key.vrf.to_string() },
            prefix: key.prefix.to_string(),
            next_hops,
            action: action.into(),
            port_split,
        }
    }
}

impl Paths {
    fn parse(route: &Route, key: &RouteKey) -> Result<Self, Flaw> {
        let action = fields::choice("action", route.action, RouteAction::Forward)?;
        let paths = match action {
            RouteAction::Blackhole => Self::Blackhole,
            RouteAction::Unreachable => Self::Unreachable,
            RouteAction::Prohibit => Self::Prohibit,
            RouteAction::Forward | RouteAction::Unspecified => return Self::parse_hops(route, key),
        };
        if route.port_split.is_some() {
            return Err(Flaw::new("port_split", "contradicts the action: nothing is forwarded")
                .remedy("leave one of the two out"));
        }
        if route.next_hops.is_empty() {
            Ok(paths)
        } else {
            Err(Flaw::new("next_hops", "contradict the action: nothing is forwarded")
                .remedy("leave one of the two out"))
        }
    }

    fn parse_hops(route: &Route, key: &RouteKey) -> Result<Self, Flaw> {
        if route.next_hops.is_empty() {
            return Err(Flaw::new("next_hops", "are missing")
                .remedy("give at least one, or an action: blackhole, unreachable, prohibit"));
        }
        if route.next_hops.len() > MAX_NEXT_HOPS {
            return Err(Flaw::new(
                "next_hops",
                format!("are {}; {MAX_NEXT_HOPS} are allowed", route.next_hops.len()),
            ));
        }
        let mut seen = BTreeSet::new();
        let mut hops = Vec::with_capacity(route.next_hops.len());
        for (index, hop) in route.next_hops.iter().enumerate() {
            let hop =
                NextHopSpec::parse(hop, key).map_err(|flaw| flaw.inside(&format!("next_hops[{index}]")))?;
            if !seen.insert(hop.hop.clone()) {
                return Err(Flaw::new("next_hops", "name the same way twice").remedy("use weight instead"));
            }
            hops.push(hop);
        }
        // Their order means nothing; sorted, equal sets are equal.
        hops.sort();
        match &route.port_split {
            None => Ok(Self::Forward(hops)),
            Some(split) => Ok(Self::Split(Box::new(SplitSpec::parse(split, hops, key)?))),
        }
    }
}

impl NextHopSpec {
    pub(super) fn parse(hop: &NextHop, key: &RouteKey) -> Result<Self, Flaw> {
        let interface = fields::optional_name("interface", &hop.interface)?;
        let vrf = fields::optional_name("vrf", &hop.vrf)?;
        let address =
            if hop.address.is_empty() { None } else { Some(fields::address("address", &hop.address)?) };
        if let Some(address) = address {
            check_router(address, key)?;
        }
        let parsed = match (address, interface, vrf) {
            (_, Some(_), Some(_)) => {
                return Err(Flaw::new(
                    "vrf",
                    "has no meaning where the interface is given: it has its own VRF",
                )
                .remedy("leave one of the two out"));
            }
            (Some(address), Some(interface), None) => Hop::Router { address, interface },
            (Some(IpAddr::V6(address)), None, _) if address.is_unicast_link_local() => {
                return Err(Flaw::new("interface", format!("is missing: {address} exists on every link"))
                    .remedy("name the interface it is behind"));
            }
            (Some(address), None, vrf) => {
                Hop::Covered { address, vrf: vrf.unwrap_or_else(|| key.vrf.clone()) }
            }
            (None, Some(interface), None) => Hop::Attached(interface),
            (None, None, Some(vrf)) if vrf == key.vrf => {
                return Err(Flaw::new("vrf", "is the VRF of the route: the lookup would never end"));
            }
            (None, None, Some(vrf)) => Hop::Lookup(vrf),
            (None, None, None) => {
                return Err(
                    Flaw::new("", "says nothing").remedy("give an address, an interface, both, or a vrf")
                );
            }
        };
        Ok(Self { hop: parsed, weight: fields::number("weight", hop.weight, 1..=255, 1)? })
    }

    fn to_api(&self, route_vrf: &Name) -> NextHop {
        NextHop { weight: if self.weight == 1 { 0 } else { self.weight }, ..self.hop.to_api(route_vrf) }
    }
}

impl Hop {
    pub(super) fn to_api(&self, route_vrf: &Name) -> NextHop {
        let mut hop = NextHop::default();
        match self {
            Self::Router { address, interface } => {
                hop.address = address.to_string();
                hop.interface = interface.to_string();
            }
            Self::Covered { address, vrf } => {
                hop.address = address.to_string();
                if vrf != route_vrf {
                    hop.vrf = vrf.to_string();
                }
            }
            Self::Attached(interface) => hop.interface = interface.to_string(),
            Self::Lookup(vrf) => hop.vrf = vrf.to_string(),
        }
        hop
    }
}

/// A router has one address, of the family of the destination.
fn check_router(address: IpAddr, key: &RouteKey) -> Result<(), Flaw> {
    if address.is_multicast() || address.is_unspecified() {
        return Err(Flaw::new("address", format!("{address} can't be a router's")));
    }
    if address.is_ipv4() != key.prefix.addr().is_ipv4() {
        return Err(Flaw::new("address", format!("{address} is of another family than {}", key.prefix)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hop(address: &str, interface: &str, vrf: &str, weight: u32) -> NextHop {
        NextHop { address: address.into(), interface: interface.into(), vrf: vrf.into(), weight }
    }

    fn route(next_hops: Vec<NextHop>) -> Route {
        Route { prefix: "10.0.0.0/8".into(), next_hops, ..Route::default() }
    }

    #[test]
    fn every_way_comes_back() {
        for next_hop in [
            hop("10.1.0.1", "", "", 0),
            hop("10.1.0.1", "a", "", 0),
            hop("10.1.0.1", "", "red", 0),
            hop("", "a", "", 7),
            hop("", "", "red", 0),
        ] {
            let route = route(vec![next_hop]);
            assert_eq!(RouteSpec::parse(&route).unwrap().to_api(), route);
        }
    }

    #[test]
    fn order_of_next_hops_means_nothing() {
        let (a, b) = (hop("10.1.0.1", "", "", 0), hop("10.1.0.2", "", "", 0));
        let one = RouteSpec::parse(&route(vec![a.clone(), b.clone()])).unwrap();
        assert_eq!(one, RouteSpec::parse(&route(vec![b, a])).unwrap());
    }

    #[test]
    fn each_bad_field_is_named() {
        let blackhole =
            Route { action: RouteAction::Blackhole.into(), ..route(vec![hop("10.1.0.1", "", "", 0)]) };
        for (route, field) in [
            (route(vec![]), "next_hops"),
            (blackhole, "next_hops"),
            (route(vec![hop("", "", "", 0)]), "next_hops[0]"),
            (route(vec![hop("", "", "default", 0)]), "next_hops[0].vrf"),
            (route(vec![hop("10.1.0.1", "a", "red", 0)]), "next_hops[0].vrf"),
            (route(vec![hop("fd00::1", "", "", 0)]), "next_hops[0].address"),
            (
                Route { prefix: "::/0".into(), ..route(vec![hop("fe80::1", "", "", 0)]) },
                "next_hops[0].interface",
            ),
            (route(vec![hop("0.0.0.0", "", "", 0)]), "next_hops[0].address"),
            (route(vec![hop("10.1.0.1", "", "", 256)]), "next_hops[0].weight"),
            (route(vec![hop("10.1.0.1", "", "", 1), hop("10.1.0.1", "", "", 2)]), "next_hops"),
            (Route { prefix: "10.0.0.1/8".into(), ..route(vec![hop("", "a", "", 0)]) }, "prefix"),
            (Route { action: 9, ..route(vec![hop("", "a", "", 0)]) }, "action"),
        ] {
            assert_eq!(RouteSpec::parse(&route).unwrap_err().field, field, "{route:?}");
        }
    }
}
