//! `vxlan-output`: sends packets through VXLAN tunnels (RFC 7348).
//!
//! | edge | packets |
//! |---|---|
//! | `ip4-lookup`, `ip6-lookup` | behind their outer headers |
//! | `drop` | see [`Drop`](super::encapsulate::Drop) |

use super::encapsulate::{Drop, Encapsulate, Next};
use graph::NodeSpec;
use graph::nodes::INTERFACE_OUTPUT;

/// The node's declaration.
pub const NODE: NodeSpec = NodeSpec {
    name: "vxlan-output",
    help: "Puts VXLAN headers on and sends to the tunnel's other end.",
    edges: Next::NAMES,
    drops: Drop::SPECS,
    ends: &[INTERFACE_OUTPUT],
    make: Encapsulate::boxed,
    ..NodeSpec::EMPTY
};
