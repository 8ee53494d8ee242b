//! VLAN sub-interfaces: 802.1Q and 802.1ad. See `README.md`.

pub(crate) mod tags;
pub mod vlan_output;

use graph::NodeSpec;

/// The nodes of this folder.
pub const NODES: &[NodeSpec] = &[vlan_output::NODE];
