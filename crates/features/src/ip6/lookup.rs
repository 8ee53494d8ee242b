//! `ip6-lookup`: finds a packet's next hop in the forwarding table of its VRF.
//!
//! | edge | packets |
//! |---|---|
//! | *child by [`NextHopKind`](crate::ip::NextHopKind)* | `ip6-rewrite`, `ip6-resolve`, `ip6-local` |
//! | `icmp6-error` | no route, unreachable, prohibited |
//! | `drop` | blackholes, and see [`lookup::Drop`] |
//!
//! Groups (equal-cost next hops, chosen by flow hash) and lookups in another VRF are followed; link-local destinations are looked up on the interface
//! that the packet belongs to.

use crate::ip::family::V6;
use crate::ip::lookup::{self, Lookup};
use graph::{Attach, NodeSpec};

graph::edges! {
    /// Where packets go besides the children.
    enum Next {
        Drop => "drop",
        IcmpError => "icmp6-error",
    }
}

/// The node's declaration.
pub const NODE: NodeSpec = NodeSpec {
    name: "ip6-lookup",
    help: "Finds the next hop of IPv6 packets in the forwarding table of their VRF.",
    edges: Next::NAMES,
    drops: lookup::Drop::SPECS,
    attach: &[Attach { parent: "inject", key: super::INJECT_KEY }],
    ends: &[super::UNICAST],
    make: |cx| Lookup::<V6>::boxed(cx, Next::IcmpError.edge()),
    ..NodeSpec::EMPTY
};
