//! Local delivery: packets to our own addresses, told apart by protocol. See `README.md`.

mod ip4_local;

use graph::NodeSpec;

/// The nodes of this folder.
pub const NODES: &[NodeSpec] = &[ip4_local::NODE];
