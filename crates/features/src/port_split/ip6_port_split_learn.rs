//! `ip6-port-split-learn`: remembers which IPv6 flows the interface of a split's ports has begun.
//!
//! | edge | packets |
//! |---|---|
//! | *arc `ip6-unicast`* | all |
//!
//! A feature of both interfaces of a split, behind the reverse path filter: nobody else's flows are taken away by it.

use super::learn::{Counter, Learn};
use crate::ip::family::V6;
use graph::{Feature, NodeSpec};

graph::edges! {
    /// Where packets go besides the arc.
    enum Next { Drop => "drop" }
}

/// The node's declaration.
pub const NODE: NodeSpec = NodeSpec {
    name: "ip6-port-split-learn",
    help: "Remembers flows of the interface that a port split sends some ports to.",
    edges: Next::NAMES,
    counters: Counter::SPECS,
    features: &[Feature {
        arc: crate::ip6::UNICAST,
        runs_before: &["ip6-session-input"],
        runs_after: &["ip6-rpf"],
    }],
    make: |cx| Learn::<V6>::boxed(cx, crate::ip6::UNICAST),
    ..NodeSpec::EMPTY
};
