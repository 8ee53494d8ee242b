//! `ip4-port-split-learn`: remembers which IPv4 flows the interface of a split's ports has begun.
//!
//! | edge | packets |
//! |---|---|
//! | *arc `ip4-unicast`* | all |
//!
//! A feature of both interfaces of a split, behind the reverse path filter: nobody else's flows are taken away by it.

use super::learn::{Counter, Learn};
use crate::ip::family::V4;
use graph::{Feature, NodeSpec};

graph::edges! {
    /// Where packets go besides the arc.
    enum Next { Drop => "drop" }
}

/// The node's declaration.
pub const NODE: NodeSpec = NodeSpec {
    name: "ip4-port-split-learn",
    help: "Remembers flows of the interface that a port split sends some ports to.",
    edges: Next::NAMES,
    counters: Counter::SPECS,
    features: &[Feature {
        arc: crate::ip4::UNICAST,
        runs_before: &["ip4-session-input"],
        runs_after: &["ip4-rpf"],
    }],
    make: |cx| Learn::<V4>::boxed(cx, crate::ip4::UNICAST),
    ..NodeSpec::EMPTY
};
