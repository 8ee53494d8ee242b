//! Brings in packets that other workers have handed over: see [`crate::handover`].

use crate::context::{Ctx, Frame};
use crate::handover::Handed;
use crate::node::{Node, NodeContext, NodeKind, NodeSpec};

/// The parent name by which nodes attach themselves as targets of packets that are handed over; the key is theirs to choose.
pub const HANDOVER: NodeSpec = NodeSpec {
    name: "handover",
    help: "Brings in packets from other workers.",
    kind: NodeKind::Input,
    edges: &["drop"],
    drops: Drop::SPECS,
    make,
    ..NodeSpec::EMPTY
};

crate::drops! {
    /// Why a packet that was handed over goes no further.
    pub enum Drop {
        /// All packet slots of the worker are in use.
        NoSlot => "no-slot", Loss,
        /// No node of this graph takes packets under the key it was sent to.
        NoTarget => "no-target", Bug,
    }
}

struct HandoverNode {
    children: Vec<(u32, u8)>,
}

fn make(cx: &NodeContext<'_>) -> Box<dyn Node> {
    Box::new(HandoverNode { children: cx.children().to_vec() })
}

impl Node for HandoverNode {
    fn process(&mut self, ctx: &mut Ctx<'_>, _frame: &mut Frame<'_>) {
        let mut unloaded = 0;
        while unloaded < ctx.budget.packets
            && let Some(Handed { target, interface, slot }) = ctx.station.unload(ctx.packets)
        {
            unloaded += 1;
            let Ok(slot) = slot else {
                ctx.count_lost(interface, Drop::NoSlot, 1);
                continue;
            };
            let edge = self.children.iter().find(|child| child.0 == target).map(|child| child.1);
            let edge = edge.unwrap_or_else(|| ctx.drop(slot, Drop::NoTarget));
            ctx.emit(edge, slot);
        }
        ctx.budget.packets -= unloaded;
    }
}
