//! `ip6-resolve`: IPv6 packets whose next hop has no link-layer address yet go to the control thread to wait for it.
//!
//! | edge | packets |
//! |---|---|
//! | *control thread*, kind [`RESOLVE6`] | to wait; they come back by `inject` when the neighbour has answered |
//! | `icmp6-error` | with no hop left |
//! | `drop` | see [`Drop`](super::hold::Drop) |

use super::RESOLVE6;
use super::hold;
use super::resolve::Resolve;
use crate::ip::NextHopKind;
use crate::ip::family::V6;
use graph::{Attach, NodeKind, NodeSpec};

graph::edges! {
    /// Where a packet goes from here.
    pub enum Next { Drop => "drop", IcmpError => "icmp6-error" }
}

/// The node's declaration.
pub const NODE: NodeSpec = NodeSpec {
    name: "ip6-resolve",
    help: "Has IPv6 packets wait for the link-layer address of their next hop.",
    kind: NodeKind::Output,
    edges: Next::NAMES,
    drops: hold::DROPS,
    attach: &[
        Attach { parent: "ip6-lookup", key: NextHopKind::Glean as u32 },
        Attach { parent: "ip6-lookup", key: NextHopKind::Resolve as u32 },
    ],
    make: |cx| Resolve::<V6>::boxed(cx, RESOLVE6, Next::IcmpError.edge()),
    ..NodeSpec::EMPTY
};
