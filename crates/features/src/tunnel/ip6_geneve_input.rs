//! `ip6-geneve-input`: takes Geneve packets (RFC 8926) that came over IPv6 to an end of a tunnel out of their headers.
//!
//! | edge | packets |
//! |---|---|
//! | *arc `device-input`* of the tunnel's interface | what was inside |
//! | `drop` | see [`Drop`](super::decapsulate::Drop) |

use super::decapsulate::{Decapsulate, Drop, Next};
use super::format::Geneve;
use super::table::Encapsulation;
use crate::ip::family::V6;
use crate::local::UDP_LISTENERS;
use graph::nodes::DEVICE_INPUT;
use graph::{Attach, NodeSpec};

/// The node's declaration.
pub const NODE: NodeSpec = NodeSpec {
    name: "ip6-geneve-input",
    help: "Receives what comes through Geneve tunnels over IPv6.",
    edges: Next::NAMES,
    drops: Drop::SPECS,
    attach: &[Attach { parent: "ip6-local", key: UDP_LISTENERS + Encapsulation::Geneve as u32 }],
    starts: &[DEVICE_INPUT],
    make: Decapsulate::<V6, Geneve>::boxed,
    ..NodeSpec::EMPTY
};
