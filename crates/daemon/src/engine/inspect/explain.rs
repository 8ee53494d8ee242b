//! What a packet would meet: policer, checks and filter of its interface, tenant, session, services, routes.

use std::collections::HashMap;

use api::v1::{
    AclMatchRequest, ExplainRequest, ExplainResponse, ExplainStep, ExplainVerdict, Kind, ObjectRef,
};
use features::interface::{Interfaces, Rpf};
use features::ip::control::Step as RouteStep;
use features::ip::{Fibs, Followed, LinkLocals, NextHopKind, NextHops, follow, leads_back};
use features::neighbour::direct_way;
use features::session::explain::{Explained, Imagined, Known, Object, Outcome, Payload, Step};
use features::tunnel::Tunnel;
use graph::port::IfIndex;
use graph::publish::Key as Part;
use memory::clock::nanoseconds;
use std::sync::Arc;
use tables::session::Key;
use wire::IpProtocol;

use super::super::acls;
use super::super::core::Core;
use super::super::directory::{Inventory, Tenant};
use super::super::port;
use super::super::start::Shared;
use super::interfaces::link;
use super::{sessions, way};
use crate::dataplane::InspectError;
use crate::model::spec::L2;

/// What workers know, and what else is looked at.
struct Tables {
    known: Known,
    links: Arc<LinkLocals>,
    interfaces: Arc<Interfaces>,
}

/// What a packet would meet, and what would become of it.
pub(super) fn explain(shared: &Shared, request: &ExplainRequest) -> Result<ExplainResponse, InspectError> {
    let inventory = shared.directory.get();
    let tenant = tenant(&inventory, &request.tenant)?;
    let tables = tables(shared, &shared.core())?;
    let packet = packet(&inventory, &tables, tenant, request)?;
    let mut answer =
        ExplainResponse { interface: inventory.registry.name(packet.interface), ..Default::default() };
    let interface = tables.interfaces.get(packet.interface);
    if let Some(policer) =
        inventory.registry.get(packet.interface).and_then(|entry| entry.spec.policer.as_ref())
    {
        let fates = inventory.policers.get(policer).map(|policer| features::policer::fates(&policer.profile));
        let found = format!("meters what the interface receives: {}", fates.unwrap_or_default());
        answer.steps.push(step("interface-policer", Some((Kind::Policer, policer.to_string())), found));
    }
    if let Some(answer) = way::arrival(shared, &mut answer, &packet) {
        return Ok(answer);
    }
    let version = if packet.source.0.is_ipv4() { 4 } else { 6 };
    if interface.rpf != Rpf::Off {
        let node = format!("ip{version}-rpf");
        let (fibs, hops) = (&*tables.known.fibs, &*tables.known.hops);
        let source = packet.source.0;
        let verdict = leads_back((fibs, hops), (packet.interface, interface), packet.vrf, source);
        let found = match verdict {
            Ok(()) => format!("packets from {source} may come in by {}", answer.interface),
            Err(_) => format!("packets from {source} may not come in by {}", answer.interface),
        };
        answer.steps.push(step(&node, None, found));
        if let Err(reason) = verdict {
            return Ok(dropped(shared, answer, &packet, (&node, reason)));
        }
    }
    let owner = packet.owner(&tables.known.tenants);
    let known = tables.known.clone();
    let worker = shared.pool.workers().iter().find(|worker| worker.number() == owner as usize);
    let worker = worker.ok_or_else(|| InspectError::Busy(format!("there is no worker {owner}")))?;
    let explained = sessions::ask(shared, worker, move |sessions| sessions.explain(&known, owner, &packet))?;
    let names = sessions::names(&inventory);
    answer.tenant = explained.tenant.and_then(|number| names.get(&number).cloned()).unwrap_or_default();
    answer.session = explained.session.as_ref().map(|seen| {
        let tenant = names.get(&seen.session.tenant).map_or("", String::as_str);
        sessions::state(seen, tenant, owner as usize, nanoseconds())
    });
    answer.steps.extend(explained.steps.iter().map(|step| of_sessions(&inventory, &names, step)));
    let [source, destination] = explained.ends;
    let gone = Imagined { source, destination, ..packet };
    if let Outcome::Dropped { node, reason } = explained.outcome {
        return Ok(dropped(shared, answer, &gone, (node, reason)));
    }
    routed(shared, &inventory, &tables, answer, &packet, &explained)
}

