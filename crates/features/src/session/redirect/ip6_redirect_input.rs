//! `ip6-redirect-input`: finds the sessions of IPv6 packets that engines send back.
//!
//! | edge | packets |
//! |---|---|
//! | *arc `session-services`* | of a session that has services behind `redirect` |
//! | *arc `ip6-unicast`* | of any other session |
//! | `ip6-sv-reassembly` | fragments of datagrams that aren't known yet |
//! | `drop` | see [`returns::Drop`] |

use super::returns::{self, Returns};
use crate::ip::family::V6;
use crate::ip6::UNICAST;
use crate::session::services::SERVICES_ARC;
use graph::{Attach, Feature, NodeSpec};

/// Key under which the node takes packets that other workers hand over.
const HANDOVER: u32 = 36;

graph::edges! {
    /// Where packets go besides the arcs.
    enum Next { Drop => "drop", Fragments => "ip6-sv-reassembly" }
}

/// The node's declaration.
pub(super) const NODE: NodeSpec = NodeSpec {
    name: "ip6-redirect-input",
    help: "Finds the sessions of IPv6 packets that engines send back.",
    edges: Next::NAMES,
    drops: returns::Drop::SPECS,
    counters: returns::Counter::SPECS,
    attach: &[Attach { parent: "handover", key: HANDOVER }],
    starts: &[SERVICES_ARC],
    // An engine's interface is nobody's but the engine's; services know the ways on from here.
    features: &[Feature { arc: UNICAST, runs_before: &["ip6-session-input"], runs_after: &["ip6-rpf"] }],
    make: |cx| Returns::<V6>::boxed(cx, UNICAST, (HANDOVER, Next::Fragments.edge())),
    ..NodeSpec::EMPTY
};
