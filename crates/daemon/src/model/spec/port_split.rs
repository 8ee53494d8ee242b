//! Port splits of routes.

use std::sync::Arc;

use api::v1::{PortSplit, PortSplitFallback};
use features::port_split::{PortRange, PortSet};

use super::route::{Hop, NextHopSpec};
use crate::model::{Flaw, Name, RouteKey, fields};

/// Most ranges of ports of one route.
const MAX_PORT_RANGES: usize = 256;

/// One of two ways, by destination port; see [`PortSplit`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SplitSpec {
    /// The ports, sorted.
    pub ports: Arc<[PortRange]>,
    /// The way of packets to these ports.
    pub matching: Hop,
    /// The way of all others.
    pub others: Hop,
    /// Packets to these ports are dropped while nobody is there to take them.
    pub drop_without_peer: bool,
}

impl SplitSpec {
    pub(super) fn parse(split: &PortSplit, others: Vec<NextHopSpec>, key: &RouteKey) -> Result<Self, Flaw> {
        let lone = |hop: Hop, field: &str| match hop {
            Hop::Router { .. } | Hop::Attached(_) => Ok(hop),
            Hop::Covered { .. } | Hop::Lookup(_) => Err(Flaw::new(field, "has no interface")
                .remedy("name the interface: a port split chooses between two of them")),
        };
        let [NextHopSpec { hop: others, .. }] = <[_; 1]>::try_from(others).map_err(|hops| {
            let flaw = Flaw::new("next_hops", format!("are {}; with a port split there is one", hops.len()));
            flaw.remedy("leave one, or leave port_split out")
        })?;
        let others = lone(others, "next_hops[0].interface")?;
        let inside = |flaw: Flaw| flaw.inside("port_split");
        let hop = split.next_hop.as_ref().ok_or_else(|| inside(Flaw::new("next_hop", "is missing")))?;
        let matching = NextHopSpec::parse(hop, key).and_then(|hop| lone(hop.hop, "interface"));
        let matching = matching.map_err(|flaw| inside(flaw.inside("next_hop")))?;
        if matching == others {
            return Err(inside(Flaw::new("next_hop", "is the way of all other ports, too")));
        }
        let choice = fields::choice("without_peer", split.without_peer, PortSplitFallback::NextHops);
        let drop_without_peer = choice.map_err(inside)? == PortSplitFallback::Drop;
        Ok(Self { ports: ports(&split.ports).map_err(inside)?, matching, others, drop_without_peer })
    }

    pub(super) fn to_api(&self, route_vrf: &Name) -> PortSplit {
        let fallback =
            if self.drop_without_peer { PortSplitFallback::Drop } else { PortSplitFallback::Unspecified };
        PortSplit {
            ports: self.ports.iter().map(ToString::to_string).collect(),
            next_hop: Some(self.matching.to_api(route_vrf)),
            without_peer: fallback.into(),
        }
    }
}

/// Ports as they were written, sorted.
fn ports(texts: &[String]) -> Result<Arc<[PortRange]>, Flaw> {
    if texts.is_empty() {
        return Err(Flaw::new("ports", "are missing").remedy("name some, as in \"tcp:4444-20000\""));
    }
    if texts.len() > MAX_PORT_RANGES {
        let text = format!("are {} ranges; {MAX_PORT_RANGES} are allowed", texts.len());
        return Err(Flaw::new("ports", text));
    }
    let one = |(at, text): (usize, &String)| {
        text.parse().map_err(|error| Flaw::new(format!("ports[{at}]"), format!("{error}")))
    };
    let mut ranges = texts.iter().enumerate().map(one).collect::<Result<Vec<PortRange>, _>>()?;
    ranges.sort_unstable();
    PortSet::new(&ranges)
        .map_err(|error| Flaw::new("ports", error.to_string()).remedy("name each port once"))?;
    Ok(ranges.into())
}

#[cfg(test)]
mod tests {
    use api::v1::{NextHop, Route, RouteAction};

    use super::*;
    use crate::model::spec::RouteSpec;

    fn hop(address: &str, interface: &str, vrf: &str, weight: u32) -> NextHop {
        NextHop { address: address.into(), interface: interface.into(), vrf: vrf.into(), weight }
    }

    fn route(next_hops: Vec<NextHop>) -> Route {
        Route { prefix: "10.0.0.0/8".into(), next_hops, ..Route::default() }
    }

    fn split(ports: &[&str], next_hop: Option<NextHop>) -> PortSplit {
        let ports = ports.iter().map(ToString::to_string).collect();
        PortSplit { ports, next_hop, ..PortSplit::default() }
    }

    #[test]
    fn a_port_split_comes_back_with_its_ports_in_order() {
        let matching = Some(hop("10.1.0.1", "b", "", 0));
        for fallback in [PortSplitFallback::Unspecified, PortSplitFallback::Drop] {
            let port_split = Some(PortSplit {
                without_peer: fallback.into(),
                ..split(&["udp:6081", "tcp:4444-20000", "tcp:80"], matching.clone())
            });
            let asked = Route { port_split, ..route(vec![hop("", "a", "", 0)]) };
            let spec = RouteSpec::parse(&asked).unwrap();
            let back = spec.to_api();
            assert_eq!(back.port_split.as_ref().unwrap().ports, ["tcp:80", "tcp:4444-20000", "udp:6081"]);
            assert_eq!(RouteSpec::parse(&back).unwrap(), spec);
            assert_eq!(back.next_hops, asked.next_hops);
        }
    }

    #[test]
    fn each_bad_field_of_a_port_split_is_named() {
        let (a, b) = (hop("", "a", "", 0), hop("", "b", "", 0));
        let good = || split(&["tcp:80"], Some(b.clone()));
        for (next_hops, split, field) in [
            (vec![a.clone(), b.clone()], good(), "next_hops"),
            (vec![hop("10.1.0.1", "", "", 0)], good(), "next_hops[0].interface"),
            (vec![b.clone()], good(), "port_split.next_hop"),
            (vec![a.clone()], split(&["tcp:80"], None), "port_split.next_hop"),
            (
                vec![a.clone()],
                split(&["tcp:80"], Some(hop("", "", "red", 0))),
                "port_split.next_hop.interface",
            ),
            (
                vec![a.clone()],
                split(&["tcp:80"], Some(hop("fd00::1", "b", "", 0))),
                "port_split.next_hop.address",
            ),
            (vec![a.clone()], split(&[], Some(b.clone())), "port_split.ports"),
            (vec![a.clone()], split(&["tcp:1", "tcp:x"], Some(b.clone())), "port_split.ports[1]"),
            (vec![a.clone()], split(&["tcp:1-5", "tcp:5"], Some(b.clone())), "port_split.ports"),
            (vec![a.clone()], PortSplit { without_peer: 7, ..good() }, "port_split.without_peer"),
        ] {
            let asked = Route { port_split: Some(split), ..route(next_hops) };
            assert_eq!(RouteSpec::parse(&asked).unwrap_err().field, field, "{asked:?}");
        }
        let asked = Route {
            action: RouteAction::Blackhole.into(),
            port_split: Some(good()),
            prefix: "10.0.0.0/8".into(),
            ..Route::default()
        };
        assert_eq!(RouteSpec::parse(&asked).unwrap_err().field, "port_split");
    }
}
