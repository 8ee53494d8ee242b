//! `ip6-nd`: answers neighbour solicitations for our addresses and for those we stand in for, and tells the control
//! thread what it doesn't know of our neighbours (RFC 4861, RFC 4862 section 5.4).
//!
//! | edge | packets |
//! |---|---|
//! | *arc `interface-output`* of the interface it came in by | advertisements, made in the solicitation's slot |
//! | *control thread*, kind [`ND`] | a copy, where there is something to learn or confirm |
//! | `drop` | see [`Drop`] |
//!
//! Router solicitations and advertisements and redirects are counted and dropped: routes are configured.

use super::ND;
use super::claim::{Claim, ClaimKeys};
use super::frames;
use super::own::{is_own, is_proxied, own_v6};
use super::said::{Reader, Said};
use crate::bridge::Origins;
use crate::interface::{Interface, Interfaces, Limiter, LinkMode};
use core::fmt;
use core::net::IpAddr;
use graph::arc::{ArcPlace, Arcs};
use graph::nodes::INTERFACE_OUTPUT;
use graph::packet::{Flags, HEADROOM, Offload, Packets, SlotId};
use graph::publish::Key;
use graph::{Attach, Ctx, Frame, Node, NodeContext, NodeKind, NodeSpec};
use wire::describe::Describe;
use wire::{EthernetHeader, Icmpv6Type, LinkType, MacAddr};

graph::edges! {
    /// Where a packet goes from here, besides the arc.
    pub enum Next { Drop => "drop" }
}

graph::drops! {
    /// Why a message has no effect.
    pub enum Drop {
        /// The message is shorter than its fixed part.
        TooShort => "too-short", Invalid,
        /// The message is longer than any there is.
        TooLong => "too-long", Invalid,
        /// The hop limit isn't 255: the message comes from another link.
        BadHopLimit => "bad-hop-limit", Invalid,
        /// The checksum is wrong.
        BadChecksum => "bad-checksum", Invalid,
        /// The code isn't 0.
        BadCode => "bad-code", Invalid,
        /// An option has a wrong length.
        BadOption => "bad-option", Invalid,
        /// The target is a group.
        BadTarget => "bad-target", Invalid,
        /// The source address is of the wrong kind.
        BadSource => "bad-source", Invalid,
        /// The destination address is of the wrong kind.
        BadDestination => "bad-destination", Invalid,
        /// The sender tells a link-layer address but has no IPv6 address yet.
        UnexpectedOption => "unexpected-source-option", Invalid,
        /// The interface has no link-layer addresses.
        NotEthernet => "not-ethernet", Info,
        /// The sender is this interface: a loop sends our own packets back.
        Looped => "looped", Loss,
        /// A station claims one of our addresses; the control thread is told.
        Conflict => "address-conflict", Invalid,
        /// The message is about other stations, or says what is known.
        NothingNew => "nothing-new", Info,
        /// The address doesn't belong to the network of the interface.
        Elsewhere => "not-on-link", Loss,
        /// A router solicitation or advertisement, or a redirect: routes are configured here.
        RouterDiscovery => "router-discovery", Info,
        /// The control thread is told of no more messages from this interface for now.
        Limited => "limited", Loss,
        /// The interface is down.
        InterfaceDown => "interface-down", Loss,
    }
}

graph::counters! {
    /// What is done with neighbour discovery.
    pub enum Counter {
        /// Solicitations for our own addresses, answered.
        Answered => "answered",
        /// Solicitations for addresses in the interface's proxy ranges, answered.
        Proxied => "proxied",
        /// Messages that the control thread was told of.
        Told => "told",
        /// Messages whose sender claims one of our addresses.
        Conflicts => "conflicts",
    }
}

const fn icmp(kind: Icmpv6Type) -> Attach {
    Attach { parent: "icmp6-input", key: kind.0 as u32 }
}

/// The node's declaration.
pub const NODE: NodeSpec = NodeSpec {
    name: "ip6-nd",
    help: "Answers neighbour solicitations and tells the control thread of neighbours.",
    kind: NodeKind::Output,
    edges: Next::NAMES,
    drops: Drop::SPECS,
    counters: Counter::SPECS,
    attach: &[
        icmp(Icmpv6Type::ROUTER_SOLICITATION),
        icmp(Icmpv6Type::ROUTER_ADVERTISEMENT),
        icmp(Icmpv6Type::NEIGHBOR_SOLICITATION),
        icmp(Icmpv6Type::NEIGHBOR_ADVERTISEMENT),
        icmp(Icmpv6Type::REDIRECT),
    ],
    starts: &[INTERFACE_OUTPUT],
    make: |cx: &NodeContext<'_>| {
        Box::new(Ip6Nd {
            interfaces: cx.table(),
            claims: ClaimKeys::new(cx),
            arcs: cx.table(),
            output: cx.arc(INTERFACE_OUTPUT),
            origins: Origins::new(cx),
            limiter: super::TOLD,
            reader: Reader::default(),
        })
    },
    ..NodeSpec::EMPTY
};

struct Ip6Nd {
    interfaces: Key<Interfaces>,
    claims: ClaimKeys,
    arcs: Key<Arcs>,
    output: ArcPlace,
    origins: Origins,
    limiter: Limiter,
    reader: Reader,
}

