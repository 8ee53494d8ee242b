//! Brings in packets that the control thread sends: answers of the neighbour protocols, packets that waited.

use crate::context::{Ctx, Frame};
use crate::node::{Node, NodeContext, NodeKind, NodeSpec};
use memory::packet::OwnedPacket;
use std::sync::mpsc::{Receiver, Sender, channel};

/// The parent name by which nodes attach themselves as targets of injected packets; the key is theirs to choose.
pub const INJECT: NodeSpec = NodeSpec {
    name: "inject",
    help: "Brings in packets from the control thread.",
    kind: NodeKind::Input,
    edges: &["drop"],
    drops: Drop::SPECS,
    make,
    ..NodeSpec::EMPTY
};

crate::drops! {
    /// Why an injected packet goes no further.
    pub enum Drop {
        /// All packet slots of the worker are in use.
        NoSlot => "no-slot", Loss,
        /// No node of this graph takes packets under the key it was sent to.
        NoTarget => "no-target", Bug,
    }
}

/// A packet on its way into the graph.
#[derive(Debug)]
pub struct Injection {
    /// Key of the node that has attached itself to `inject`.
    pub target: u32,
    /// The packet, with metadata as that node wants it.
    pub packet: OwnedPacket,
}

/// The node; the worker feeds it by [`InjectNode::sender`].
pub(crate) struct InjectNode {
    children: Vec<(u32, u8)>,
    queue: Receiver<Injection>,
    sender: Sender<Injection>,
}

fn make(cx: &NodeContext<'_>) -> Box<dyn Node> {
    let (sender, queue) = channel();
    Box::new(InjectNode { children: cx.children().to_vec(), queue, sender })
}

impl Node for InjectNode {
    fn process(&mut self, ctx: &mut Ctx<'_>, _frame: &mut Frame<'_>) {
        while ctx.budget.packets > 0 {
            let Ok(injection) = self.queue.try_recv() else { return };
            ctx.budget.packets -= 1;
            let Ok(slot) = ctx.packets.adopt(&injection.packet) else {
                ctx.count_drop(Drop::NoSlot);
                continue;
            };
            let edge = self.children.iter().find(|child| child.0 == injection.target).map(|child| child.1);
            let edge = edge.unwrap_or_else(|| ctx.drop(slot, Drop::NoTarget));
            ctx.emit(edge, slot);
        }
    }

    fn injector(&self) -> Option<Sender<Injection>> {
        Some(self.sender.clone())
    }
}
