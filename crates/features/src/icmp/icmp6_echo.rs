//! `icmp6-echo`: answers echo requests (RFC 4443 section 4.2).
//!
//! | edge | packets |
//! |---|---|
//! | `ip6-lookup` | the reply |
//! | `drop` | see [`Drop`] |
//!
//! The request becomes the reply: addresses are exchanged, the checksum changes with the type (and, where the request went
//! to a group, with the address). The data is neither read nor copied; where it was damaged on the way here, the
//! checksum says so to whoever asked. Extension headers are left out of the reply.

use super::HOPS;
use super::own::{make_own, source};
use crate::interface::{Interface, Interfaces};
use core::fmt;
use core::net::{IpAddr, Ipv6Addr};
use graph::packet::{Packets, SlotId};
use graph::publish::Key;
use graph::{Attach, Ctx, Frame, Node, NodeContext, NodeSpec};
use wire::checksum::{self, Partial};
use wire::ipv6::{ALL_NODES, ALL_ROUTERS, solicited_node};
use wire::{Icmpv6Header, Icmpv6Type, IpProtocol, Ipv6Header, U16};

graph::edges! {
    /// Where a packet goes from here.
    pub enum Next { Drop => "drop", Lookup => "ip6-lookup" }
}

graph::drops! {
    /// Why a request isn't answered.
    pub enum Drop {
        /// The sender has no address to answer to.
        NoSender => "no-sender", Loss,
        /// The request went to a group and the interface has no address to answer from.
        NoSource => "no-source-address", Loss,
        /// The request went to a group that the interface isn't in.
        NotAMember => "not-a-member", Info,
        /// The headers don't lie in the head of the packet.
        BadPacket => "bad-packet", Invalid,
    }
}

graph::counters! {
    /// What is counted.
    pub enum Counter {
        /// Replies sent.
        Replies => "replies",
    }
}

/// The node's declaration.
pub const NODE: NodeSpec = NodeSpec {
    name: "icmp6-echo",
    help: "Answers ICMPv6 echo requests.",
    edges: Next::NAMES,
    drops: Drop::SPECS,
    counters: Counter::SPECS,
    attach: &[Attach { parent: "icmp6-input", key: Icmpv6Type::ECHO_REQUEST.0 as u32 }],
    make: |cx: &NodeContext<'_>| Box::new(Icmp6Echo { interfaces: cx.table() }),
    ..NodeSpec::EMPTY
};

struct Icmp6Echo {
    interfaces: Key<Interfaces>,
}

impl Node for Icmp6Echo {
    fn process(&mut self, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>) {
        let interfaces = ctx.tables.get(self.interfaces);
        let mut replies = 0;
        frame.each(|slot| match reply(ctx.packets, slot, interfaces) {
            Ok(()) => {
                make_own(ctx.packets.meta_mut(slot), interfaces);
                replies += 1;
                Next::Lookup.edge()
            }
            Err(reason) => ctx.drop(slot, reason),
        });
        ctx.count(Counter::Replies, replies);
    }

    fn trace(&self, packets: &Packets, slot: SlotId, out: &mut dyn fmt::Write) -> fmt::Result {
        match packets.header::<Icmpv6Header>(slot, packets.meta(slot).l4) {
            Some(header) => write!(out, "id {} sequence {}", header.echo_id(), header.echo_sequence()),
            None => Ok(()),
        }
    }
}

/// Turns a request into its reply.
fn reply(packets: &mut Packets, slot: SlotId, interfaces: &Interfaces) -> Result<(), Drop> {
    let meta = *packets.meta(slot);
    let mut ip = *packets.header::<Ipv6Header>(slot, meta.l3).ok_or(Drop::BadPacket)?;
    if ip.src().is_unspecified() || ip.src().is_multicast() {
        return Err(Drop::NoSender);
    }
    let from = if ip.dst().is_multicast() {
        if !is_member(interfaces.get(meta.rx_if), ip.dst()) {
            return Err(Drop::NotAMember);
        }
        match source(interfaces, meta.rx_if, ip.dst().into(), ip.src().into()) {
            Some(IpAddr::V6(own)) => own.octets(),
            _ => return Err(Drop::NoSource),
        }
    } else {
        ip.dst
    };
    let icmp = packets.header_mut::<Icmpv6Header>(slot, meta.l4).ok_or(Drop::BadPacket)?;
    icmp.turn_into_reply();
    if from != ip.dst {
        let (old, new) = (Partial::of(&ip.dst), Partial::of(&from));
        icmp.checksum = U16::new(checksum::update(icmp.checksum.get(), old, new));
    }
    // The IPv6 header moves up to the message, over extension headers.
    let at = meta
        .l4
        .checked_sub(size_of::<Ipv6Header>() as u16)
        .filter(|at| *at >= meta.l3)
        .ok_or(Drop::BadPacket)?;
    ip.payload_len = U16::new(ip.payload_len.get().wrapping_sub(at - meta.l3));
    ip.next_header = IpProtocol::ICMPV6;
    ip.hop_limit = HOPS;
    (ip.dst, ip.src) = (ip.src, from);
    *packets.header_mut::<Ipv6Header>(slot, at).ok_or(Drop::BadPacket)? = ip;
    packets.meta_mut(slot).data = at;
    Ok(())
}

/// Whether the interface is in the group: all nodes, all routers, or that of an own address (RFC 4291 section 2.8).
fn is_member(interface: &Interface, group: Ipv6Addr) -> bool {
    let all = [ALL_NODES, ALL_ROUTERS].contains(&group);
    all || interface.own().any(|own| match own.address {
        IpAddr::V6(address) => solicited_node(address) == group,
        IpAddr::V4(_) => false,
    })
}