/// What becomes of a packet.
enum Verdict {
    Drop(Drop),
    /// The control thread knows; nothing is sent.
    Told,
    /// It has become an answer.
    Answer(u8),
}

impl Node for Ip6Nd {
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

impl Ip6Nd {
    fn packet(&mut self, ctx: &mut Ctx<'_>, slot: SlotId) -> Verdict {
        let tables = ctx.tables;
        let rx_if = ctx.packets.meta(slot).rx_if;
        let interface = tables.get(self.interfaces).get(rx_if);
        if interface.mode != LinkMode::Ethernet {
            return Verdict::Drop(Drop::NotEthernet);
        }
        let l2 = ctx.packets.meta(slot).l2;
        let Some(from) = ctx.packets.header::<EthernetHeader>(slot, l2).map(|header| header.src) else {
            return Verdict::Drop(Drop::NotEthernet);
        };
        let said = match self.reader.read(ctx.packets, slot) {
            Ok(said) => said,
            Err(reason) => return Verdict::Drop(reason),
        };
        if from == interface.mac || said.mac == Some(interface.mac) {
            return Verdict::Drop(Drop::Looped);
        }
        if said.solicitation {
            self.solicited(ctx, slot, interface, from, said)
        } else {
            self.told(ctx, slot, interface, said)
        }
    }

    /// Somebody asks for an address.
    fn solicited(
        &mut self,
        ctx: &mut Ctx<'_>,
        slot: SlotId,
        interface: &Interface,
        from: MacAddr,
        said: Said,
    ) -> Verdict {
        let rx_if = ctx.packets.meta(slot).rx_if;
        let (src, target) = (IpAddr::V6(said.src), IpAddr::V6(said.target));
        if is_own(interface, src) {
            return self.conflict(ctx, slot);
        }
        let claims = self.claims.on(ctx.tables, interface.vrf, rx_if);
        let ours = is_own(interface, target);
        if !ours && !is_proxied(interface, &claims, src, target) {
            return Verdict::Drop(Drop::NothingNew);
        }
        if let Some(mac) = said.mac.filter(|mac| mac.is_unicast())
            && matches!(claims.of(src, mac), Claim::Unknown | Claim::Moved)
        {
            let _ = self.tell(ctx, slot);
        }
        ctx.count(if ours { Counter::Answered } else { Counter::Proxied }, 1);
        let to = said.mac.filter(|mac| mac.is_unicast()).unwrap_or(from);
        let source = if ours { said.target } else { own_v6(interface, said.src).unwrap_or(said.target) };
        let bytes = frames::advertisement(interface.mac, source, said.target, said.src, to);
        self.answer(ctx, slot, &bytes)
    }

    /// Somebody says who has an address.
    fn told(&mut self, ctx: &mut Ctx<'_>, slot: SlotId, interface: &Interface, said: Said) -> Verdict {
        let rx_if = ctx.packets.meta(slot).rx_if;
        let target = IpAddr::V6(said.target);
        if is_own(interface, target) {
            return self.conflict(ctx, slot);
        }
        let claims = self.claims.on(ctx.tables, interface.vrf, rx_if);
        match claims.of(target, said.mac.unwrap_or(MacAddr::ZERO)) {
            Claim::Elsewhere => Verdict::Drop(Drop::Elsewhere),
            _ => self.tell(ctx, slot),
        }
    }

    fn conflict(&mut self, ctx: &mut Ctx<'_>, slot: SlotId) -> Verdict {
        ctx.count(Counter::Conflicts, 1);
        // The limit holds here too; what isn't told now is told with the next message.
        let _ = self.tell(ctx, slot);
        Verdict::Drop(Drop::Conflict)
    }

    /// Hands a copy to the control thread.
    fn tell(&mut self, ctx: &mut Ctx<'_>, slot: SlotId) -> Verdict {
        let origin = self.origins.of(ctx, slot);
        if self.limiter.allows(origin, ctx.now) && ctx.punt(ND, slot, origin) {
            ctx.count(Counter::Told, 1);
            Verdict::Told
        } else {
            Verdict::Drop(Drop::Limited)
        }
    }

    /// Makes the packet the answer to itself.
    fn answer(&self, ctx: &mut Ctx<'_>, slot: SlotId, bytes: &[u8]) -> Verdict {
        ctx.packets.truncate(slot, 0);
        let meta = ctx.packets.meta_mut(slot);
        let start = HEADROOM as u16;
        (meta.data, meta.end, meta.l2) = (start, start, start);
        meta.l3 = start + size_of::<EthernetHeader>() as u16;
        (meta.tx_if, meta.l4) = (meta.rx_if, 0);
        (meta.offload, meta.flags) = (Offload::default(), Flags::LOCAL);
        if !ctx.packets.append(slot, bytes) {
            return Verdict::Drop(Drop::TooLong);
        }
        let arcs = ctx.tables.get(self.arcs);
        let meta = ctx.packets.meta_mut(slot);
        match self.output.begin(arcs, meta.rx_if, meta) {
            0 => Verdict::Drop(Drop::InterfaceDown),
            edge => Verdict::Answer(edge),
        }
    }
}
