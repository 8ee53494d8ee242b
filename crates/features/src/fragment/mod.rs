//! Fragmentation: `ip4-fragment`, and `ip6-fragment` for packets of our own. See the folder's `README.md`.

mod cut;
mod ip4;
mod ip6;
mod node;
#[cfg(test)]
mod tests;

use graph::NodeSpec;

/// The folder's nodes.
pub const NODES: &[NodeSpec] = &[ip4::NODE, ip6::NODE];
