//! The forwarding tables.

use api::v1::{FibEntry, FibPath, FibSource, RouteAction};
use features::ip::control::{Origin, Path, Prefix, RouteState, RouteView, Via};
use ipnet::IpNet;

use super::super::core::Core;
use crate::dataplane::{FibQuery, FibSelection, InspectError};

pub(super) fn entries(
    core: &Core,
    query: &FibQuery,
    each: &mut dyn FnMut(FibEntry) -> bool,
) -> Result<(), InspectError> {
    let missing = || InspectError::NotFound(format!("there is no VRF {}: see `quiver get vrf`", query.vrf));
    let vrf = core.vrfs.get(&query.vrf).copied().ok_or_else(missing)?;
    let forwarding = &core.routing.forwarding;
    let invalid = |error: features::ip::control::ForwardingError| InspectError::Invalid(error.to_string());
    let routes = match query.selection {
        FibSelection::All => {
            let mut routes: Vec<RouteView<'_>> = forwarding.routes(vrf).map_err(invalid)?.collect();
            routes.sort_by_key(|route| (route.prefix, route.origin));
            routes
        }
        FibSelection::Exact(net) => {
            let routes = forwarding.routes_to(vrf, prefix(net)?).map_err(invalid)?;
            if routes.is_empty() {
                return Err(InspectError::NotFound(format!("VRF {} has no route to {net}", query.vrf)));
            }
            routes
        }
        FibSelection::Lookup(address) => {
            let covering =
                forwarding.routes(vrf).map_err(invalid)?.filter(|route| route.prefix.contains(address));
            let longest = covering.filter(|route| route.used).max_by_key(|route| route.prefix.len());
            let none = || InspectError::NotFound(format!("VRF {} has no route to {address}", query.vrf));
            vec![longest.ok_or_else(none)?]
        }
    };
    for route in &routes {
        if !each(entry(core, query, route)) {
            break;
        }
    }
    Ok(())
}

fn prefix(net: IpNet) -> Result<Prefix, InspectError> {
    Prefix::covering(net.network(), net.prefix_len())
        .map_err(|error| InspectError::Invalid(error.to_string()))
}

fn entry(core: &Core, query: &FibQuery, route: &RouteView<'_>) -> FibEntry {
    let first = route.paths.first().map(|path| path.via);
    let action = match first {
        Some(Via::Blackhole) => RouteAction::Blackhole,
        Some(Via::Unreachable) => RouteAction::Unreachable,
        Some(Via::Prohibit) => RouteAction::Prohibit,
        _ => RouteAction::Forward,
    };
    let paths = route.paths.iter().filter(|path| action == RouteAction::Forward || !path.via.is_action());
    FibEntry {
        vrf: query.vrf.to_string(),
        prefix: route.prefix.to_string(),
        source: match route.origin {
            Origin::Local => FibSource::Local,
            Origin::Connected => FibSource::Connected,
            Origin::Static => FibSource::Static,
            Origin::Neighbour => FibSource::Neighbor,
        }
        .into(),
        action: action.into(),
        paths: paths.map(|path| shown(core, route, path)).collect(),
    }
}

fn shown(core: &Core, route: &RouteView<'_>, path: &Path) -> FibPath {
    let (address, interface, detail) = match path.via {
        Via::Address { address, interface } => (address.to_string(), interface, String::new()),
        Via::Interface(index) => (String::new(), Some(index), "attached".into()),
        Via::Local(index) => (String::new(), Some(index), "local".into()),
        Via::Vrf(vrf) => {
            let name = core.vrfs.iter().find(|(_, index)| **index == vrf).map(|(name, _)| name.to_string());
            (String::new(), None, format!("lookup in VRF {}", name.unwrap_or_default()))
        }
        other => (String::new(), None, other.to_string()),
    };
    let detail = match route.state {
        RouteState::Active if route.used => detail,
        RouteState::Active => {
            format!("{detail} (another route to this prefix is preferred)").trim_start().into()
        }
        RouteState::Pending(why) => format!("pending: {why}"),
    };
    FibPath {
        address,
        interface: interface.map(|index| core.registry.name(index)).unwrap_or_default(),
        weight: path.weight,
        resolved: route.state == RouteState::Active,
        detail,
    }
}
