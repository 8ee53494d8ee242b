//! Bridge domains: members exchange Ethernet frames by destination address. See `README.md`.
//!
//! * [`Bridges`]: the part of the tables, with the address table.
//! * [`control`]: configuration turned into that; ageing.

mod answer;
pub mod bridge_answer;
pub mod bridge_flood;
pub mod bridge_input;
pub mod bvi_input;
pub mod bvi_output;
pub mod control;
mod keys;
mod learner;
mod origin;
mod port;
mod table;

#[cfg(test)]
mod tests;

use graph::NodeSpec;
pub(crate) use origin::Origins;
pub use table::{BLOCKED, Bridge, Bridges, Member, Moves, tick};

/// The nodes of this folder.
pub const NODES: &[NodeSpec] =
    &[bridge_input::NODE, bridge_answer::NODE, bridge_flood::NODE, bvi_input::NODE, bvi_output::NODE];
