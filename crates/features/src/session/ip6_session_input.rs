//! `ip6-session-input`: finds or begins the sessions of IPv6 packets.
//!
//! | edge | packets |
//! |---|---|
//! | *arc `session-services`* | of a session that has services |
//! | *arc `ip6-unicast`* | of a session, or of none where the tenant allows that |
//! | `ip6-sv-reassembly` | fragments of datagrams whose ports aren't known yet |
//! | `drop` | see [`input::Drop`] |

use super::input::{self, Input};
use super::services::SERVICES_ARC;
use super::tuple::HANDOVER_IP6;
use crate::ip::family::V6;
use crate::ip6::UNICAST;
use graph::{Attach, Feature, NodeSpec};

graph::edges! {
    /// Where packets go besides the arc.
    enum Next {
        Drop => "drop",
        Fragments => "ip6-sv-reassembly",
    }
}

/// The node's declaration.
pub const NODE: NodeSpec = NodeSpec {
    name: "ip6-session-input",
    help: "Finds or begins the sessions of IPv6 packets.",
    edges: Next::NAMES,
    drops: input::Drop::SPECS,
    counters: input::Counter::SPECS,
    attach: &[Attach { parent: "handover", key: HANDOVER_IP6 }],
    starts: &[SERVICES_ARC],
    features: &[Feature { arc: UNICAST, runs_before: &["ip6-nd-proxy"], runs_after: &["ip6-rpf"] }],
    make: |cx| Input::<V6>::boxed(cx, UNICAST),
    ..NodeSpec::EMPTY
};
