//! `ip4-local`: IPv4 packets to one of our addresses, or to all stations of a link, told apart by protocol.
//!
//! | edge | packets |
//! |---|---|
//! | *child by IP protocol* | whole packets |
//! | *child by UDP port* | whole packets to ports that tunnels listen on |
//! | `ip4-reassembly` | fragments of packets for such a child |
//! | `icmp4-error` | nothing here takes the protocol, or (UDP, TCP) listens on a port |
//! | *arc `interface-output`* | nothing here takes it, but there is an interface to punt it to |
//! | `drop` | see [`Drop`] |

use super::delivery::{Heard, Listeners, Punt, edges};
use crate::icmp::request_v4;
use crate::ip::NextHopKind;
use core::fmt;
use graph::nodes::INTERFACE_OUTPUT;
use graph::packet::{Packets, SlotId};
use graph::{Attach, Ctx, Frame, Node, NodeContext, NodeSpec};
use wire::ipv4::{Ipv4Class, Ipv4Kind};
use wire::{Icmpv4Error, IpProtocol, Ipv4Header};

graph::edges! {
    /// Where a packet goes from here, besides the children.
    pub enum Next { Drop => "drop", IcmpError => "icmp4-error", Reassembly => "ip4-reassembly" }
}

graph::drops! {
    /// Why a packet isn't delivered.
    pub enum Drop {
        /// The packet is a fragment of one that nothing here takes.
        Fragment => "fragment", Loss,
        /// Nothing here listens to what is sent to all stations.
        NoListener => "no-listener", Info,
        /// The packet is of a protocol that nothing here takes; the sender is told.
        ProtocolUnreachable => "protocol-unreachable", Info,
        /// Nothing here listens on the UDP or TCP port; the sender is told.
        PortUnreachable => "port-unreachable", Info,
        /// The header doesn't lie in the head of the packet.
        BadPacket => "bad-packet", Invalid,
    }
}

graph::counters! {
    /// What is counted.
    pub enum Counter {
        /// Packets handed to a protocol.
        Delivered => "delivered",
        /// Packets that nothing here takes, sent to the punt-inject interface of their VRF.
        Punted => "punted",
    }
}

/// The node's declaration.
pub const NODE: NodeSpec = NodeSpec {
    name: "ip4-local",
    help: "Delivers IPv4 packets to our own addresses.",
    edges: Next::NAMES,
    drops: Drop::SPECS,
    counters: Counter::SPECS,
    attach: &[Attach { parent: "ip4-lookup", key: NextHopKind::Local as u32 }],
    starts: &[INTERFACE_OUTPUT],
    make: |cx: &NodeContext<'_>| {
        Box::new(Ip4Local { edges: edges(cx), listeners: Listeners::new(cx), punt: Punt::new(cx) })
    },
    ..NodeSpec::EMPTY
};

struct Ip4Local {
    /// By protocol.
    edges: [u8; 256],
    listeners: Listeners,
    punt: Punt,
}

impl Node for Ip4Local {
    fn process(&mut self, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>) {
        self.listeners.begin();
        frame.each(|slot| {
            let meta = ctx.packets.meta(slot);
            let Some(header) = ctx.packets.header::<Ipv4Header>(slot, meta.l3).copied() else {
                return ctx.drop(slot, Drop::BadPacket);
            };
            match self.edges[usize::from(header.protocol.0)] {
                0 => self.unclaimed(ctx, slot, &header),
                _ if header.is_fragment() => Next::Reassembly.edge(),
                edge => {
                    ctx.count(Counter::Delivered, 1);
                    edge
                }
            }
        });
    }

    fn trace(&self, packets: &Packets, slot: SlotId, out: &mut dyn fmt::Write) -> fmt::Result {
        match packets.header::<Ipv4Header>(slot, packets.meta(slot).l3) {
            Some(header) => write!(out, "{} to {}", header.protocol, header.dst()),
            None => out.write_str("no header"),
        }
    }
}

impl Ip4Local {
    /// Nothing takes all packets of the protocol.
    fn unclaimed(&mut self, ctx: &mut Ctx<'_>, slot: SlotId, header: &Ipv4Header) -> u8 {
        if header.protocol == IpProtocol::UDP {
            match self.listeners.heard(ctx, slot, header.dst().into(), header.is_fragment()) {
                Some(Heard::By(edge)) => {
                    ctx.count(Counter::Delivered, 1);
                    return edge;
                }
                Some(Heard::WhenWhole) => return Next::Reassembly.edge(),
                None => {}
            }
        }
        match self.punt.hand(ctx, slot) {
            Some(edge) => {
                ctx.count(Counter::Punted, 1);
                edge
            }
            None if header.is_later_fragment() => ctx.drop(slot, Drop::Fragment),
            None => refuse(ctx, slot, header),
        }
    }
}

/// Nothing takes the packet.
fn refuse(ctx: &mut Ctx<'_>, slot: SlotId, header: &Ipv4Header) -> u8 {
    if !matches!(header.dst().kind(), Ipv4Kind::Unicast | Ipv4Kind::LinkLocal) {
        return ctx.drop(slot, Drop::NoListener);
    }
    let (reason, error) = match header.protocol {
        IpProtocol::UDP | IpProtocol::TCP => (Drop::PortUnreachable, Icmpv4Error::PortUnreachable),
        _ => (Drop::ProtocolUnreachable, Icmpv4Error::ProtocolUnreachable),
    };
    request_v4(ctx.packets.meta_mut(slot), error);
    ctx.refuse(slot, reason, Next::IcmpError.edge())
}
