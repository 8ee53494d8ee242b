//! `ip4-resolve`: IPv4 packets whose next hop has no link-layer address yet go to the control thread to wait for it.
//!
//! | edge | packets |
//! |---|---|
//! | *control thread*, kind [`RESOLVE4`] | to wait; they come back by `inject` when the neighbour has answered |
//! | `icmp4-error` | with no hop left |
//! | `drop` | see [`Drop`](super::hold::Drop) |

use super::RESOLVE4;
use super::hold;
use super::resolve::Resolve;
use crate::ip::NextHopKind;
use crate::ip::family::V4;
use graph::{Attach, NodeKind, NodeSpec};

graph::edges! {
    /// Where a packet goes from here.
    pub enum Next { Drop => "drop", IcmpError => "icmp4-error" }
}

/// The node's declaration.
pub const NODE: NodeSpec = NodeSpec {
    name: "ip4-resolve",
    help: "Has IPv4 packets wait for the link-layer address of their next hop.",
    kind: NodeKind::Output,
    edges: Next::NAMES,
    drops: hold::DROPS,
    attach: &[
        Attach { parent: "ip4-lookup", key: NextHopKind::Glean as u32 },
        Attach { parent: "ip4-lookup", key: NextHopKind::Resolve as u32 },
    ],
    make: |cx| Resolve::<V4>::boxed(cx, RESOLVE4, Next::IcmpError.edge()),
    ..NodeSpec::EMPTY
};
