//! Takes packets of interfaces without a link-layer header (memif in IP mode, tun) and tells IPv4 from IPv6. Those that an application
//! injects (memif in punt/inject mode) are our own from here on: nothing is taken from their time to live.
//!
//! | edge | packets |
//! |---|---|
//! | *child under key 4* | IPv4 |
//! | *child under key 6* | IPv6 |
//! | `drop` | see [`Drop`] |

use crate::interface::Interfaces;
use core::fmt;
use graph::nodes::DEVICE_INPUT;
use graph::packet::{Flags, Packets, SlotId};
use graph::publish::Key;
use graph::{Ctx, Frame, Node, NodeContext, NodeSpec};

graph::edges! {
    /// Where a packet goes from here, besides the children.
    pub enum Next { Drop => "drop" }
}

graph::drops! {
    /// Why a packet goes no further.
    pub enum Drop {
        /// The packet begins with neither IP version 4 nor 6.
        BadVersion => "bad-version", Invalid,
    }
}

/// The node's declaration.
pub const NODE: NodeSpec = NodeSpec {
    name: "l3-input",
    help: "Tells IPv4 from IPv6 on interfaces without a link-layer header.",
    edges: Next::NAMES,
    drops: Drop::SPECS,
    ends: &[DEVICE_INPUT],
    make,
    ..NodeSpec::EMPTY
};

struct L3Input {
    interfaces: Key<Interfaces>,
    /// Edge by version nibble; 0: nobody takes it.
    edges: [u8; 16],
}

fn make(cx: &NodeContext<'_>) -> Box<dyn Node> {
    let mut edges = [0; 16];
    for (version, edge) in cx.children() {
        if let Some(place) = edges.get_mut(*version as usize) {
            *place = *edge;
        }
    }
    Box::new(L3Input { interfaces: cx.table(), edges })
}

impl Node for L3Input {
    fn process(&mut self, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>) {
        let tables = ctx.tables;
        let interfaces = tables.get(self.interfaces);
        let (mut rx_if, mut vrf, mut own) = (0, 0, false);
        frame.each(|slot| {
            let (meta, area) = ctx.packets.parts_mut(slot);
            if meta.rx_if != rx_if {
                rx_if = meta.rx_if;
                let interface = interfaces.get(rx_if);
                (vrf, own) = (interface.vrf, interface.punt_inject);
            }
            if own {
                meta.flags.set(Flags::LOCAL);
            }
            meta.l2 = meta.data;
            meta.l3 = meta.data;
            meta.table = vrf;
            // A packet has at least one byte; were it empty, what lies there would be an older packet's.
            let version =
                if meta.end > meta.data { area.get(meta.data as usize).map_or(0, |b| b >> 4) } else { 0 };
            match self.edges[(version & 15) as usize] {
                0 => ctx.drop(slot, Drop::BadVersion),
                edge => edge,
            }
        });
    }

    fn trace(&self, packets: &Packets, slot: SlotId, out: &mut dyn fmt::Write) -> fmt::Result {
        let meta = packets.meta(slot);
        write!(out, "{} bytes, interface {}", meta.len(), meta.rx_if)
    }
}
