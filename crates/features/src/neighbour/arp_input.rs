//! `arp-input`: answers ARP requests for our addresses and for those we stand in for, and tells the control thread what
//! it doesn't know of our neighbours (RFC 826, RFC 1027, RFC 5227).
//!
//! | edge | packets |
//! |---|---|
//! | *arc `interface-output`* of the interface it came in by | answers, made in the request's slot |
//! | *control thread*, kind [`ARP`] | a copy, where there is something to learn or confirm |
//! | `drop` | see [`Drop`] |
//!
//! What the forwarding tables say already is not told: a flood of requests from a known neighbour costs a lookup each.

use super::ARP;
use super::claim::{Claim, ClaimKeys};
use super::own::{is_own, is_proxied};
use crate::bridge::Origins;
use crate::interface::{Interfaces, Limiter};
use core::fmt;
use core::net::IpAddr;
use graph::arc::{ArcPlace, Arcs};
use graph::nodes::INTERFACE_OUTPUT;
use graph::packet::{Flags, Offload, Packets, SlotId};
use graph::publish::Key;
use graph::{Attach, Ctx, Frame, Node, NodeContext, NodeKind, NodeSpec};
use wire::describe::Describe;
use wire::{ArpOperation, ArpPacket, ArpReason, EtherType, EthernetHeader, Header, LinkType, MacAddr};

graph::edges! {
    /// Where a packet goes from here, besides the arc.
    pub enum Next { Drop => "drop" }
}

graph::drops! {
    /// Why an ARP packet has no effect.
    pub enum Drop {
        /// The packet is shorter than 28 bytes.
        TooShort => "too-short", Invalid,
        /// Hardware type or address length is not Ethernet's.
        NotEthernet => "not-ethernet", Invalid,
        /// Protocol type or address length is not IPv4's.
        NotIpv4 => "not-ip4", Invalid,
        /// The operation is neither request nor reply.
        UnknownOperation => "unknown-operation", Invalid,
        /// The sender's Ethernet address is a group's or zero.
        BadSenderMac => "bad-sender-mac", Invalid,
        /// The sender's IPv4 address is no address a host can have.
        BadSenderIp => "bad-sender-ip", Invalid,
        /// The sender is this interface: a loop sends our own packets back.
        Looped => "looped", Loss,
        /// A station claims one of our addresses; the control thread is told.
        Conflict => "address-conflict", Invalid,
        /// The packet is about other stations, or says what is known.
        NothingNew => "nothing-new", Info,
        /// The sender's address doesn't belong to the network of the interface.
        Elsewhere => "not-on-link", Loss,
        /// The control thread is told of no more packets from this interface for now.
        Limited => "limited", Loss,
        /// The interface is down.
        InterfaceDown => "interface-down", Loss,
        /// There is no room for an Ethernet header before the answer.
        NoHeadroom => "no-headroom", Bug,
    }
}

graph::counters! {
    /// What is done with ARP packets.
    pub enum Counter {
        /// Requests for our own addresses, answered.
        Answered => "answered",
        /// Requests for addresses in the interface's proxy ranges, answered.
        Proxied => "proxied",
        /// Packets that the control thread was told of.
        Told => "told",
        /// Packets whose sender claims one of our addresses.
        Conflicts => "conflicts",
    }
}

/// The node's declaration.
pub const NODE: NodeSpec = NodeSpec {
    name: "arp-input",
    help: "Answers ARP requests and tells the control thread of neighbours.",
    kind: NodeKind::Output,
    edges: Next::NAMES,
    drops: Drop::SPECS,
    counters: Counter::SPECS,
    attach: &[Attach { parent: "ethernet-input", key: EtherType::ARP.get() as u32 }],
    starts: &[INTERFACE_OUTPUT],
    make: |cx: &NodeContext<'_>| {
        Box::new(ArpInput {
            interfaces: cx.table(),
            claims: ClaimKeys::new(cx),
            arcs: cx.table(),
            output: cx.arc(INTERFACE_OUTPUT),
            origins: Origins::new(cx),
            limiter: super::TOLD,
        })
    },
    ..NodeSpec::EMPTY
};

struct ArpInput {
    interfaces: Key<Interfaces>,
    claims: ClaimKeys,
    arcs: Key<Arcs>,
    output: ArcPlace,
    origins: Origins,
    limiter: Limiter,
}

/// What becomes of a packet.
enum Verdict {
    Drop(Drop),
    /// The control thread knows; nothing is sent.
    Told,
    /// It has become an answer.
    Answer(u8),
}

impl Node for ArpInput {
    fn process(&mut self, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>) {
        for slot in frame.slots {
            let edge = match self.packet(ctx, *slot) {
                Verdict::Told => continue,
                Verdict::Drop(reason) => ctx.drop(*slot, reason),
                Verdict::Answer(edge) => edge,
            };
            ctx.emit(edge, *slot);
        }
    }

