//! `ip6-local`: IPv6 packets to one of our addresses, or to a group of a link, told apart by protocol.
//!
//! | edge | packets |
//! |---|---|
//! | *child by IP protocol* | whole packets |
//! | *child by UDP port* | whole packets to ports that tunnels listen on |
//! | `ip6-reassembly` | fragments of packets for such a child |
//! | `icmp6-error` | nothing here takes the protocol or an option, or (UDP, TCP) listens on a port |
//! | *arc `interface-output`* | nothing here takes it, but there is an interface to punt it to |
//! | `drop` | see [`Drop`] |

use super::delivery::{Heard, Listeners, Punt, edges};
use super::extensions::{self, NEXT_HEADER_AT, Refusal};
use crate::icmp::request_v6;
use crate::ip::NextHopKind;
use core::fmt;
use graph::nodes::INTERFACE_OUTPUT;
use graph::packet::{Packets, SlotId};
use graph::{Attach, Ctx, Frame, Node, NodeContext, NodeSpec};
use wire::ipv6::walk;
use wire::{Icmpv6Error, IpProtocol, Ipv6Header};

graph::edges! {
    /// Where a packet goes from here, besides the children.
    pub enum Next { Drop => "drop", IcmpError => "icmp6-error", Reassembly => "ip6-reassembly" }
}

graph::drops! {
    /// Why a packet isn't delivered.
    pub enum Drop {
        /// The packet is a fragment of one that nothing here takes.
        Fragment => "fragment", Loss,
        /// An option says that the packet is to be dropped where the option isn't known.
        UnknownOption => "unknown-option", Info,
        /// The extension headers are more, or longer, than is looked at.
        TooManyExtensions => "too-many-extensions", Loss,
        /// Nothing here listens to what is sent to a group.
        NoListener => "no-listener", Info,
        /// Nothing follows the headers.
        NoNextHeader => "no-next-header", Info,
        /// The packet is of a protocol that nothing here takes; the sender is told.
        UnknownProtocol => "unknown-protocol", Info,
        /// Nothing here listens on the UDP or TCP port; the sender is told.
        PortUnreachable => "port-unreachable", Info,
        /// The packet has options, a routing header or an authentication header that nothing here takes; the sender is told.
        ParameterProblem => "parameter-problem", Info,
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
    name: "ip6-local",
    help: "Delivers IPv6 packets to our own addresses.",
    edges: Next::NAMES,
    drops: Drop::SPECS,
    counters: Counter::SPECS,
    attach: &[Attach { parent: "ip6-lookup", key: NextHopKind::Local as u32 }],
    starts: &[INTERFACE_OUTPUT],
    make: |cx: &NodeContext<'_>| {
        Box::new(Ip6Local { edges: edges(cx), listeners: Listeners::new(cx), punt: Punt::new(cx) })
    },
    ..NodeSpec::EMPTY
};

struct Ip6Local {
    /// By protocol.
    edges: [u8; 256],
    listeners: Listeners,
    punt: Punt,
}

impl Node for Ip6Local {
    fn process(&mut self, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>) {
        self.listeners.begin();
        frame.each(|slot| self.packet(ctx, slot).unwrap_or_else(|reason| ctx.drop(slot, reason)));
    }

    fn trace(&self, packets: &Packets, slot: SlotId, out: &mut dyn fmt::Write) -> fmt::Result {
        match packets.header::<Ipv6Header>(slot, packets.meta(slot).l3) {
            Some(header) => write!(out, "{} to {}", header.next_header, header.dst()),
            None => out.write_str("no header"),
        }
    }
}

impl Ip6Local {
    fn packet(&mut self, ctx: &mut Ctx<'_>, slot: SlotId) -> Result<u8, Drop> {
        let meta = ctx.packets.meta(slot);
        let header = *ctx.packets.header::<Ipv6Header>(slot, meta.l3).ok_or(Drop::BadPacket)?;
        let (mut protocol, mut named_at) = (header.next_header, NEXT_HEADER_AT);
        if protocol.is_extension() {
            let head = ctx.packets.head(slot);
            let upper = walk(head).map_err(|_| Drop::TooManyExtensions)?;
            if upper.is_fragment() {
                let known = match self.edges[usize::from(upper.protocol.0)] {
                    0 if upper.protocol == IpProtocol::UDP => self.heard(ctx, slot, &header, true).is_some(),
                    // What comes behind a further extension header shows when the packet is whole.
                    edge => edge != 0 || upper.protocol.is_extension(),
                };
                return match known {
                    true => Ok(Next::Reassembly.edge()),
                    false => self.punted(ctx, slot).ok_or(Drop::Fragment),
                };
            }
            if let Err(refusal) = extensions::check(head, upper.offset) {
                let Refusal::Tell(error) = refusal else { return Err(Drop::UnknownOption) };
                request_v6(ctx.packets.meta_mut(slot), error);
                return Ok(ctx.refuse(slot, Drop::ParameterProblem, Next::IcmpError.edge()));
            }
            (protocol, named_at) = (upper.protocol, upper.next_header_at);
        }
        match self.edges[usize::from(protocol.0)] {
            0 if protocol == IpProtocol::NO_NEXT_HEADER => Err(Drop::NoNextHeader),
            0 => {
                if protocol == IpProtocol::UDP
                    && let Some(Heard::By(edge)) = self.heard(ctx, slot, &header, false)
                {
                    ctx.count(Counter::Delivered, 1);
                    return Ok(edge);
                }
                match self.punted(ctx, slot) {
                    Some(edge) => Ok(edge),
                    None => refuse(ctx, slot, &header, protocol, named_at),
                }
            }
            edge => {
                ctx.count(Counter::Delivered, 1);
                Ok(edge)
            }
        }
    }
}

impl Ip6Local {
    /// Who takes a UDP packet.
    fn heard(&mut self, ctx: &Ctx<'_>, slot: SlotId, header: &Ipv6Header, fragment: bool) -> Option<Heard> {
        self.listeners.heard(ctx, slot, header.dst().into(), fragment)
    }

    /// The edge to the application that takes what nothing here does, if there is one.
    fn punted(&self, ctx: &mut Ctx<'_>, slot: SlotId) -> Option<u8> {
        let edge = self.punt.hand(ctx, slot)?;
        ctx.count(Counter::Punted, 1);
        Some(edge)
    }
}

/// Nothing takes the packet of `protocol`, which the byte at `named_at` names.
fn refuse(
    ctx: &mut Ctx<'_>,
    slot: SlotId,
    header: &Ipv6Header,
    protocol: IpProtocol,
    named_at: usize,
) -> Result<u8, Drop> {
    if header.dst().is_multicast() {
        return Err(Drop::NoListener);
    }
    let (reason, error) = match protocol {
        IpProtocol::UDP | IpProtocol::TCP => (Drop::PortUnreachable, Icmpv6Error::PortUnreachable),
        _ => (Drop::UnknownProtocol, Icmpv6Error::UnknownNextHeader { pointer: named_at as u32 }),
    };
    request_v6(ctx.packets.meta_mut(slot), error);
    Ok(ctx.refuse(slot, reason, Next::IcmpError.edge()))
}
