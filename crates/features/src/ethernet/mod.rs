//! Where received packets enter the network layers: with an Ethernet header or without. See `README.md`.

pub mod ethernet_input;
mod ethertypes;
pub mod l3_input;
pub(crate) mod usual;

#[cfg(test)]
mod tests;

use graph::NodeSpec;

/// The nodes of this folder.
pub const NODES: &[NodeSpec] = &[ethernet_input::NODE, l3_input::NODE];