    fn trace(&self, packets: &Packets, slot: SlotId, out: &mut dyn fmt::Write) -> fmt::Result {
        let meta = packets.meta(slot);
        let frame = packets.area(slot).get(meta.l2 as usize..meta.end as usize).unwrap_or_default();
        write!(out, "{} interface {}", Describe::new(LinkType::ETHERNET, frame), meta.rx_if)
    }
}

impl ArpInput {
    fn packet(&mut self, ctx: &mut Ctx<'_>, slot: SlotId) -> Verdict {
        let tables = ctx.tables;
        let rx_if = ctx.packets.meta(slot).rx_if;
        let interface = tables.get(self.interfaces).get(rx_if);
        let arp = match ArpPacket::check(ctx.packets.head(slot)) {
            Ok(arp) => *arp,
            Err(reason) => return Verdict::Drop(refusal(reason)),
        };
        let (sender, target) = (IpAddr::V4(arp.sender()), IpAddr::V4(arp.target()));
        if arp.sender_mac == interface.mac {
            return Verdict::Drop(Drop::Looped);
        }
        if is_own(interface, sender) {
            ctx.count(Counter::Conflicts, 1);
            // The limit holds here too; what isn't told now is told with the next packet.
            let _ = self.tell(ctx, slot);
            return Verdict::Drop(Drop::Conflict);
        }
        let claims = self.claims.on(tables, interface.vrf, rx_if);
        let claim = claims.of(sender, arp.sender_mac);
        let ours = is_own(interface, target);
        if arp.operation == ArpOperation::REQUEST {
            let proxied = !ours && is_proxied(interface, &claims, sender, target);
            if ours || proxied {
                // A probe (sender 0.0.0.0) leads nowhere, so there is nothing to learn from it.
                if matches!(claim, Claim::Unknown | Claim::Moved) {
                    let _ = self.tell(ctx, slot);
                }
                ctx.count(if ours { Counter::Answered } else { Counter::Proxied }, 1);
                return self.answer(ctx, slot, &arp, interface.mac);
            }
        }
        match claim {
            Claim::Elsewhere => Verdict::Drop(Drop::Elsewhere),
            // An answer to our question is news even where it says what we know: the neighbour is alive.
            _ if ours => self.tell(ctx, slot),
            Claim::Moved => self.tell(ctx, slot),
            Claim::Known | Claim::Unknown => Verdict::Drop(Drop::NothingNew),
        }
    }

    /// Hands a copy to the control thread.
    fn tell(&mut self, ctx: &mut Ctx<'_>, slot: SlotId) -> Verdict {
        let origin = self.origins.of(ctx, slot);
        ctx.packets.truncate(slot, ArpPacket::LEN as u32);
        if self.limiter.allows(origin, ctx.now) && ctx.punt(ARP, slot, origin) {
            ctx.count(Counter::Told, 1);
            Verdict::Told
        } else {
            Verdict::Drop(Drop::Limited)
        }
    }

    /// Makes the packet the answer to itself.
    fn answer(&self, ctx: &mut Ctx<'_>, slot: SlotId, request: &ArpPacket, mac: MacAddr) -> Verdict {
        ctx.packets.truncate(slot, ArpPacket::LEN as u32);
        let reply = request.reply(mac);
        let ethernet = EthernetHeader { dst: request.sender_mac, src: mac, ethertype: EtherType::ARP };
        let fits = reply.emit(ctx.packets.head_mut(slot)).is_ok();
        let room = ctx.packets.prepend(slot, EthernetHeader::LEN as u16);
        let Some(true) = room.map(|room| fits && ethernet.emit(room).is_ok()) else {
            return Verdict::Drop(Drop::NoHeadroom);
        };
        let arcs = ctx.tables.get(self.arcs);
        let meta = ctx.packets.meta_mut(slot);
        meta.l2 = meta.data;
        meta.tx_if = meta.rx_if;
        meta.offload = Offload::default();
        meta.flags = Flags::NONE;
        meta.flags.set(Flags::LOCAL);
        match self.output.begin(arcs, meta.rx_if, meta) {
            0 => Verdict::Drop(Drop::InterfaceDown),
            edge => Verdict::Answer(edge),
        }
    }
}

fn refusal(reason: ArpReason) -> Drop {
    match reason {
        ArpReason::TooShort => Drop::TooShort,
        ArpReason::NotEthernet => Drop::NotEthernet,
        ArpReason::NotIpv4 => Drop::NotIpv4,
        ArpReason::UnknownOperation => Drop::UnknownOperation,
        ArpReason::BadSenderMac => Drop::BadSenderMac,
        ArpReason::BadSenderIp => Drop::BadSenderIp,
    }
}
