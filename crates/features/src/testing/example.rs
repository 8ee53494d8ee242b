//! `ip4-gtsm`: drops IPv4 packets that come from further away than the link (GTSM, RFC 5082).
//!
//! | edge | packets |
//! |---|---|
//! | *arc `ip4-unicast`* | sent by a neighbour |
//! | `drop` | see [`Drop`] |
//!
//! No part of production: the node that `docs/add-a-node.md` explains. It is there to be compiled and tested.

use core::fmt;
use graph::arc::{ArcPlace, Arcs};
use graph::packet::{Packets, SlotId};
use graph::publish::Key;
use graph::{Ctx, Feature, Frame, Node, NodeContext, NodeSpec};
use wire::Ipv4Header;

graph::edges! {
    /// Where packets go besides the arc.
    enum Next {
        Drop => "drop",
    }
}

graph::drops! {
    /// Why a packet isn't believed to come from a neighbour.
    enum Drop {
        /// The time to live shows that the packet has passed a router.
        OffLink => "off-link", Loss,
    }
}

graph::counters! {
    /// What is counted besides drops.
    enum Counter {
        /// Packets that a neighbour sent.
        OnLink => "on-link",
    }
}

/// The node's declaration.
pub const NODE: NodeSpec = NodeSpec {
    name: "ip4-gtsm",
    help: "Drops IPv4 packets that come from further away than the link.",
    edges: Next::NAMES,
    drops: Drop::SPECS,
    counters: Counter::SPECS,
    features: &[Feature { arc: ARC, runs_before: &["ip4-rpf"], runs_after: &[] }],
    make: |cx: &NodeContext<'_>| Box::new(Gtsm { arcs: cx.table(), place: cx.arc(ARC) }),
    ..NodeSpec::EMPTY
};

const ARC: &str = crate::ip4::UNICAST;
/// Time to live of a packet that no router has touched.
const UNTOUCHED: u8 = 255;

struct Gtsm {
    arcs: Key<Arcs>,
    place: ArcPlace,
}

impl Node for Gtsm {
    fn process(&mut self, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>) {
        let tables = ctx.tables;
        let arcs = tables.get(self.arcs);
        let mut on_link = 0;
        frame.each(|slot| {
            if time_to_live(ctx.packets, slot) != Some(UNTOUCHED) {
                return ctx.drop(slot, Drop::OffLink);
            }
            on_link += 1;
            let meta = ctx.packets.meta_mut(slot);
            let rx_if = meta.rx_if;
            self.place.next(arcs, rx_if, meta)
        });
        ctx.count(Counter::OnLink, on_link);
    }

    fn trace(&self, packets: &Packets, slot: SlotId, out: &mut dyn fmt::Write) -> fmt::Result {
        match time_to_live(packets, slot) {
            Some(ttl) => write!(out, "ttl {ttl}"),
            None => write!(out, "no IPv4 header"),
        }
    }
}

fn time_to_live(packets: &Packets, slot: SlotId) -> Option<u8> {
    packets.header::<Ipv4Header>(slot, packets.meta(slot).l3).map(|header| header.ttl)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::topology;
    use crate::testing::{Row, Verdict, forwarding_nodes, rows, run_table_on};

    #[test]
    fn only_packets_of_neighbours_pass() {
        let all = rows(include_str!("../../tests/vectors/ip4.txt"));
        let pick = |name| all.iter().find(|row| row.name == name).cloned().unwrap();
        let rows = [pick("ttl 255"), Row { verdict: Verdict::Dropped("ip4-gtsm off-link"), ..pick("ttl 2") }];
        let nodes = [forwarding_nodes(), vec![NODE]].concat();
        run_table_on(&nodes, &rows, |bench| {
            topology::set_up(bench, 1500);
            bench.chain(ARC, 1, &["ip4-gtsm"], "ip4-lookup");
        });
    }

    #[test]
    fn the_page_shows_this_file() {
        let page = include_str!("../../../../docs/add-a-node.md");
        let file = include_str!("example.rs");
        let (_, shown) = page.split_once("```rust\n").expect("the page shows code");
        let (shown, _) = shown.split_once("```\n").expect("the code ends");
        assert!(
            file.contains(shown),
            "docs/add-a-node.md isn't what crates/features/src/testing/example.rs says"
        );
    }
}
