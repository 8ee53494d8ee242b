//! `ip6-direct`: sends IPv6 packets to a neighbour that isn't their destination: to the address that is [noted](super::hold::note) before them.
//!
//! | edge | packets |
//! |---|---|
//! | `ip6-rewrite` | whose neighbour's link-layer address is known, or whose way leads by an interface without neighbours |
//! | *control thread*, kind [`RESOLVE_DIRECT`](super::RESOLVE_DIRECT) | to wait for it; they come back by `inject` when it has answered |
//! | `icmp6-error` | with no hop left, where they would wait |
//! | `drop` | see [`Drop`](super::direct::Drop) |

use super::direct::{DROPS, Direct};
use crate::ip::family::V6;
use graph::{Attach, NodeSpec};

graph::edges! {
    /// Where a packet goes from here.
    enum Next { Drop => "drop", Rewrite => "ip6-rewrite", IcmpError => "icmp6-error" }
}

/// The node's declaration.
pub const NODE: NodeSpec = NodeSpec {
    name: "ip6-direct",
    help: "Sends IPv6 packets to a neighbour that isn't their destination, which stays as it is.",
    edges: Next::NAMES,
    drops: &DROPS,
    attach: &[Attach { parent: "inject", key: super::IP6_DIRECT }],
    make: |cx| Direct::<V6>::boxed(cx, Next::Rewrite.edge(), Next::IcmpError.edge()),
    ..NodeSpec::EMPTY
};
