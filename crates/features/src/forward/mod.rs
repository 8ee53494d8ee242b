//! What nearly every packet of a router is, forwarded in one step. See `README.md`.

mod ip_forward;
mod lot;
#[cfg(test)]
mod tests;
mod way;

use graph::NodeSpec;

/// The nodes of this folder.
pub const NODES: &[NodeSpec] = &[ip_forward::NODE];
