//! `ip4-session-input`: finds or begins the sessions of IPv4 packets.
//!
//! | edge | packets |
//! |---|---|
//! | *arc `session-services`* | of a session that has services |
//! | *arc `ip4-unicast`* | of a session, or of none where the tenant allows that |
//! | `ip4-sv-reassembly` | fragments of datagrams whose ports aren't known yet |
//! | `drop` | see [`input::Drop`] |

use super::input::{self, Input};
use super::services::SERVICES_ARC;
use super::tuple::HANDOVER_IP4;
use crate::ip::family::V4;
use crate::ip4::UNICAST;
use graph::{Attach, Feature, NodeSpec};

graph::edges! {
    /// Where packets go besides the arc.
    enum Next {
        Drop => "drop",
        Fragments => "ip4-sv-reassembly",
    }
}

/// The node's declaration.
pub const NODE: NodeSpec = NodeSpec {
    name: "ip4-session-input",
    help: "Finds or begins the sessions of IPv4 packets.",
    edges: Next::NAMES,
    drops: input::Drop::SPECS,
    counters: input::Counter::SPECS,
    attach: &[Attach { parent: "handover", key: HANDOVER_IP4 }],
    starts: &[SERVICES_ARC],
    features: &[Feature { arc: UNICAST, runs_before: &[], runs_after: &["ip4-rpf"] }],
    make: |cx| Input::<V4>::boxed(cx, UNICAST),
    ..NodeSpec::EMPTY
};
