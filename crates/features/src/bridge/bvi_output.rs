//! Takes what is routed out of a bridge's routed leg (BVI): from here on it is a frame that came into the bridge by that
//! member.
//!
//! | edge | packets |
//! |---|---|
//! | `bridge-input` | all |

use crate::interface::{Direction, Tally};
use core::fmt;
use graph::nodes::INTERFACE_OUTPUT;
use graph::packet::{Flags, Packets, SlotId};
use graph::{Ctx, Frame, Node, NodeSpec};

graph::edges! {
    /// Where a packet goes from here.
    pub enum Next { Bridge => "bridge-input" }
}

/// The node's declaration.
pub const NODE: NodeSpec = NodeSpec {
    name: "bvi-output",
    help: "Sends routed packets into the bridge that the interface is the leg of.",
    edges: Next::NAMES,
    ends: &[INTERFACE_OUTPUT],
    make: |_| Box::new(BviOutput),
    ..NodeSpec::EMPTY
};

struct BviOutput;

impl Node for BviOutput {
    fn process(&mut self, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>) {
        let counters = ctx.counters;
        let mut tally = Tally::default();
        for slot in frame.slots {
            let (meta, area) = ctx.packets.parts_mut(*slot);
            tally.add(counters, Direction::Tx, meta.tx_if, meta.len());
            if meta.flags.has(Flags::GROUP) {
                counters
                    .interface(meta.tx_if)
                    .sent_to_group(area.get(meta.data as usize..).unwrap_or_default());
            }
            meta.rx_if = meta.tx_if;
            meta.flags.set(Flags::FROM_BVI);
        }
        tally.flush(counters, Direction::Tx);
        frame.all(Next::Bridge.edge());
    }

    fn trace(&self, packets: &Packets, slot: SlotId, out: &mut dyn fmt::Write) -> fmt::Result {
        write!(out, "interface {}", packets.meta(slot).rx_if)
    }
}
