//! Port split: two interfaces with one address, and packets that go to one or the other by their destination port.
//!
//! * `ports`: which ports; `split`: a split as workers see it, with the flows it remembers.
//! * `choice`: which way a packet goes. `steer`: the node that sends it there, behind the lookup; `learn`: the feature that
//!   remembers flows, on the arcs of both interfaces.
//!
//! A route whose next hop is a split is made by [`crate::ip::control::Forwarding::add_split_route`].

mod choice;
mod ip4_port_split;
mod ip4_port_split_learn;
mod ip6_port_split;
mod ip6_port_split_learn;
mod learn;
mod ports;
mod split;
mod steer;
#[cfg(test)]
mod tests;

pub use ports::{PortRange, PortSet, PortsError};
pub use split::{PortSplit, SplitHop, WithoutPeer};
pub use steer::{ByPort, Decided, decide};

use graph::NodeSpec;

/// This folder's nodes.
pub const NODES: &[NodeSpec] =
    &[ip4_port_split::NODE, ip4_port_split_learn::NODE, ip6_port_split::NODE, ip6_port_split_learn::NODE];
