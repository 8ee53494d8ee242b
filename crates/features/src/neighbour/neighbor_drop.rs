//! `neighbor-drop`: where packets end that waited for their neighbour in vain: the control thread gives them back with a
//! [`Drop`], so that each is counted, traced and captured like any other that goes no further.
//!
//! | edge | packets |
//! |---|---|
//! | `drop` | all |
//!
//! Those whose neighbour didn't answer don't come here: their senders are told.

use core::fmt;
use graph::packet::{OwnedPacket, Packets, SlotId};
use graph::{Attach, Ctx, Frame, Node, NodeSpec};
use wire::LinkType;
use wire::describe::Describe;

/// Key under which `inject` hands packets to this node.
pub const INJECT_KEY: u32 = 2;

graph::edges! {
    /// Where a packet goes from here.
    pub enum Next { Drop => "drop" }
}

graph::drops! {
    /// Why a packet that waited, or was to wait, goes no further.
    pub enum Drop {
        /// Newer packets for the same neighbour took its place in the queue.
        QueueOverflow => "queue-overflow", Loss,
        /// All packets that wait for neighbours take as much memory as they may.
        MemoryFull => "memory-full", Loss,
        /// There are as many neighbours as there may be, and none that answers makes room for one that may not.
        TableFull => "table-full", Loss,
        /// The neighbour it waited for was taken out to make room for another one.
        Evicted => "evicted", Loss,
        /// The neighbour it waited for, or the interface to it, was taken out of the configuration.
        NeighbourGone => "neighbor-gone", Loss,
        /// No neighbour can have the address: it is our own, a group's, or a network's first or last.
        NotANeighbour => "not-a-neighbor", Loss,
        /// The neighbour is known, and the forwarding tables don't take it: a table is full.
        NotProgrammed => "not-programmed", Invalid,
        /// The packet doesn't say what it waits for.
        NoNote => "no-note", Bug,
    }
}

/// The node's declaration.
pub const NODE: NodeSpec = NodeSpec {
    name: "neighbor-drop",
    help: "Ends packets that waited for a neighbour in vain.",
    edges: Next::NAMES,
    drops: Drop::SPECS,
    attach: &[Attach { parent: "inject", key: INJECT_KEY }],
    make: |_| Box::new(NeighbourDrop),
    ..NodeSpec::EMPTY
};

/// Marks a packet, whose current header is its IP header, as lost for `reason`. It needs no next hop any more.
pub(super) fn mark(packet: &mut OwnedPacket, reason: Drop) {
    packet.meta_mut().next_hop = u8::from(reason).into();
}

struct NeighbourDrop;

impl Node for NeighbourDrop {
    fn process(&mut self, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>) {
        frame.each(|slot| {
            let reason = u8::try_from(ctx.packets.meta(slot).next_hop).ok();
            let declared = reason.filter(|reason| usize::from(*reason) < Drop::SPECS.len());
            ctx.drop(slot, declared.unwrap_or(Drop::NoNote.into()))
        });
    }

    fn trace(&self, packets: &Packets, slot: SlotId, out: &mut dyn fmt::Write) -> fmt::Result {
        let head = packets.head(slot);
        let link =
            if head.first().is_some_and(|byte| byte >> 4 == 6) { LinkType::IPV6 } else { LinkType::IPV4 };
        write!(out, "{} waited on interface {}", Describe::new(link, head), packets.meta(slot).tx_if)
    }
}
