//! The forwarding tables.

use api::v1::{FibEntry, FibPath, FibSource, RouteAction};
use features::ip::control::{ForwardingError, Origin, Path, Prefix, RouteState, RouteView, Step, Via};
use ipnet::IpNet;

use super::super::core::Core;
use super::super::directory::Inventory;
use super::super::start::Shared;
use crate::dataplane::{FibQuery, FibSelection, InspectError};

/// Routes looked at before others may have the lock: a fraction of a millisecond's work.
const PORTION: usize = 1000;

/// Gives the routes asked for to `each`, until that returns false.
///
/// `each` may block as long as its reader likes: the lock is never held meanwhile. A route that goes while the list is
/// shown may be missing.
pub(super) fn entries(
    shared: &Shared,
    query: &FibQuery,
    each: &mut dyn FnMut(FibEntry) -> bool,
) -> Result<(), InspectError> {
    let mut list = asked_for(&shared.core(), &shared.directory.get(), query)?;
    list.sort_unstable();
    for portion in list.chunks(PORTION) {
        let shown = {
            let (core, inventory) = (shared.core(), shared.directory.get());
            let Some(vrf) = inventory.vrfs.get(&query.vrf).copied() else { return Ok(()) };
            shown_of(&core, &inventory, vrf, query, portion)
        };
        if !shown.into_iter().all(&mut *each) {
            break;
        }
    }
    Ok(())
}

/// Which routes are asked for, in no order.
fn asked_for(
    core: &Core,
    inventory: &Inventory,
    query: &FibQuery,
) -> Result<Vec<(Prefix, Origin)>, InspectError> {
    let missing = || InspectError::NotFound(format!("there is no VRF {}: see `quiver get vrf`", query.vrf));
    let vrf = inventory.vrfs.get(&query.vrf).copied().ok_or_else(missing)?;
    let forwarding = &core.routing.forwarding;
    let invalid = |error: ForwardingError| InspectError::Invalid(error.to_string());
    let id = |route: RouteView<'_>| (route.prefix, route.origin);
    Ok(match query.selection {
        FibSelection::All => {
            let mut list: Vec<_> = forwarding.routes(vrf).map_err(invalid)?.map(id).collect();
            // Several interfaces may be connected to one network.
            list.sort_unstable();
            list.dedup();
            list
        }
        FibSelection::Exact(net) => {
            let prefix = prefix(net)?;
            let routes = forwarding.routes_to(vrf, prefix).map_err(invalid)?;
            if routes.is_empty() {
                return Err(InspectError::NotFound(format!("VRF {} has no route to {net}", query.vrf)));
            }
            let mut list: Vec<_> = routes.into_iter().map(id).collect();
            list.dedup();
            list
        }
        FibSelection::Lookup(address) => {
            let steps = forwarding.explain(vrf, address).map_err(invalid)?;
            let Some(Step::Route { prefix, origin, .. }) = steps.first().cloned() else {
                let text = format!("VRF {} has no route to {address}", query.vrf);
                return Err(InspectError::NotFound(text));
            };
            vec![(prefix, origin)]
        }
    })
}

fn shown_of(
    core: &Core,
    inventory: &Inventory,
    vrf: u16,
    query: &FibQuery,
    ids: &[(Prefix, Origin)],
) -> Vec<FibEntry> {
    let routes = ids.iter().flat_map(|(prefix, origin)| {
        let all = core.routing.forwarding.routes_to(vrf, *prefix).unwrap_or_default();
        let is_looked_up = matches!(query.selection, FibSelection::Lookup(_));
        all.into_iter().filter(move |route| route.origin == *origin && (route.used || !is_looked_up))
    });
    routes.map(|route| entry(core, inventory, query, &route)).collect()
}

fn prefix(net: IpNet) -> Result<Prefix, InspectError> {
    Prefix::covering(net.network(), net.prefix_len())
        .map_err(|error| InspectError::Invalid(error.to_string()))
}

fn entry(core: &Core, inventory: &Inventory, query: &FibQuery, route: &RouteView<'_>) -> FibEntry {
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
            Origin::Connected | Origin::LinkLocal => FibSource::Connected,
            Origin::Static => FibSource::Static,
            Origin::Neighbour => FibSource::Neighbor,
        }
        .into(),
        action: action.into(),
        paths: match first {
            Some(Via::PortSplit(number)) => split_ways(core, number)
                .map(|(via, detail)| FibPath { detail, ..shown(inventory, route, &Path::from(via)) })
                .collect(),
            _ => paths.map(|path| shown(inventory, route, path)).collect(),
        },
    }
}

/// Both ways of a port split, with the ports that take them.
fn split_ways(core: &Core, number: u32) -> impl Iterator<Item = (Via, String)> {
    let rule = core.routing.forwarding.split_rule(number).cloned();
    rule.into_iter().flat_map(|rule| {
        let ports: Vec<String> = rule.ports.iter().map(ToString::to_string).collect();
        let matching = rule.matching.map(|via| (via, ports.join(" ")));
        matching.into_iter().chain([(rule.others, "other ports".into())])
    })
}

fn shown(inventory: &Inventory, route: &RouteView<'_>, path: &Path) -> FibPath {
    let (address, interface, detail) = match path.via {
        Via::Address { address, interface } => (address.to_string(), interface, String::new()),
        Via::Interface(index) => (String::new(), Some(index), "attached".into()),
        Via::Local(index) => (String::new(), Some(index), "local".into()),
        Via::Vrf(vrf) => {
            let name =
                inventory.vrfs.iter().find(|(_, index)| **index == vrf).map(|(name, _)| name.to_string());
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
        interface: interface.map(|index| inventory.registry.name(index)).unwrap_or_default(),
        weight: path.weight,
        resolved: route.state == RouteState::Active,
        detail,
    }
}
