//! Tunnels over UDP: VXLAN and Geneve. See `README.md`.
//!
//! * [`Tunnel`]: what an interface says of its tunnel; [`Tunnels`]: all of them, as workers look for them.
//! * [`encapsulate`], [`decapsulate`]: what both formats do alike; [`format`](self::format): what they don't.
//! * [`ecn`]: congestion notification across the tunnel's ends (RFC 6040).
//! * [`inner`]: what is read of a packet that is encapsulated.

mod decapsulate;
mod ecn;
mod encapsulate;
mod format;
pub mod geneve_output;
mod inner;
pub mod ip4_geneve_input;
pub mod ip4_vxlan_input;
pub mod ip6_geneve_input;
pub mod ip6_vxlan_input;
#[cfg(test)]
mod nesting_tests;
mod outer;
mod table;
#[cfg(test)]
mod tests;
pub mod vxlan_output;

pub use table::{Dscp, Encapsulation, Tunnel, Tunnels};

use graph::NodeSpec;

/// Tunnels that a packet may come out of, one inside the other: the default of the tunnel encapsulation limit (RFC 2473 section 6.6).
/// Without a limit, a packet of 64 KiB passes the graph 1 290 times. A packet is put into one tunnel at most.
pub const NESTING_LIMIT: u8 = 4;

/// The nodes of this folder.
pub const NODES: &[NodeSpec] = &[
    ip4_vxlan_input::NODE,
    ip6_vxlan_input::NODE,
    ip4_geneve_input::NODE,
    ip6_geneve_input::NODE,
    vxlan_output::NODE,
    geneve_output::NODE,
];
