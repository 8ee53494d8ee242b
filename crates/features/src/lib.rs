//! Quiver's features: one folder each, with its nodes, its configuration and its tests.
//!
//! | folder | what |
//! |---|---|
//! | [`cross_connect`] | interfaces joined in pairs |
//! | [`ethernet`] | where received packets enter the network layers |
//! | [`interface`] | what workers know of interfaces |
//! | [`ip`] | next hops, forwarding tables and VRFs, for both IP versions |
//! | [`vlan`] | VLAN sub-interfaces |
//!
//! A node is one file and one line in its folder's `NODES`; a folder is one line in [`nodes`]. What ports bring
//! (input and output nodes) is added by whoever builds the graph.

#![forbid(unsafe_code)]

pub mod cross_connect;
pub mod ethernet;
pub mod interface;
pub mod ip;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod vlan;

use graph::NodeSpec;
use graph::arc::ArcSpec;
use graph::publish::Schema;

/// All nodes of all features.
#[must_use]
pub fn nodes() -> Vec<NodeSpec> {
    let folders = [ethernet::NODES, vlan::NODES, cross_connect::NODES];
    folders.concat()
}

/// All feature arcs besides the engine's own.
#[must_use]
pub fn arcs() -> Vec<ArcSpec> {
    vec![
        ArcSpec { name: "ip4-unicast", help: "IPv4 packets with a valid header, before their lookup." },
        ArcSpec { name: "ip6-unicast", help: "IPv6 packets with a valid header, before their lookup." },
    ]
}

/// All parts of the tables that features read.
#[must_use]
pub fn schema() -> Schema {
    let mut schema = Schema::default();
    schema.part::<interface::Interfaces>();
    schema.part::<ip::NextHops>();
    schema.part::<ip::Fibs>();
    schema
}
