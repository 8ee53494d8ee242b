//! `ip6-port-split`: sends IPv6 packets whose route splits by port one way or the other.
//!
//! | edge | packets |
//! |---|---|
//! | `ip6-rewrite` | with the next hop they go to |
//! | `ip6-resolve` | likewise, where its link-layer address isn't known yet |
//! | `drop` | see [`Drop`](super::steer::Drop) |

use super::steer::{Counter, Drop, RESOLVE, REWRITE, Steer};
use crate::ip::NextHopKind;
use crate::ip::family::V6;
use graph::{Attach, NodeSpec};

graph::edges! {
    /// Where a packet goes from here.
    enum Next { Drop => "drop", Rewrite => "ip6-rewrite", Resolve => "ip6-resolve" }
}

const _: () = assert!(Next::Rewrite.edge() == REWRITE && Next::Resolve.edge() == RESOLVE);

/// The node's declaration.
pub const NODE: NodeSpec = NodeSpec {
    name: "ip6-port-split",
    help: "Chooses between two interfaces with one address by the destination port of IPv6 packets.",
    edges: Next::NAMES,
    drops: Drop::SPECS,
    counters: Counter::SPECS,
    attach: &[Attach { parent: "ip6-lookup", key: NextHopKind::PortSplit as u32 }],
    make: Steer::<V6>::boxed,
    ..NodeSpec::EMPTY
};
