//! Policers: how much may come, and what becomes of the rest. See `README.md`.
//!
//! * [`Profile`]: what configuration says; [`Policed`]: somebody to whom it applies, with tokens and figures of his own; `dscp`: how packets come coloured
//!   and are marked.
//! * `interface_policer`: the node that meters all that an interface receives; [`Policers`]: which ones. Tenants and sessions are metered by the service
//!   `policer` (`session/policer`).
//!
//! Tokens and colours are those of [`tables::policer`].

mod dscp;
mod fates;
mod interface_policer;
mod policed;
#[cfg(test)]
mod tests;

pub use dscp::MAX_DSCP;
pub use interface_policer::Policers;
pub use policed::{Action, Figures, Hits, Policed, Profile};

pub(crate) use dscp::{colour, mark};
pub use fates::fates;

use graph::NodeSpec;

/// This folder's nodes.
pub const NODES: &[NodeSpec] = &[interface_policer::NODE];

/// The feature of `device-input` that an interface with a policer has.
pub const INTERFACE_POLICER: &str = interface_policer::NODE.name;