/// The tenant of that name; `None`: none is said.
fn tenant<'i>(inventory: &'i Inventory, name: &str) -> Result<Option<&'i Tenant>, InspectError> {
    match (name, inventory.tenants.get(name)) {
        ("", _) => Ok(None),
        (_, Some(tenant)) => Ok(Some(tenant)),
        _ => Err(InspectError::NotFound(format!("there is no tenant {name}: see `quiver get tenant`"))),
    }
}

fn tables(shared: &Shared, core: &Core) -> Result<Tables, InspectError> {
    let (published, schema) = (core.publisher.current(), &shared.plan.schema);
    let missing = || InspectError::NotFound("this graph forwards nothing".into());
    let fibs: Part<Fibs> = schema.key().ok_or_else(missing)?;
    let hops: Part<NextHops> = schema.key().ok_or_else(missing)?;
    let links: Part<LinkLocals> = schema.key().ok_or_else(missing)?;
    Ok(Tables {
        known: Known {
            tenants: published.share(core.keys.tenants),
            fibs: published.share(fibs),
            hops: published.share(hops),
            plan: Arc::clone(&shared.plan),
            now: nanoseconds(),
        },
        links: published.share(links),
        interfaces: published.share(core.keys.interfaces),
    })
}

/// The packet that is asked about.
fn packet(
    inventory: &Inventory,
    tables: &Tables,
    tenant: Option<&Tenant>,
    request: &ExplainRequest,
) -> Result<Imagined, InspectError> {
    // Read as rules are asked.
    let said = AclMatchRequest {
        source: request.source.clone(),
        source_port: request.source_port,
        destination: request.destination.clone(),
        destination_port: request.destination_port,
        protocol: request.protocol.clone(),
        tcp_flags: request.tcp_flags.clone(),
        icmp_type: request.icmp_type,
        ..AclMatchRequest::default()
    };
    let question = acls::question(0, &said).map_err(|flaw| InspectError::Invalid(flaw.to_string()))?;
    let protocol = IpProtocol(question.protocol);
    let (mut source, mut destination) = (question.source, question.destination);
    let has_spi = Key::is_one_way(protocol.0);
    if matches!(protocol, IpProtocol::ICMP | IpProtocol::ICMPV6) {
        destination.1 = source.1;
    } else if protocol.has_ports() && destination.1 == 0 {
        let text = format!("port: protocol {} has ports: say which is asked, as in tcp/80", request.protocol);
        return Err(InspectError::Invalid(text));
    } else if has_spi {
        let Some(spi) = request.spi.filter(|spi| *spi > 0) else {
            let text =
                format!("spi: sessions of {0} have one: say which, as in {0}/0xc0ffee01", request.protocol);
            return Err(InspectError::Invalid(text));
        };
        (source.1, destination.1) = ((spi >> 16) as u16, spi as u16);
    }
    if request.spi.is_some() && !has_spi {
        return Err(InspectError::Invalid(format!(
            "spi: protocol {} has none: leave it out",
            request.protocol
        )));
    }
    let mut packet = Imagined {
        interface: 0,
        vrf: 0,
        protocol,
        source,
        destination,
        flags: question.flags,
        icmp: question.icmp,
        payload: Payload::new(&request.payload).ok_or_else(|| {
            InspectError::Invalid(format!("payload: {} bytes at most are looked at", Payload::MOST))
        })?,
    };
    packet.interface = entrance(inventory, tables, tenant, &packet, &request.interface)?;
    packet.vrf = tables.interfaces.get(packet.interface).vrf;
    Ok(packet)
}

