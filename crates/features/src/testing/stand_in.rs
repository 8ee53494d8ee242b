//! Nodes at the edge of forwarding, replaced by ones that show what they were given.
//!
//! What forwarding hands to ICMP, to local delivery and to the neighbour protocols is its result; what those make of it
//! is theirs. In the graph of [`forwarding_nodes`] such packets go to the control thread under a kind that says it all.

use super::port::TEST_NODES;
use crate::icmp::requested;
use crate::ip::NextHopKind;
use graph::packet::Meta;
use graph::{Attach, Ctx, Frame, Node, NodeContext, NodeSpec};

/// All nodes of all features, with a test port, and with stand-ins for ICMP errors (punt `icmp4-error type code
/// argument`), local delivery (punt `ip4-local`) and resolution (punt `ip4-resolve`); likewise for IPv6.
#[must_use]
pub fn forwarding_nodes() -> Vec<NodeSpec> {
    let real = crate::nodes().into_iter().filter(|node| !STAND_INS.iter().any(|s| s.name == node.name));
    real.chain(STAND_INS).chain(TEST_NODES.iter().copied()).collect()
}

const fn attach(parent: &'static str, kind: NextHopKind) -> Attach {
    Attach { parent, key: kind as u32 }
}

const BASE: NodeSpec = NodeSpec { edges: &["drop"], drops: Drop::SPECS, ..NodeSpec::EMPTY };

/// The stand-ins.
const STAND_INS: [NodeSpec; 6] = [
    NodeSpec {
        name: "icmp4-error",
        make: |_: &NodeContext<'_>| Box::new(StandIn(|meta| error("icmp4-error", meta))),
        ..BASE
    },
    NodeSpec {
        name: "icmp6-error",
        make: |_: &NodeContext<'_>| Box::new(StandIn(|meta| error("icmp6-error", meta))),
        ..BASE
    },
    NodeSpec {
        name: "ip4-local",
        attach: &[attach("ip4-lookup", NextHopKind::Local)],
        make: |_: &NodeContext<'_>| Box::new(StandIn(|_| "ip4-local".into())),
        ..BASE
    },
    NodeSpec {
        name: "ip4-resolve",
        attach: &[attach("ip4-lookup", NextHopKind::Glean), attach("ip4-lookup", NextHopKind::Resolve)],
        make: |_: &NodeContext<'_>| Box::new(StandIn(|_| "ip4-resolve".into())),
        ..BASE
    },
    NodeSpec {
        name: "ip6-local",
        attach: &[attach("ip6-lookup", NextHopKind::Local)],
        make: |_: &NodeContext<'_>| Box::new(StandIn(|_| "ip6-local".into())),
        ..BASE
    },
    NodeSpec {
        name: "ip6-resolve",
        attach: &[attach("ip6-lookup", NextHopKind::Glean), attach("ip6-lookup", NextHopKind::Resolve)],
        make: |_: &NodeContext<'_>| Box::new(StandIn(|_| "ip6-resolve".into())),
        ..BASE
    },
];

graph::drops! {
    /// Where a packet ends that was shown.
    enum Drop {
        /// It was shown.
        Shown => "shown", Info,
    }
}

struct StandIn(fn(&Meta) -> String);

fn error(node: &str, meta: &Meta) -> String {
    let (type_, code, argument) = requested(meta);
    assert_eq!(meta.data, meta.l3, "an error is asked for with the IP header as current one");
    format!("{node} {type_} {code} {argument}")
}

impl Node for StandIn {
    fn process(&mut self, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>) {
        frame.each(|slot| {
            // A kind is a name that lives as long as the program: tests have few.
            let kind = String::leak((self.0)(ctx.packets.meta(slot)));
            assert!(ctx.punt(kind, slot, ctx.packets.meta(slot).rx_if), "the queue of events is full");
            ctx.drop(slot, Drop::Shown)
        });
    }
}
