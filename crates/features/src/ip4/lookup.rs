//! `ip4-lookup`: finds a packet's next hop in the forwarding table of its VRF.
//!
//! | edge | packets |
//! |---|---|
//! | *child by [`NextHopKind`](crate::ip::NextHopKind)* | `ip4-rewrite`, `ip4-resolve`, `ip4-local` |
//! | `icmp4-error` | no route, unreachable, prohibited |
//! | `drop` | blackholes, and see [`lookup::Drop`] |
//!
//! Groups (equal-cost next hops, chosen by flow hash) and lookups in another VRF are followed.

use crate::ip::family::V4;
use crate::ip::lookup::{self, Lookup};
use graph::{Attach, NodeSpec};

graph::edges! {
    /// Where packets go besides the children.
    enum Next {
        Drop => "drop",
        IcmpError => "icmp4-error",
    }
}

/// The node's declaration.
pub const NODE: NodeSpec = NodeSpec {
    name: "ip4-lookup",
    help: "Finds the next hop of IPv4 packets in the forwarding table of their VRF.",
    edges: Next::NAMES,
    drops: lookup::Drop::SPECS,
    attach: &[Attach { parent: "inject", key: super::INJECT_KEY }],
    ends: &[super::UNICAST],
    make: |cx| Lookup::<V4>::boxed(cx, Next::IcmpError.edge()),
    ..NodeSpec::EMPTY
};