/// Where the packet comes in.
fn entrance(
    inventory: &Inventory,
    tables: &Tables,
    tenant: Option<&Tenant>,
    packet: &Imagined,
    name: &str,
) -> Result<IfIndex, InspectError> {
    let invalid = |text: String| Err(InspectError::Invalid(text));
    let index = |name: &crate::model::Name| inventory.registry.index(name);
    let of_tenant = |tenant: &Tenant| -> Vec<IfIndex> {
        let spec = &tenant.spec;
        spec.interfaces.iter().chain(&spec.outside_interfaces).filter_map(index).collect()
    };
    let found = if name.is_empty() {
        let back =
            Followed { interface: 0, protocol: packet.protocol, ends: [packet.destination, packet.source] };
        let known = &tables.known;
        let hop = follow((&known.fibs, &known.hops, &tables.links), 0, &back).ok();
        let hop = hop.and_then(|hop| {
            match way::by_port(inventory, (&known.hops, &tables.interfaces), &back, &hop) {
                Some(decided) => decided.hop.ok(),
                None => Some(hop),
            }
        });
        let by_route = hop.filter(|hop| hop.kind != NextHopKind::Local).map(|hop| hop.tx_if);
        match tenant {
            Some(tenant) => {
                let its = of_tenant(tenant);
                by_route.filter(|index| its.contains(index)).or_else(|| its.first().copied())
            }
            None => by_route,
        }
    } else {
        let missing = || InspectError::NotFound(format!("there is no interface {name}"));
        Some(inventory.registry.find(name).ok_or_else(missing)?)
    };
    let Some(found) = found else {
        return match tenant {
            Some(tenant) => invalid(without_interface(inventory, tenant)),
            None => invalid(format!(
                "no route leads back to {} in VRF default: name the interface that the packet comes in by",
                packet.source.0
            )),
        };
    };
    let shown = inventory.registry.name(found);
    if let Some(tenant) = tenant.filter(|tenant| !of_tenant(tenant).contains(&found)) {
        return invalid(format!("interface {shown} is none of tenant {}'s", tenant.spec.name));
    }
    let spec = inventory.registry.get(found).map(|entry| &entry.spec);
    match spec.and_then(|spec| spec.l2.as_ref()) {
        Some(L2::Bridge { name, bvi: false, .. }) => invalid(format!(
            "interface {shown} is a member of bridge {name}, which goes by Ethernet addresses: name the bridge's routed leg"
        )),
        Some(L2::CrossConnect(other)) => {
            invalid(format!("interface {shown} is joined with {other}: all that it receives leaves there"))
        }
        _ if spec.is_some_and(|spec| !spec.admin_up) => {
            invalid(format!("interface {shown} is down: nothing comes in by it"))
        }
        _ => Ok(found),
    }
}

/// That a tenant has no interface, and who has those where its sessions begin, if it is somebody's class.
fn without_interface(inventory: &Inventory, tenant: &Tenant) -> String {
    let name = &tenant.spec.name;
    let has_it = |owner: &&Tenant| owner.spec.classes.iter().any(|class| class.tenant == *name);
    let mut owners: Vec<_> =
        inventory.tenants.values().filter(has_it).map(|owner| &*owner.spec.name).collect();
    owners.sort_unstable();
    match owners[..] {
        [] => format!("tenant {name} has no interface in force"),
        [owner] => format!(
            "tenant {name} has no interfaces of its own: its sessions begin at those of tenant {owner}, whose class it is; ask for that one"
        ),
        _ => format!(
            "tenant {name} has no interfaces of its own: its sessions begin at those of tenants {}, whose class it is; ask for one of these",
            owners.join(", ")
        ),
    }
}

