//! `ip6-resolve`: IPv6 packets whose next hop has no link-layer address yet go to the control thread to wait for it.
//!
//! | edge | packets |
//! |---|---|
//! | *control thread*, kind [`RESOLVE6`] | to wait; they come back by `inject` when the neighbour has answered |
//! | `drop` | see [`Drop`](super::hold::Drop) |

use super::RESOLVE6;
use super::hold::{self, Holder};
use crate::ip::{NextHopKind, NextHops};
use core::fmt;
use graph::packet::{Packets, SlotId};
use graph::publish::Key;
use graph::{Attach, Ctx, Frame, Node, NodeContext, NodeKind, NodeSpec};
use wire::Ipv6Header;

graph::edges! {
    /// Where a packet goes from here.
    pub enum Next { Drop => "drop" }
}

/// The node's declaration.
pub const NODE: NodeSpec = NodeSpec {
    name: "ip6-resolve",
    help: "Has IPv6 packets wait for the link-layer address of their next hop.",
    kind: NodeKind::Output,
    edges: Next::NAMES,
    drops: hold::DROPS,
    attach: &[
        Attach { parent: "ip6-lookup", key: NextHopKind::Glean as u32 },
        Attach { parent: "ip6-lookup", key: NextHopKind::Resolve as u32 },
    ],
    make: |cx: &NodeContext<'_>| Box::new(Ip6Resolve { hops: cx.table(), holder: Holder::new() }),
    ..NodeSpec::EMPTY
};

struct Ip6Resolve {
    hops: Key<NextHops>,
    holder: Holder,
}

impl Node for Ip6Resolve {
    fn process(&mut self, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>) {
        let hops = ctx.tables.get(self.hops);
        for slot in frame.slots {
            let meta = ctx.packets.meta(*slot);
            let hop = hops.get(meta.next_hop);
            let address = match ctx.packets.header::<Ipv6Header>(*slot, meta.data) {
                Some(header) if hop.kind == NextHopKind::Glean => header.dst,
                _ => hop.address,
            };
            self.holder.hold(ctx, *slot, RESOLVE6, hop.tx_if, address);
        }
    }

    fn trace(&self, packets: &Packets, slot: SlotId, out: &mut dyn fmt::Write) -> fmt::Result {
        let meta = packets.meta(slot);
        write!(out, "next hop {} on interface {}", meta.next_hop, meta.tx_if)
    }
}
