//! `icmp6-input`: ICMPv6 messages to one of our addresses or to a group of the link, told apart by type.
//!
//! | edge | packets |
//! |---|---|
//! | *child by message type* | all others end here |
//! | `drop` | see [`Drop`](input::Drop) |

use super::input::{self, Input};
use crate::ip::family::V6;
use graph::{Attach, NodeSpec};
use wire::IpProtocol;

graph::edges! {
    /// Where a packet goes from here, besides the children.
    pub enum Next { Drop => "drop" }
}

/// The node's declaration.
pub const NODE: NodeSpec = NodeSpec {
    name: "icmp6-input",
    help: "Tells ICMPv6 messages to us apart by type.",
    edges: Next::NAMES,
    drops: input::Drop::SPECS,
    attach: &[Attach { parent: "ip6-local", key: IpProtocol::ICMPV6.0 as u32 }],
    make: Input::<V6>::boxed,
    ..NodeSpec::EMPTY
};
