//! `ip4-redirect-reassembly`: has an engine see IPv4 packets whole that come in fragments.
//!
//! | edge | packets |
//! |---|---|
//! | `redirect-output` | whole packets, in a slot of their own |
//! | `drop` | see [`whole::Drop`] |

use super::whole::{self, ForEngine};
use crate::ip::family::V4;
use crate::reassembly::{Assemble, Counter};
use graph::{NodeKind, NodeSpec};

/// The node's declaration.
pub(super) const NODE: NodeSpec = NodeSpec {
    name: "ip4-redirect-reassembly",
    help: "Puts fragments of IPv4 packets together that an engine is to see whole.",
    kind: NodeKind::Output,
    edges: whole::Next::NAMES,
    drops: whole::Drop::SPECS,
    counters: Counter::SPECS,
    make: Assemble::<ForEngine<V4>>::boxed,
    ..NodeSpec::EMPTY
};
