//! Local delivery: packets to our own addresses, told apart by protocol. See `README.md`.

mod assemble;
mod datagram;
mod delivery;
mod extensions;
mod ip4_local;
mod ip4_reassembly;
mod ip6_local;
mod ip6_reassembly;
#[cfg(test)]
mod punt_tests;
mod reassembly;
#[cfg(test)]
mod tests;

pub(crate) use assemble::owner_of_fragments;
pub(crate) use delivery::{UDP_LISTENERS, edges};

use graph::NodeSpec;

/// The nodes of this folder.
pub const NODES: &[NodeSpec] =
    &[ip4_local::NODE, ip4_reassembly::NODE, ip6_local::NODE, ip6_reassembly::NODE];
