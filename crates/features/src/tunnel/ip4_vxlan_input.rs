//! `ip4-vxlan-input`: takes VXLAN packets (RFC 7348) that came over IPv4 to an end of a tunnel out of their headers.
//!
//! | edge | packets |
//! |---|---|
//! | *arc `device-input`* of the tunnel's interface | what was inside |
//! | `drop` | see [`Drop`](super::decapsulate::Drop) |

use super::decapsulate::{Decapsulate, Drop, Next};
use super::format::Vxlan;
use super::table::Encapsulation;
use crate::ip::family::V4;
use crate::local::UDP_LISTENERS;
use graph::nodes::DEVICE_INPUT;
use graph::{Attach, NodeSpec};

/// The node's declaration.
pub const NODE: NodeSpec = NodeSpec {
    name: "ip4-vxlan-input",
    help: "Receives what comes through VXLAN tunnels over IPv4.",
    edges: Next::NAMES,
    drops: Drop::SPECS,
    attach: &[Attach { parent: "ip4-local", key: UDP_LISTENERS + Encapsulation::Vxlan as u32 }],
    starts: &[DEVICE_INPUT],
    make: Decapsulate::<V4, Vxlan>::boxed,
    ..NodeSpec::EMPTY
};
