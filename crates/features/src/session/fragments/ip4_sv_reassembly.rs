//! `ip4-sv-reassembly`: has all fragments of an IPv4 datagram belong to the session of the first one.
//!
//! | edge | packets |
//! |---|---|
//! | `ip4-session-input` | fragments whose datagram's ports are known |
//! | `ip4-redirect-input` | such of what engines send back |
//! | `drop` | see [`node::Drop`] |
//!
//! Fragments of a datagram may come by any queue. Each datagram belongs to one worker; others hand its fragments over. One that comes before the first is
//! copied, and waits.

use super::node::{self, Reassembly};
use super::piece::Pieces;
use crate::ip::family::V4;
use graph::{Attach, NodeKind, NodeSpec};

/// The node's declaration.
pub(super) const NODE: NodeSpec = NodeSpec {
    name: "ip4-sv-reassembly",
    help: "Has all fragments of an IPv4 datagram belong to the session of the first one.",
    kind: NodeKind::Output,
    edges: node::Next::NAMES,
    drops: node::Drop::SPECS,
    counters: node::Counter::SPECS,
    attach: &[Attach { parent: "handover", key: V4::HANDOVER_PIECES }],
    make: Reassembly::<V4>::boxed,
    ..NodeSpec::EMPTY
};
