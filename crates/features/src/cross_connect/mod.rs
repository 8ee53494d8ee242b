//! Interfaces joined in pairs: every frame of one leaves by the other. See `README.md`.

pub mod node;

#[cfg(test)]
mod tests;

use graph::NodeSpec;

/// The nodes of this folder.
pub const NODES: &[NodeSpec] = &[node::NODE];
