//! Sends every packet to the peer of the interface it came in by, without looking at it.
//!
//! | edge | packets |
//! |---|---|
//! | *arc `interface-output`* of the peer | all |
//! | `drop` | see [`Drop`] |

use crate::interface::{Interface, Interfaces, Layer2, LinkMode, fits, received_by_group};
use core::fmt;
use graph::arc::{ArcPlace, Arcs};
use graph::nodes::{DEVICE_INPUT, INTERFACE_OUTPUT};
use graph::packet::{Packets, SlotId};
use graph::publish::Key;
use graph::{Ctx, Frame, IfIndex, Node, NodeContext, NodeSpec};
use wire::EthernetHeader;

graph::edges! {
    /// Where a packet goes from here, besides the arc.
    pub enum Next { Drop => "drop" }
}

graph::drops! {
    /// Why a packet isn't sent.
    pub enum Drop {
        /// The interface has no peer, or its peer is administratively down.
        PeerDown => "peer-down", Loss,
        /// The packet is longer than the peer's MTU allows.
        TooLong => "too-long", Loss,
    }
}

/// The node's declaration.
pub const NODE: NodeSpec = NodeSpec {
    name: "cross-connect",
    help: "Sends frames to the interface that theirs is joined to.",
    edges: Next::NAMES,
    drops: Drop::SPECS,
    starts: &[INTERFACE_OUTPUT],
    ends: &[DEVICE_INPUT],
    make: |cx: &NodeContext<'_>| {
        Box::new(CrossConnect { interfaces: cx.table(), arcs: cx.table(), output: cx.arc(INTERFACE_OUTPUT) })
    },
    ..NodeSpec::EMPTY
};

struct CrossConnect {
    interfaces: Key<Interfaces>,
    arcs: Key<Arcs>,
    output: ArcPlace,
}

/// Where packets of one interface go.
struct Way<'t> {
    rx_if: IfIndex,
    peer: IfIndex,
    entry: &'t Interface,
    edge: u8,
    /// Longest packet that needs no second look.
    limit: u32,
    /// The bit of a packet's first octet that says that it is for a group; none where packets have no link-layer header.
    group: u8,
}

impl CrossConnect {
    #[inline(always)]
    fn way<'t>(&self, interfaces: &'t Interfaces, arcs: &Arcs, rx_if: IfIndex) -> Way<'t> {
        let peer = match interfaces.get(rx_if).layer2 {
            Layer2::CrossConnect { peer } => peer,
            _ => 0,
        };
        let entry = interfaces.get(peer);
        let group = u8::from(entry.mode == LinkMode::Ethernet);
        Way { rx_if, peer, entry, edge: self.output.edge(arcs, peer, 0), limit: entry.frame_limit(), group }
    }
}

/// Counts the frames to groups: there are some.
#[cold]
fn count_groups(ctx: &mut Ctx<'_>, interfaces: &Interfaces, frame: &Frame<'_>) {
    for slot in frame.slots {
        let at = ctx.packets.meta(*slot).data;
        let Some(dst) = ctx.packets.header::<EthernetHeader>(*slot, at).map(|header| header.dst) else {
            continue;
        };
        let meta = ctx.packets.meta_mut(*slot);
        if dst.is_multicast() && interfaces.get(meta.rx_if).mode == LinkMode::Ethernet {
            received_by_group(ctx.counters, meta, dst);
        }
    }
}

impl Node for CrossConnect {
    fn process(&mut self, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>) {
        let tables = ctx.tables;
        let (interfaces, arcs) = (tables.get(self.interfaces), tables.get(self.arcs));
        let mut way = self.way(interfaces, arcs, 0);
        let mut longest_over = false;
        let mut groups = 0;
        frame.each(|slot| {
            let (meta, area) = ctx.packets.parts_mut(slot);
            if meta.rx_if != way.rx_if {
                way = self.way(interfaces, arcs, meta.rx_if);
            }
            meta.tx_if = way.peer;
            meta.arc = 0;
            groups |= area.get(meta.data as usize).map_or(0, |octet| octet & way.group);
            longest_over |= meta.len() > way.limit || way.edge == 0;
            way.edge
        });
        if longest_over {
            self.second_look(ctx, frame);
        }
        if groups != 0 {
            count_groups(ctx, interfaces, frame);
        }
    }

    fn trace(&self, packets: &Packets, slot: SlotId, out: &mut dyn fmt::Write) -> fmt::Result {
        let meta = packets.meta(slot);
        write!(out, "interface {} > interface {}", meta.rx_if, meta.tx_if)
    }
}

impl CrossConnect {
    /// Some packet can't go: finds out which, and why.
    #[cold]
    fn second_look(&self, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>) {
        let tables = ctx.tables;
        let (interfaces, arcs) = (tables.get(self.interfaces), tables.get(self.arcs));
        frame.each(|slot| {
            let way = self.way(interfaces, arcs, ctx.packets.meta(slot).rx_if);
            if way.edge == 0 {
                ctx.drop(slot, Drop::PeerDown)
            } else if !fits(ctx.packets, slot, way.entry) {
                ctx.drop(slot, Drop::TooLong)
            } else {
                way.edge
            }
        });
    }
}
