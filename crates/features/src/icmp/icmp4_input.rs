//! `icmp4-input`: ICMP messages to one of our addresses, told apart by type.
//!
//! | edge | packets |
//! |---|---|
//! | *child by message type* | all others end here |
//! | `drop` | see [`Drop`](input::Drop) |

use super::input::{self, Input};
use crate::ip::family::V4;
use graph::{Attach, NodeSpec};
use wire::IpProtocol;

graph::edges! {
    /// Where a packet goes from here, besides the children.
    pub enum Next { Drop => "drop" }
}

/// The node's declaration.
pub const NODE: NodeSpec = NodeSpec {
    name: "icmp4-input",
    help: "Tells ICMP messages to us apart by type.",
    edges: Next::NAMES,
    drops: input::Drop::SPECS,
    attach: &[Attach { parent: "ip4-local", key: IpProtocol::ICMP.0 as u32 }],
    make: Input::<V4>::boxed,
    ..NodeSpec::EMPTY
};
