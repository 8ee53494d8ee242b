//! An interface as workers see it.

use std::net::IpAddr;
use std::sync::Arc;

use api::v1::{GeneveMode, MemifMode, ReversePathFilter, TapMode, VlanTag};
use features::bridge::control::{BridgeConfig, Place, StaticMac};
use features::interface::control::EndsError;
use features::interface::{Interface, InterfaceAddress, Layer2, LinkMode, Rpf, VlanTags};
use features::tunnel::{Dscp, Encapsulation, Tunnel};
use graph::arc::Arcs;
use graph::plan::{Plan, PlanError};
use graph::port::IfIndex;
use wire::MacAddr;

use super::directory::{Bridge, Inventory};
use super::registry::Entry;
use crate::model::Name;
use crate::model::spec::{InterfaceSpec, IpRange, L2, MacTarget, PortSpec, TunnelFormat};

/// The interface's entry in the table of interfaces; sub-interfaces are filled in by `interface::control::stack`.
pub(super) fn interface(inventory: &Inventory, entry: &Entry) -> Interface {
    let spec = &entry.spec;
    let address = |net: &ipnet::IpNet| InterfaceAddress { address: net.addr(), prefix_len: net.prefix_len() };
    Interface {
        exists: true,
        up: spec.admin_up,
        mode: link_mode(spec),
        punt_inject: matches!(&spec.port, PortSpec::Memif(memif) if memif.mode == MemifMode::PuntInject),
        mac: entry.mac,
        mtu: inventory.mtu(spec) as u16,
        vrf: inventory.vrf_index(&spec.vrf),
        layer2: layer2(inventory, spec),
        rpf: match spec.rpf {
            ReversePathFilter::Loose => Rpf::Loose,
            ReversePathFilter::Strict => Rpf::Strict,
            _ => Rpf::Off,
        },
        vlan: vlan(inventory, spec),
        tunnel: tunnel(inventory, spec),
        sub_interfaces: Arc::default(),
        addresses: Arc::new(spec.addresses.iter().map(address).collect()),
        proxy_ranges: ranges(&spec.proxy_arp),
        allowed_sources: ranges(&spec.allowed_sources),
        name: spec.name.to_string().into(),
    }
}

fn ranges(all: &[IpRange]) -> Arc<Vec<(IpAddr, IpAddr)>> {
    Arc::new(all.iter().map(|range| (range.first, range.last)).collect())
}

/// What frames of the interface begin with.
pub(super) fn link_mode(spec: &InterfaceSpec) -> LinkMode {
    match &spec.port {
        PortSpec::Memif(memif) if matches!(memif.mode, MemifMode::Ip | MemifMode::PuntInject) => LinkMode::Ip,
        PortSpec::Tap(tap) if tap.mode == TapMode::Tun => LinkMode::Ip,
        PortSpec::Tunnel(tunnel) if tunnel.format == TunnelFormat::Geneve(GeneveMode::Ip) => LinkMode::Ip,
        _ => LinkMode::Ethernet,
    }
}

fn layer2(inventory: &Inventory, spec: &InterfaceSpec) -> Layer2 {
    match &spec.l2 {
        None => Layer2::None,
        Some(L2::CrossConnect(other)) => {
            inventory.registry.index(other).map_or(Layer2::None, |peer| Layer2::CrossConnect { peer })
        }
        Some(L2::Bridge { name, bvi, split_horizon_group, .. }) => Layer2::Bridge {
            bridge: inventory.bridge_index(name),
            split_horizon_group: *split_horizon_group as u8,
            bvi: *bvi,
        },
    }
}

fn vlan(inventory: &Inventory, spec: &InterfaceSpec) -> Option<(u16, VlanTags)> {
    let PortSpec::Vlan(vlan) = &spec.port else { return None };
    let outer_type = if vlan.outer_tag == VlanTag::Dot1ad { 0x88a8 } else { 0x8100 };
    let tags = VlanTags { outer_type, outer: vlan.outer_id, inner: vlan.inner_id.unwrap_or_default() };
    Some((inventory.registry.index(&vlan.parent)?, tags))
}

