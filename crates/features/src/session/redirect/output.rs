//! `redirect-output`: gives packets an Ethernet header with which they go through an engine from one interface to the other.
//!
//! | edge | packets |
//! |---|---|
//! | *arc `interface-output`* of the engine's interface | all |
//! | `drop` | see [`Drop`] |
//!
//! As one interface would send to the other over a wire, so that an engine that changes nothing brings back what the other takes.

use crate::interface::{Interfaces, fits};
use core::fmt;
use graph::arc::{ArcPlace, Arcs};
use graph::nodes::INTERFACE_OUTPUT;
use graph::packet::{Packets, SlotId};
use graph::publish::Key;
use graph::{Ctx, Frame, IfIndex, Node, NodeContext, NodeSpec};
use wire::{EtherType, EthernetHeader, FromBytes, Header};

graph::edges! {
    /// Where packets go besides the arc.
    enum Next { Drop => "drop" }
}

graph::drops! {
    /// Why a packet isn't sent to its engine.
    enum Drop {
        /// The engine's interface is administratively down.
        InterfaceDown => "interface-down", Loss,
        /// The packet is longer than the MTU of the engine's interface: give that the largest that the tenant's interfaces have.
        TooLong => "too-long", Loss,
        /// There is no room for the Ethernet header before the packet.
        NoHeadroom => "no-headroom", Bug,
    }
}

/// The node's declaration.
pub(super) const NODE: NodeSpec = NodeSpec {
    name: "redirect-output",
    help: "Sends packets of redirected sessions to their engine.",
    edges: Next::NAMES,
    drops: Drop::SPECS,
    starts: &[INTERFACE_OUTPUT],
    make: |cx: &NodeContext<'_>| {
        Box::new(Output { interfaces: cx.table(), arcs: cx.table(), output: cx.arc(INTERFACE_OUTPUT) })
    },
    ..NodeSpec::EMPTY
};

struct Output {
    interfaces: Key<Interfaces>,
    arcs: Key<Arcs>,
    output: ArcPlace,
}

impl Node for Output {
    fn process(&mut self, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>) {
        let tables = ctx.tables;
        let (interfaces, arcs) = (tables.get(self.interfaces), tables.get(self.arcs));
        frame.each(|slot| match self.send(ctx.packets, slot, interfaces, arcs) {
            Ok(edge) => edge,
            Err(reason) => ctx.drop(slot, reason),
        });
    }

    fn trace(&self, packets: &Packets, slot: SlotId, out: &mut dyn fmt::Write) -> fmt::Result {
        write!(out, "to the engine by interface {}", packets.meta(slot).tx_if)
    }
}

impl Output {
    /// Gives a packet its header: the edge that it leaves by.
    fn send(
        &self,
        packets: &mut Packets,
        slot: SlotId,
        interfaces: &Interfaces,
        arcs: &Arcs,
    ) -> Result<u8, Drop> {
        let meta = packets.meta(slot);
        // Both are said by the service.
        let (by, other) = (meta.tx_if, meta.next_hop as IfIndex);
        let (interface, other) = (interfaces.get(by), interfaces.get(other));
        let is_v6 = packets.head(slot).first().is_some_and(|octet| octet >> 4 == 6);
        let ethertype = if is_v6 { EtherType::IPV6 } else { EtherType::IPV4 };
        let room = packets.prepend(slot, EthernetHeader::LEN as u16).ok_or(Drop::NoHeadroom)?;
        let (header, _) = EthernetHeader::mut_from_prefix(room).map_err(|_| Drop::NoHeadroom)?;
        *header = EthernetHeader { dst: other.mac, src: interface.mac, ethertype };
        let meta = packets.meta_mut(slot);
        meta.l2 = meta.data;
        if !fits(packets, slot, interface) {
            return Err(Drop::TooLong);
        }
        match self.output.begin(arcs, by, packets.meta_mut(slot)) {
            0 => Err(Drop::InterfaceDown),
            edge => Ok(edge),
        }
    }
}
