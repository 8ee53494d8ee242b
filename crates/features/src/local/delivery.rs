//! What the nodes of local delivery share.

use crate::interface::{Interfaces, fits};
use crate::tunnel::{Encapsulation, Tunnels};
use core::net::IpAddr;
use graph::arc::{ArcPlace, Arcs};
use graph::nodes::INTERFACE_OUTPUT;
use graph::packet::SlotId;
use graph::publish::Key;
use graph::{Ctx, NodeContext};
use wire::UdpHeader;

/// A node's children by their 8-bit key (IP protocol, ICMP type): the edge to each, 0 where there is none.
pub(crate) fn edges(cx: &NodeContext<'_>) -> [u8; 256] {
    let mut edges = [0; 256];
    for (key, edge) in cx.children() {
        if let Some(place) = edges.get_mut(*key as usize) {
            *place = *edge;
        }
    }
    edges
}

/// The way of packets that nothing here takes to the application that may: by the punt-inject interface of their VRF.
pub(super) struct Punt {
    interfaces: Key<Interfaces>,
    arcs: Key<Arcs>,
    output: ArcPlace,
}

impl Punt {
    pub(super) fn new(cx: &NodeContext<'_>) -> Self {
        Self { interfaces: cx.table(), arcs: cx.table(), output: cx.arc(INTERFACE_OUTPUT) }
    }

    /// The edge on which the packet leaves, as it came, from its IP header on. `None`, and nothing changed, where there is no such
    /// interface or it is down, where the packet came in by it, or is longer than its MTU.
    pub(super) fn hand(&self, ctx: &mut Ctx<'_>, slot: SlotId) -> Option<u8> {
        let tables = ctx.tables;
        let (index, interface) = tables.get(self.interfaces).punt(ctx.packets.meta(slot).table)?;
        let edge = self.output.edge(tables.get(self.arcs), index, 0);
        if edge == 0 || ctx.packets.meta(slot).rx_if == index || !fits(ctx.packets, slot, interface) {
            return None;
        }
        let meta = ctx.packets.meta_mut(slot);
        (meta.tx_if, meta.arc, meta.data, meta.l2) = (index, 0, meta.l3, meta.l3);
        Some(edge)
    }
}

/// First of the keys under which nodes attach themselves to `ip4-local` and `ip6-local` that take UDP packets to some ports
/// only: this and the number of an [`Encapsulation`].
pub const UDP_LISTENERS: u32 = 0x100;

/// The nodes that listen on UDP ports: those of tunnels. Who asks has found that nothing takes all of UDP.
pub(super) struct Listeners {
    tunnels: Key<Tunnels>,
    /// By encapsulation.
    edges: [u8; Encapsulation::COUNT],
    /// VRF, address and port of the packet before in the vector, and the edge of who took it: one tunnel's packets come one behind the other.
    before: Option<((u16, IpAddr, u16), u8)>,
}

/// Who takes a UDP packet.
pub(super) enum Heard {
    /// The node behind this edge.
    By(u8),
    /// That shows when the packet is whole.
    WhenWhole,
}

impl Listeners {
    pub(super) fn new(cx: &NodeContext<'_>) -> Self {
        let mut edges = [0; Encapsulation::COUNT];
        for (key, edge) in cx.children() {
            let number = key.checked_sub(UDP_LISTENERS).and_then(|number| usize::try_from(number).ok());
            if let Some(place) = number.and_then(|number| edges.get_mut(number)) {
                *place = *edge;
            }
        }
        Self { tunnels: cx.table(), edges, before: None }
    }

    /// To be called for each vector: by now there may be other tunnels.
    pub(super) fn begin(&mut self) {
        self.before = None;
    }

    /// Who takes the UDP packet to our address `local`, a fragment or whole; `None`: nobody.
    pub(super) fn heard(
        &mut self,
        ctx: &Ctx<'_>,
        slot: SlotId,
        local: IpAddr,
        fragment: bool,
    ) -> Option<Heard> {
        let tunnels = ctx.table(self.tunnels);
        if tunnels.is_empty() {
            return None;
        }
        let meta = ctx.packets.meta(slot);
        if fragment {
            return tunnels.has_end(meta.table, local).then_some(Heard::WhenWhole);
        }
        let udp = ctx.packets.header::<UdpHeader>(slot, meta.l4).filter(|_| meta.l4 > meta.l3)?;
        let door = (meta.table, local, udp.dst_port.get());
        if let Some((known, edge)) = self.before
            && known == door
        {
            return Some(Heard::By(edge));
        }
        let listener = tunnels.listener(door.0, door.1, door.2)?;
        let edge = self.edges.get(listener as usize).copied().filter(|edge| *edge != 0)?;
        self.before = Some((door, edge));
        Some(Heard::By(edge))
    }
}