/// The look-up of the destination, and what comes of it.
fn routed(
    shared: &Shared,
    inventory: &Inventory,
    tables: &Tables,
    mut answer: ExplainResponse,
    packet: &Imagined,
    explained: &Explained,
) -> Result<ExplainResponse, InspectError> {
    let [source, destination] = explained.ends;
    let gone = Imagined { source, destination, ..*packet };
    let node = match (explained.direct.is_some(), destination.0.is_ipv4()) {
        (false, true) => "ip4-lookup",
        (false, false) => "ip6-lookup",
        (true, true) => "ip4-direct",
        (true, false) => "ip6-direct",
    };
    let looked_up = explained.direct.unwrap_or(destination.0);
    let steps = shared.core().routing.forwarding.explain(packet.vrf, looked_up);
    let steps = steps.map_err(|error| InspectError::Invalid(error.to_string()))?;
    answer.steps.extend(steps.iter().map(|taken| of_routes(inventory, node, taken)));
    let followed = Followed { interface: packet.interface, protocol: packet.protocol, ends: explained.ends };
    let known = &tables.known;
    let found = match explained.direct {
        Some(neighbour) => direct_way(&known.fibs, &known.hops, packet.vrf, neighbour),
        None => follow((&known.fibs, &known.hops, &tables.links), packet.vrf, &followed),
    };
    let mut hop = match found {
        Ok(hop) => hop,
        Err(reason) => return Ok(dropped(shared, answer, &gone, (node, reason))),
    };
    if let Some(decided) = way::by_port(inventory, (&known.hops, &tables.interfaces), &followed, &hop) {
        let node = if looked_up.is_ipv4() { "ip4-port-split" } else { "ip6-port-split" };
        answer.steps.push(way::at_split(inventory, node, &followed, &decided));
        hop = match decided.hop {
            Ok(hop) => hop,
            Err(reason) => return Ok(dropped(shared, answer, &gone, (node, reason))),
        };
    }
    let verdict = match hop.kind {
        NextHopKind::Local => ExplainVerdict::Local,
        _ => ExplainVerdict::Forwarded,
    };
    answer.verdict = verdict.into();
    answer.out_interface = inventory.registry.name(hop.tx_if);
    if verdict == ExplainVerdict::Forwarded {
        let next = match hop.kind {
            NextHopKind::Glean => Some(looked_up),
            _ => hop.neighbour(),
        };
        answer.next_hop = next.map(|address| address.to_string()).unwrap_or_default();
        answer.resolved = hop.kind == NextHopKind::Rewrite;
        if let Some(tunnel) = &tables.interfaces.get(hop.tx_if).tunnel {
            answer.steps.extend(through(shared, inventory, &answer.out_interface, tunnel)?);
        }
        if let Some((node, why)) = link_down(shared, inventory, hop.tx_if) {
            let object = Some((Kind::Interface, answer.out_interface.clone()));
            answer.steps.push(step(node, object, format!("its link is down: {why}")));
            return Ok(dropped(shared, answer, &gone, (node, "link-down")));
        }
    }
    Ok(leaves(answer, &gone))
}

/// The output node of an interface whose link is down, and why it is.
fn link_down(shared: &Shared, inventory: &Inventory, index: IfIndex) -> Option<(&'static str, String)> {
    let entry = inventory.registry.get(index)?;
    let node = port::Kind::of(&entry.spec.port).output?;
    let (up, why) = link(shared, index, entry);
    (!up).then_some((node, why))
}

/// The way into the tunnel of an interface, and the look-up of its other end.
fn through(
    shared: &Shared,
    inventory: &Inventory,
    interface: &str,
    tunnel: &Tunnel,
) -> Result<Vec<ExplainStep>, InspectError> {
    let object = Some((Kind::Interface, interface.to_owned()));
    let entered = step(tunnel.encapsulation.output(), object, format!("goes into a tunnel: {tunnel}"));
    let node = if tunnel.remote.is_ipv4() { "ip4-lookup" } else { "ip6-lookup" };
    let looked = shared.core().routing.forwarding.explain(tunnel.vrf, tunnel.remote);
    let looked = looked.map_err(|error| InspectError::Invalid(error.to_string()))?;
    let looked = looked.iter().map(|taken| of_routes(inventory, node, taken));
    Ok(std::iter::once(entered).chain(looked).collect())
}

/// Source and destination as it goes on; without ports where it has none.
pub(super) fn leaves(answer: ExplainResponse, packet: &Imagined) -> ExplainResponse {
    ExplainResponse {
        out_source: packet.source.0.to_string(),
        out_source_port: packet.source.1.into(),
        out_destination: packet.destination.0.to_string(),
        out_destination_port: packet.destination.1.into(),
        ..answer
    }
}

