//! `ethernet-out`: sends frames that the control thread has made (requests, announcements) by the interface in their
//! metadata.
//!
//! | edge | packets |
//! |---|---|
//! | *arc `interface-output`* | all |
//! | `drop` | see [`Drop`] |

use core::fmt;
use graph::arc::{ArcPlace, Arcs};
use graph::nodes::INTERFACE_OUTPUT;
use graph::packet::{Flags, OwnedPacket, Packets, SlotId};
use graph::publish::Key;
use graph::{Attach, Ctx, Frame, IfIndex, Node, NodeContext, NodeSpec};
use wire::LinkType;
use wire::describe::Describe;

/// Key under which `inject` hands frames to this node.
pub const INJECT_KEY: u32 = 1;

graph::edges! {
    /// Where a frame goes from here, besides the arc.
    pub enum Next { Drop => "drop" }
}

graph::drops! {
    /// Why a frame isn't sent.
    pub enum Drop {
        /// The interface has been taken down since the frame was made.
        InterfaceDown => "interface-down", Loss,
    }
}

/// The node's declaration.
pub const NODE: NodeSpec = NodeSpec {
    name: "ethernet-out",
    help: "Sends frames made by the control thread.",
    edges: Next::NAMES,
    drops: Drop::SPECS,
    attach: &[Attach { parent: "inject", key: INJECT_KEY }],
    starts: &[INTERFACE_OUTPUT],
    make: |cx: &NodeContext<'_>| Box::new(EthernetOut { arcs: cx.table(), output: cx.arc(INTERFACE_OUTPUT) }),
    ..NodeSpec::EMPTY
};

/// A frame as this node takes it, to leave by `tx_if`.
#[must_use]
pub fn frame(tx_if: IfIndex, bytes: Vec<u8>) -> OwnedPacket {
    let mut packet = OwnedPacket::new(tx_if, bytes);
    let meta = packet.meta_mut();
    meta.tx_if = tx_if;
    meta.flags.set(Flags::LOCAL);
    if packet.bytes().first().is_some_and(|octet| octet & 1 != 0) {
        packet.meta_mut().flags.set(Flags::GROUP);
    }
    packet
}

struct EthernetOut {
    arcs: Key<Arcs>,
    output: ArcPlace,
}

impl Node for EthernetOut {
    fn process(&mut self, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>) {
        let arcs = ctx.tables.get(self.arcs);
        frame.each(|slot| {
            let meta = ctx.packets.meta_mut(slot);
            let tx_if = meta.tx_if;
            match self.output.begin(arcs, tx_if, meta) {
                0 => ctx.drop(slot, Drop::InterfaceDown),
                edge => edge,
            }
        });
    }

    fn trace(&self, packets: &Packets, slot: SlotId, out: &mut dyn fmt::Write) -> fmt::Result {
        let frame = Describe::new(LinkType::ETHERNET, packets.head(slot));
        write!(out, "{frame} interface {}", packets.meta(slot).tx_if)
    }
}
