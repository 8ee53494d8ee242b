//! Answers ARP requests and neighbour solicitations for neighbours of the BVI, so that they needn't be flooded (ARP
//! termination). What routing knows of its neighbours is what it answers from.
//!
//! | edge | packets |
//! |---|---|
//! | *arc `interface-output`* of the member that asked | answers |
//! | `bridge-flood` | everything else |
//! | `drop` | see [`Drop`] |

use super::answer::answer;
use super::port::Source;
use super::table::Bridges;
use crate::interface::Interfaces;
use crate::ip::{Fibs, NextHopKind, NextHops, VrfTables};
use core::fmt;
use core::net::{IpAddr, Ipv6Addr};
use graph::arc::{ArcPlace, Arcs};
use graph::nodes::INTERFACE_OUTPUT;
use graph::packet::{Flags, Offload, Packets, SlotId};
use graph::publish::Key;
use graph::{Ctx, Frame, IfIndex, Node, NodeContext, NodeSpec};
use wire::MacAddr;

graph::edges! {
    /// Where a packet goes from here, besides the arc.
    pub enum Next { Drop => "drop", Flood => "bridge-flood" }
}

graph::drops! {
    /// Why a frame goes no further.
    pub enum Drop {
        /// The bridge doesn't flood broadcast and multicast.
        FloodOff => "flood-off", Info,
        /// The member that has asked went down.
        MemberDown => "member-down", Loss,
        /// There is no room for the answer.
        NoRoom => "no-room", Invalid,
    }
}

graph::counters! {
    /// What was done.
    pub enum Counter {
        /// Questions answered for a neighbour.
        Answered => "answered",
    }
}

/// The node's declaration.
pub const NODE: NodeSpec = NodeSpec {
    name: "bridge-answer",
    help: "Answers ARP requests and neighbour solicitations for the BVI's neighbours.",
    edges: Next::NAMES,
    drops: Drop::SPECS,
    counters: Counter::SPECS,
    starts: &[INTERFACE_OUTPUT],
    make: |cx: &NodeContext<'_>| {
        Box::new(BridgeAnswer {
            bridges: cx.table(),
            interfaces: cx.table(),
            fibs: cx.table(),
            hops: cx.table(),
            arcs: cx.table(),
            output: cx.arc(INTERFACE_OUTPUT),
        })
    },
    ..NodeSpec::EMPTY
};

struct BridgeAnswer {
    bridges: Key<Bridges>,
    interfaces: Key<Interfaces>,
    fibs: Key<Fibs>,
    hops: Key<NextHops>,
    arcs: Key<Arcs>,
    output: ArcPlace,
}

/// What routing knows of the neighbours of one BVI.
struct Neighbours<'t> {
    bvi: IfIndex,
    vrf: Option<&'t VrfTables>,
    hops: &'t NextHops,
}

impl Neighbours<'_> {
    /// The neighbour of that address, if its link-layer address is known.
    fn mac(&self, address: IpAddr) -> Option<MacAddr> {
        let (id, own): (_, Ipv6Addr) = match address {
            IpAddr::V4(address) => (self.vrf?.v4.lookup(address.to_bits()), address.to_ipv6_mapped()),
            IpAddr::V6(address) => (self.vrf?.v6.lookup(address.to_bits()), address),
        };
        let hop = self.hops.get(id.0);
        // A route through a neighbour leads to the neighbour's address, not to the one that was asked for.
        let neighbour =
            hop.kind == NextHopKind::Rewrite && hop.tx_if == self.bvi && hop.address == own.octets();
        let mac = hop.header.first_chunk().filter(|_| neighbour && hop.header_len >= 14)?;
        Some(MacAddr(*mac))
    }
}

impl Node for BridgeAnswer {
    fn process(&mut self, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>) {
        let tables = ctx.tables;
        let (bridges, interfaces) = (tables.get(self.bridges), tables.get(self.interfaces));
        let (fibs, hops, arcs) = (tables.get(self.fibs), tables.get(self.hops), tables.get(self.arcs));
        let mut answered = 0;
        frame.each(|slot| {
            let source = Source::new(bridges, interfaces, ctx.packets.meta(slot).rx_if);
            let bvi = source.bridge.bvi;
            let neighbours = Neighbours { bvi, vrf: fibs.get(interfaces.get(bvi).vrf), hops };
            let Some(answer) = answer(ctx.packets.head(slot), |address| neighbours.mac(address)) else {
                return match source.bridge.flood {
                    true => Next::Flood.edge(),
                    false => ctx.drop(slot, Drop::FloodOff),
                };
            };
            ctx.packets.truncate(slot, 0);
            if !ctx.packets.append(slot, answer.bytes()) {
                return ctx.drop(slot, Drop::NoRoom);
            }
            answered += 1;
            let meta = ctx.packets.meta_mut(slot);
            meta.l2 = meta.data;
            meta.flags.set(Flags::LOCAL);
            meta.offload = Offload::default();
            meta.tx_if = source.interface;
            match self.output.begin(arcs, source.interface, meta) {
                0 => ctx.drop(slot, Drop::MemberDown),
                edge => edge,
            }
        });
        ctx.count(Counter::Answered, answered);
    }

    fn trace(&self, packets: &Packets, slot: SlotId, out: &mut dyn fmt::Write) -> fmt::Result {
        let meta = packets.meta(slot);
        let what = if meta.flags.has(Flags::LOCAL) { "answered" } else { "not answered" };
        write!(out, "{what}, from interface {}", meta.rx_if)
    }
}
