//! Local delivery: packets to our own addresses, told apart by protocol. See `README.md`.

mod delivery;
mod extensions;
mod ip4_local;
mod ip4_reassembly;
mod ip6_local;
mod ip6_reassembly;
#[cfg(test)]
mod punt_tests;
#[cfg(test)]
mod tests;

pub(crate) use delivery::{UDP_LISTENERS, edges};

use crate::reassembly::Bounds;
use graph::NodeSpec;

/// How much is put together at a time, for so many seconds.
const fn bounds(seconds: u64) -> Bounds {
    Bounds { datagrams: 64, bytes: 4 << 20, timeout: seconds * 1_000_000_000 }
}

/// The nodes of this folder.
pub const NODES: &[NodeSpec] =
    &[ip4_local::NODE, ip4_reassembly::NODE, ip6_local::NODE, ip6_reassembly::NODE];
