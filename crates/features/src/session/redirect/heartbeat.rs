//! `redirect-heartbeat`: hears the frames of our own that come back through an engine.
//!
//! | edge | packets |
//! |---|---|
//! | `drop` | see [`Drop`] |
//!
//! Heartbeats end here.
//!
//! They are Ethernet frames of ethertype 0x88b6, which IEEE 802 leaves to whoever is on the link ("local experimental 2"): an engine in the wire passes what it
//! doesn't know, and has no rule that it drops such frames by.

use crate::session::Tenants;
use core::fmt;
use graph::packet::{Packets, SlotId};
use graph::publish::Key;
use graph::{Attach, Ctx, Frame, GONE, Node, NodeContext, NodeSpec};
use wire::{EthernetHeader, Header, MacAddr};

/// IEEE Std 802 - Local Experimental Ethertype 2.
const ETHERTYPE: u16 = 0x88b6;
/// What they say, padded to the shortest frame there is.
const SAYS: &[u8] = b"quiver: is the engine there?";
/// Bytes of the shortest Ethernet frame, without FCS.
const SHORTEST: usize = 60;

graph::edges! {
    /// Where frames go.
    enum Next { Drop => "drop" }
}

graph::drops! {
    /// Why a frame goes no further.
    enum Drop {
        /// It came by an interface that is no engine's, or isn't ours.
        Stray => "stray", Info,
    }
}

graph::counters! {
    /// What is counted.
    enum Counter {
        /// Heartbeats that came back through an engine.
        Heard => "heard",
    }
}

/// The node's declaration.
pub(super) const NODE: NodeSpec = NodeSpec {
    name: "redirect-heartbeat",
    help: "Hears heartbeats that come back through engines.",
    edges: Next::NAMES,
    drops: Drop::SPECS,
    counters: Counter::SPECS,
    attach: &[Attach { parent: "ethernet-input", key: ETHERTYPE as u32 }],
    make: |cx: &NodeContext<'_>| Box::new(Heartbeat { tenants: cx.table() }),
    ..NodeSpec::EMPTY
};

/// A heartbeat from one interface to the other.
#[must_use]
pub fn frame(src: MacAddr, dst: MacAddr) -> Vec<u8> {
    let mut bytes = [dst.0.as_slice(), &src.0, &ETHERTYPE.to_be_bytes(), SAYS].concat();
    bytes.resize(SHORTEST, 0);
    bytes
}

struct Heartbeat {
    tenants: Key<Tenants>,
}

impl Node for Heartbeat {
    fn process(&mut self, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>) {
        let (tables, now) = (ctx.tables, ctx.now);
        let engines = &tables.get(self.tenants).engines;
        frame.each(|slot| {
            let side = engines.get(ctx.packets.meta(slot).rx_if);
            let Some(side) = side.filter(|_| ctx.packets.head(slot).starts_with(SAYS)) else {
                return ctx.drop(slot, Drop::Stray);
            };
            let (engine, sides) = &side.engine;
            sides.iter().enumerate().filter(|(_, is)| **is).for_each(|(side, _)| engine.beat(side, now));
            ctx.count(Counter::Heard, 1);
            GONE
        });
    }

    fn trace(&self, packets: &Packets, slot: SlotId, out: &mut dyn fmt::Write) -> fmt::Result {
        let meta = packets.meta(slot);
        match packets.header::<EthernetHeader>(slot, meta.l2) {
            Some(header) => write!(out, "from {} interface {}", header.src, meta.rx_if),
            None => Ok(()),
        }
    }
}

const _: () = assert!(EthernetHeader::LEN + SAYS.len() <= SHORTEST);
