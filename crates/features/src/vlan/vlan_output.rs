//! Puts the tags of a VLAN sub-interface on and hands the frame to the interface below.
//!
//! | edge | packets |
//! |---|---|
//! | *arc `interface-output`* of the parent | tagged |
//! | `drop` | see [`Drop`] |

use super::tags::Push;
use crate::interface::{Direction, Interfaces, Tally};
use core::fmt;
use graph::arc::{ArcPlace, Arcs};
use graph::nodes::INTERFACE_OUTPUT;
use graph::packet::{Flags, Packets, SlotId};
use graph::publish::Key;
use graph::{Ctx, Frame, IfIndex, Node, NodeContext, NodeSpec};

graph::edges! {
    /// Where a packet goes from here, besides the arc.
    pub enum Next { Drop => "drop" }
}

graph::drops! {
    /// Why a frame isn't sent.
    pub enum Drop {
        /// The interface below the sub-interface is administratively down, or gone.
        ParentDown => "parent-down", Loss,
        /// There is no room left for the tags: the packet has too many headers.
        NoHeadroom => "no-headroom", Bug,
    }
}

/// The node's declaration.
pub const NODE: NodeSpec = NodeSpec {
    name: "vlan-output",
    help: "Puts VLAN tags on and sends by the interface below.",
    edges: Next::NAMES,
    drops: Drop::SPECS,
    starts: &[INTERFACE_OUTPUT],
    ends: &[INTERFACE_OUTPUT],
    make: |cx: &NodeContext<'_>| {
        Box::new(VlanOutput { interfaces: cx.table(), arcs: cx.table(), output: cx.arc(INTERFACE_OUTPUT) })
    },
    ..NodeSpec::EMPTY
};

struct VlanOutput {
    interfaces: Key<Interfaces>,
    arcs: Key<Arcs>,
    output: ArcPlace,
}

/// What is done with packets of one sub-interface.
#[derive(Default)]
struct Way {
    sub: IfIndex,
    parent: IfIndex,
    push: Push,
    edge: u8,
}

impl Node for VlanOutput {
    fn process(&mut self, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>) {
        let (tables, counters) = (ctx.tables, ctx.counters);
        let (interfaces, arcs) = (tables.get(self.interfaces), tables.get(self.arcs));
        let mut way = Way::default();
        let mut tally = Tally::default();
        frame.each(|slot| {
            let (meta, area) = ctx.packets.parts_mut(slot);
            if meta.tx_if != way.sub {
                way = self.way(interfaces, arcs, meta.tx_if);
            }
            let bytes = meta.len();
            if way.edge == 0 {
                return ctx.drop(slot, Drop::ParentDown);
            }
            if !way.push.apply(meta, area) {
                return ctx.drop(slot, Drop::NoHeadroom);
            }
            tally.add(counters, Direction::Tx, way.sub, bytes);
            if meta.flags.has(Flags::GROUP) {
                counters.interface(way.sub).sent_to_group(area.get(meta.data as usize..).unwrap_or_default());
            }
            meta.tx_if = way.parent;
            meta.arc = 0;
            way.edge
        });
        tally.flush(counters, Direction::Tx);
    }

    fn trace(&self, packets: &Packets, slot: SlotId, out: &mut dyn fmt::Write) -> fmt::Result {
        let meta = packets.meta(slot);
        match super::tags::read(packets.head(slot)) {
            Some(tagged) => write!(out, "vlan {}, interface {}", tagged.vlan, meta.tx_if),
            None => write!(out, "interface {}", meta.tx_if),
        }
    }
}

impl VlanOutput {
    #[inline]
    fn way(&self, interfaces: &Interfaces, arcs: &Arcs, sub: IfIndex) -> Way {
        let Some((parent, tags)) = interfaces.get(sub).vlan else { return Way { sub, ..Way::default() } };
        Way { sub, parent, push: Push::new(tags), edge: self.output.edge(arcs, parent, 0) }
    }
}
