//! Takes what a bridge sends to its routed leg (BVI): from here on it is a frame received by that interface.
//!
//! | edge | packets |
//! |---|---|
//! | *arc `device-input`* of the BVI | all |
//! | `drop` | see [`Drop`] |

use crate::interface::{Direction, Tally};
use core::fmt;
use graph::arc::{ArcPlace, Arcs};
use graph::nodes::DEVICE_INPUT;
use graph::packet::{Flags, Packets, SlotId};
use graph::publish::Key;
use graph::{Ctx, Frame, Node, NodeContext, NodeSpec};

graph::edges! {
    /// Where a packet goes from here, besides the arc.
    pub enum Next { Drop => "drop" }
}

graph::drops! {
    /// Why a frame goes no further.
    pub enum Drop {
        /// The BVI is administratively down.
        BviDown => "bvi-down", Loss,
    }
}

/// The node's declaration.
pub const NODE: NodeSpec = NodeSpec {
    name: "bvi-input",
    help: "Receives frames from a bridge on its routed leg.",
    edges: Next::NAMES,
    drops: Drop::SPECS,
    starts: &[DEVICE_INPUT],
    make: |cx: &NodeContext<'_>| Box::new(BviInput { arcs: cx.table(), input: cx.arc(DEVICE_INPUT) }),
    ..NodeSpec::EMPTY
};

struct BviInput {
    arcs: Key<Arcs>,
    input: ArcPlace,
}

impl Node for BviInput {
    fn process(&mut self, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>) {
        let (tables, counters) = (ctx.tables, ctx.counters);
        let arcs = tables.get(self.arcs);
        let (mut bvi, mut edge) = (0, 0);
        let mut tally = Tally::default();
        frame.each(|slot| {
            let meta = ctx.packets.meta_mut(slot);
            if meta.tx_if != bvi {
                bvi = meta.tx_if;
                edge = self.input.edge(arcs, bvi, 0);
            }
            tally.add(counters, Direction::Rx, bvi, meta.len());
            meta.rx_if = bvi;
            meta.arc = 0;
            meta.flags.set(Flags::FROM_BVI);
            if edge == 0 { ctx.drop(slot, Drop::BviDown) } else { edge }
        });
        tally.flush(counters, Direction::Rx);
    }

    fn trace(&self, packets: &Packets, slot: SlotId, out: &mut dyn fmt::Write) -> fmt::Result {
        write!(out, "interface {}", packets.meta(slot).rx_if)
    }
}