fn tunnel(inventory: &Inventory, spec: &InterfaceSpec) -> Option<Tunnel> {
    let PortSpec::Tunnel(tunnel) = &spec.port else { return None };
    Some(Tunnel {
        encapsulation: match tunnel.format {
            TunnelFormat::Vxlan => Encapsulation::Vxlan,
            TunnelFormat::Geneve(_) => Encapsulation::Geneve,
        },
        local: tunnel.local,
        remote: tunnel.remote,
        vni: tunnel.vni,
        port: tunnel.port,
        vrf: inventory.vrf_index(&tunnel.underlay_vrf),
        ttl: tunnel.ttl,
        dscp: tunnel.dscp.map_or(Dscp::Copied, Dscp::Fixed),
        checksum: tunnel.udp_checksum,
    })
}

/// A bridge as the features know it. Fixed addresses at interfaces that aren't there are left out.
pub(super) fn bridge(inventory: &Inventory, bridge: &Bridge) -> BridgeConfig {
    let spec = &bridge.spec;
    let fixed = spec.static_macs.iter().filter_map(|fixed| {
        let place = match &fixed.target {
            MacTarget::Drop => Place::Blocked,
            MacTarget::Member(name) => Place::Interface(inventory.registry.index(name)?),
        };
        Some(StaticMac { mac: MacAddr(fixed.mac.0), place })
    });
    BridgeConfig {
        name: spec.name.to_string().into(),
        learn: spec.learn,
        flood: spec.flood,
        flood_unknown_unicast: spec.flood_unknown_unicast,
        forward: spec.forward,
        arp_termination: spec.arp_termination,
        mac_age: spec.mac_age.map_or(0, |age| age.as_secs() as u32),
        learn_limit: spec.learn_limit,
        max_macs: spec.max_macs,
        members_max_macs: members_max_macs(inventory, &spec.name).collect(),
        static_macs: fixed.collect(),
        moves: bridge.moves.clone(),
    }
}

/// Members of a bridge with a limit of their own.
fn members_max_macs<'a>(
    inventory: &'a Inventory,
    bridge: &'a Name,
) -> impl Iterator<Item = (IfIndex, u32)> + 'a {
    inventory.registry.iter().filter_map(move |(index, entry)| match &entry.spec.l2 {
        Some(L2::Bridge { name, max_macs: Some(limit), .. }) if name == bridge => Some((index, *limit)),
        _ => None,
    })
}

/// Sets the interface's ways along the network layers' arcs: the reverse path filter where it is on, the sessions of what an engine sends back where one is
/// behind it (`returns`), sessions where they are a tenant's or outside, the memory of flows where a port split leads to them, the proxy of IPv6 neighbours where there are some, then the lookup.
pub(super) fn set_unicast(
    plan: &Plan,
    arcs: &mut Arcs,
    index: IfIndex,
    interface: &Interface,
    (sessions, returns, split): (bool, bool, bool),
) -> Result<bool, EndsError> {
    let mut plain = false;
    for (arc, filter, engine, session, learn, lookup) in [
        (
            "ip4-unicast",
            "ip4-rpf",
            "ip4-redirect-input",
            "ip4-session-input",
            "ip4-port-split-learn",
            "ip4-lookup",
        ),
        (
            "ip6-unicast",
            "ip6-rpf",
            "ip6-redirect-input",
            "ip6-session-input",
            "ip6-port-split-learn",
            "ip6-lookup",
        ),
    ] {
        let number = plan.arc(arc).ok_or_else(|| PlanError::UnknownArc { arc: arc.into() })?;
        let proxies = arc == "ip6-unicast" && interface.proxy_ranges.iter().any(|range| range.0.is_ipv6());
        let features = [
            (interface.rpf != Rpf::Off, filter),
            (returns, engine),
            (sessions, session),
            (split, learn),
            (proxies, "ip6-nd-proxy"),
        ];
        let features: Vec<&str> = features.into_iter().filter(|on| on.0).map(|on| on.1).collect();
        plain |= features.is_empty();
        let chain = if interface.up { plan.chain(arc, &features, lookup)? } else { Vec::new() };
        arcs.set(number, index, &chain)?;
    }
    Ok(plain)
}
