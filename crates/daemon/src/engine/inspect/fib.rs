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
    // Not before others have the lock again: there may be millions. Several interfaces may be connected to one network.
    list.sort_unstable();
    list.dedup();
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

/// Which routes are asked for, in no order, and some perhaps twice.
fn asked_for(
    core: &Core,
    inventory: &Inventory,
    query: &FibQuery,
) -> Result<Vec<(Prefix, Origin)>, InspectError> {
    let missing = || InspectError::NotFound(format!("there is no VRF {}: see `quiver get vrf`", query.vrf));
    let vrf = inventory.vrfs.get(&query.vrf).copied().ok_or_else(missing)?;
    let forwarding = &core.routing.forwarding;
    let invalid = |error: ForwardingError| InspectError::Invalid(error.to_string());
    Ok(match query.selection {
        FibSelection::All => forwarding.prefixes(vrf).map_err(invalid)?.collect(),
        FibSelection::Exact(net) => {
            let prefix = prefix(net)?;
            let routes = forwarding.routes_to(vrf, prefix).map_err(invalid)?;
            if routes.is_empty() {
                return Err(InspectError::NotFound(format!("VRF {} has no route to {net}", query.vrf)));
            }
            routes.into_iter().map(|route| (route.prefix, route.origin)).collect()
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
    let ways = core.routing.forwarding.ways(route);
    let paths = ways.iter().filter(|(path, _)| action == RouteAction::Forward || !path.via.is_action());
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
            Some(Via::PortSplit(number)) => split_ways(core, number, &ways)
                .into_iter()
                .map(|(way, ports)| {
                    let path = shown(inventory, route, &way);
                    let said = if path.resolved { String::new() } else { format!(", {}", path.detail) };
                    FibPath { detail: ports + &said, ..path }
                })
                .collect(),
            _ => paths.map(|way| shown(inventory, route, way)).collect(),
        },
    }
}

/// A next hop, and whether it leads somewhere.
type Way = (Path, RouteState);

/// Both ways of a port split, with the ports that take them; that of all others last.
fn split_ways(core: &Core, number: u32, ways: &[Way]) -> Vec<(Way, String)> {
    let ports = core.routing.forwarding.split_rule(number).map(|rule| rule.ports.iter());
    let ports: Vec<String> = ports.into_iter().flatten().map(ToString::to_string).collect();
    let said = ["other ports".to_owned(), ports.join(" ")];
    let mut all: Vec<_> = ways.iter().copied().zip(said).collect();
    all.reverse();
    all
}

fn shown(inventory: &Inventory, route: &RouteView<'_>, (path, state): &Way) -> FibPath {
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
    let detail = match *state {
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
        resolved: *state == RouteState::Active,
        detail,
    }
}
