//! `ip4-port-split`: sends IPv4 packets whose route splits by port one way or the other.
//!
//! | edge | packets |
//! |---|---|
//! | `ip4-rewrite` | with the next hop they go to |
//! | `ip4-resolve` | likewise, where its link-layer address isn't known yet |
//! | `drop` | see [`Drop`](super::steer::Drop) |

use super::steer::{Counter, Drop, RESOLVE, REWRITE, Steer};
use crate::ip::NextHopKind;
use crate::ip::family::V4;
use graph::{Attach, NodeSpec};

graph::edges! {
    /// Where a packet goes from here.
    enum Next { Drop => "drop", Rewrite => "ip4-rewrite", Resolve => "ip4-resolve" }
}

const _: () = assert!(Next::Rewrite.edge() == REWRITE && Next::Resolve.edge() == RESOLVE);

/// The node's declaration.
pub const NODE: NodeSpec = NodeSpec {
    name: "ip4-port-split",
    help: "Chooses between two interfaces with one address by the destination port of IPv4 packets.",
    edges: Next::NAMES,
    drops: Drop::SPECS,
    counters: Counter::SPECS,
    attach: &[Attach { parent: "ip4-lookup", key: NextHopKind::PortSplit as u32 }],
    make: Steer::<V4>::boxed,
    ..NodeSpec::EMPTY
};