pub(super) fn dropped(
    shared: &Shared,
    answer: ExplainResponse,
    packet: &Imagined,
    (node, reason): (&str, &str),
) -> ExplainResponse {
    let of_node = |at: u16| shared.plan.nodes[usize::from(at)].spec.name;
    let spec = shared.plan.drops.iter().find(|(at, spec)| of_node(*at) == node && spec.name == reason);
    let answer = ExplainResponse {
        verdict: ExplainVerdict::Dropped.into(),
        node: node.into(),
        reason: reason.into(),
        help: spec.map(|(_, spec)| spec.help.into()).unwrap_or_default(),
        ..answer
    };
    leaves(answer, packet)
}

pub(super) fn step(node: &str, object: Option<(Kind, String)>, found: String) -> ExplainStep {
    let object = object.map(|(kind, name)| ObjectRef::new(kind, name));
    ExplainStep { node: node.into(), object, found, ..ExplainStep::default() }
}

/// A step at sessions and their services, with names.
fn of_sessions(inventory: &Inventory, tenants: &HashMap<u16, String>, taken: &Step) -> ExplainStep {
    let object = taken.object.as_ref().map(|object| match object {
        Object::Tenant(number) => (Kind::Tenant, tenants.get(number).cloned().unwrap_or_default()),
        Object::Acl(name, _) => (Kind::Acl, name.to_string()),
        Object::NatPool(name) => (Kind::NatPool, name.to_string()),
        Object::Policer(name) => (Kind::Policer, name.to_string()),
        Object::Interface(index) => (Kind::Interface, inventory.registry.name(*index)),
        Object::Vip(context, protocol, endpoint) => {
            let is_it = |vip: &features::session::balance::control::VipConfig| {
                (vip.context, vip.protocol, vip.endpoint) == (*context, *protocol, *endpoint)
            };
            let vip = inventory.vips.iter().find(|(_, vip)| is_it(&vip.config));
            (Kind::Vip, vip.map(|(name, _)| name.to_string()).unwrap_or_default())
        }
    });
    let mut said = step(taken.node, object, taken.found.clone());
    if let Some(Object::Acl(name, Some(rule))) = &taken.object {
        said.rule = rule + 1;
        let list = inventory.acls.get(name).and_then(|list| list.config.rules.get(*rule as usize));
        said.rule_name = list.map(|rule| rule.name.to_string()).unwrap_or_default();
    }
    said
}

/// A step of the routes' look-up, with names.
fn of_routes(inventory: &Inventory, node: &str, taken: &RouteStep) -> ExplainStep {
    use features::ip::control::{Origin, RouteState, Via};
    let vrf_name = |vrf: u16| {
        let named = inventory.vrfs.iter().find(|(_, index)| **index == vrf);
        named.map(|(name, _)| name.to_string()).unwrap_or_default()
    };
    match taken {
        RouteStep::Route { vrf, prefix, origin } => {
            let vrf = vrf_name(*vrf);
            let object = (*origin == Origin::Static).then(|| (Kind::Route, format!("{vrf}/{prefix}")));
            step(node, object, format!("VRF {vrf}: {prefix}, {origin}"))
        }
        RouteStep::NoRoute { vrf } => step(node, None, format!("VRF {}: no route", vrf_name(*vrf))),
        RouteStep::Loop => step(node, None, taken.to_string()),
        RouteStep::Path { path, share: (held, all), state, .. } => {
            let interface = |index: IfIndex| inventory.registry.name(index);
            let mut found = match path.via {
                Via::Address { address, interface: Some(index) } => {
                    format!("to {address} by {}", interface(index))
                }
                Via::Address { address, interface: None } => format!("to {address}"),
                Via::Interface(index) => format!("by {}", interface(index)),
                Via::Local(index) => format!("an address of {}", interface(index)),
                Via::Vrf(vrf) => format!("looked up again in VRF {}", vrf_name(vrf)),
                other => other.to_string(),
            };
            if *all > 1 {
                found += &format!(", {held} of {all} flows");
            }
            if let RouteState::Pending(why) = state {
                found += &format!(", pending: {why}");
            }
            step(node, None, found)
        }
    }
}
