//! Quiver's features: one folder each, with its nodes, its configuration and its tests.
//!
//! | folder | what |
//! |---|---|
//! | [`bridge`] | bridge domains and their routed legs |
//! | [`cross_connect`] | interfaces joined in pairs |
//! | [`ethernet`] | where received packets enter the network layers |
//! | [`forward`] | ordinary IP packets, forwarded in one step |
//! | [`fragment`] | fragmentation |
//! | [`icmp`] | ICMP: errors that nodes ask for, echo |
//! | [`interface`] | what workers know of interfaces |
//! | [`ip`] | next hops, forwarding tables and VRFs, for both IP versions |
//! | [`ip4`] | IPv4 forwarding |
//! | [`ip6`] | IPv6 forwarding |
//! | [`local`] | packets to our own addresses |
//! | [`neighbour`] | ARP and IPv6 neighbour discovery |
//! | [`policer`] | how much may come |
//! | [`port_split`] | two interfaces with one address, told apart by port |
//! | `reassembly` | fragments put together |
//! | [`session`] | tenants and their sessions |
//! | [`tunnel`] | VXLAN and Geneve |
//! | [`vlan`] | VLAN sub-interfaces |
//!
//! A node is one file and one line in its folder's `NODES`; a folder is one line in [`nodes`]. What ports bring
//! (input and output nodes) is added by whoever builds the graph.

#![forbid(unsafe_code)]

// As services that are written elsewhere call it: tests have the sample's.
#[cfg(test)]
extern crate self as features;

pub mod bridge;
pub mod cross_connect;
pub mod ethernet;
pub mod forward;
pub mod fragment;
pub mod icmp;
pub mod interface;
pub mod ip;
pub mod ip4;
pub mod ip6;
pub mod local;
pub mod neighbour;
pub mod policer;
pub mod port_split;
mod reassembly;
pub mod session;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod tiered;
pub mod tunnel;
pub mod vlan;

use graph::NodeSpec;
use graph::arc::ArcSpec;
use graph::publish::Schema;

/// All nodes of all features.
#[must_use]
pub fn nodes() -> Vec<NodeSpec> {
    let mut nodes = Vec::new();
    nodes.extend_from_slice(ethernet::NODES);
    nodes.extend_from_slice(forward::NODES);
    nodes.extend_from_slice(policer::NODES);
    nodes.extend_from_slice(vlan::NODES);
    nodes.extend_from_slice(tunnel::NODES);
    nodes.extend_from_slice(cross_connect::NODES);
    nodes.extend_from_slice(bridge::NODES);
    nodes.extend_from_slice(ip4::NODES);
    nodes.extend_from_slice(ip6::NODES);
    nodes.extend_from_slice(fragment::NODES);
    nodes.extend_from_slice(neighbour::NODES);
    nodes.extend_from_slice(icmp::NODES);
    nodes.extend_from_slice(local::NODES);
    nodes.extend_from_slice(port_split::NODES);
    nodes.extend_from_slice(session::NODES);
    nodes.extend(session::SERVICES.iter().map(|service| service.node));
    let added = session::order().services().iter().map(|service| service.node);
    let is_here = |name| session::SERVICES.iter().any(|service| service.node.name == name);
    nodes.extend(added.filter(|node| !is_here(node.name)));
    nodes
}

/// All feature arcs besides the engine's own.
#[must_use]
pub fn arcs() -> Vec<ArcSpec> {
    vec![
        ArcSpec { name: "ip4-unicast", help: "IPv4 packets with a valid header, before their lookup." },
        ArcSpec { name: "ip6-unicast", help: "IPv6 packets with a valid header, before their lookup." },
        ArcSpec {
            name: "session-services",
            help: "Packets of sessions; which services they pass, their session says.",
        },
    ]
}

/// All parts of the tables that features read.
#[must_use]
pub fn schema() -> Schema {
    let mut schema = Schema::default();
    schema.part::<interface::Interfaces>();
    schema.part::<tunnel::Tunnels>();
    schema.part::<bridge::Bridges>();
    schema.part::<ip::NextHops>();
    schema.part::<ip::Fibs>();
    schema.part::<ip::LinkLocals>();
    schema.part::<policer::Policers>();
    schema.part::<session::Tenants>();
    schema.local::<session::Sessions>();
    schema
}
