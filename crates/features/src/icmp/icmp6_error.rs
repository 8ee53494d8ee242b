//! `icmp6-error`: tells a packet's sender what became of it, as another node has [asked for](super::request)
//! (RFC 4443 sections 2.2, 2.4 and 3).
//!
//! | edge | packets |
//! |---|---|
//! | `ip6-lookup` | the message, made in the packet's slot |
//! | `drop` | see [`Drop`]: the packet ends without its sender being told |
//!
//! The message quotes as much of the packet as fits 1280 bytes.

use super::HOPS;
use super::own::{ERRORS, make_own, source};
use super::request::requested;
use crate::interface::{Interfaces, Limiter};
use core::fmt;
use core::net::{IpAddr, Ipv6Addr};
use graph::packet::{Flags, Packets, SlotId};
use graph::publish::Key;
use graph::{Attach, Ctx, Frame, Node, NodeContext, NodeSpec};
use wire::checksum::Partial;
use wire::describe::Describe;
use wire::ipv6::{Ipv6Class, Ipv6Kind, walk};
use wire::{Header, Icmpv6Header, Icmpv6Type, IntoBytes, IpProtocol, Ipv6Header, LinkType, U16, U32};

graph::edges! {
    /// Where a packet goes from here.
    pub enum Next { Drop => "drop", Lookup => "ip6-lookup" }
}

graph::drops! {
    /// Why a packet's sender isn't told.
    pub enum Drop {
        /// The packet was made here.
        OwnPacket => "own-packet", Info,
        /// The packet reports an error or is a redirect itself.
        AboutError => "about-error", Info,
        /// The packet has more extension headers than are looked at: it may report an error itself.
        Hidden => "hidden", Info,
        /// The packet was sent to a group, or in a broadcast or multicast frame.
        Group => "group", Info,
        /// The packet's source address is no single station's.
        NoSender => "no-sender", Warning,
        /// More errors are to be reported about packets of this interface than the limit allows.
        Limited => "icmp-limited", Warning,
        /// Neither the interface the packet came in by nor another one in its VRF has an IPv6 address to report from.
        NoSource => "no-source-address", Warning,
        /// The packet's header isn't whole, or there is no room before it.
        BadPacket => "bad-packet", Error,
    }
}

graph::counters! {
    /// Errors reported.
    pub enum Counter {
        /// Destination unreachable.
        Unreachable => "unreachable",
        /// Packet too big.
        PacketTooBig => "packet-too-big",
        /// Time exceeded.
        TimeExceeded => "time-exceeded",
        /// Parameter problem, and everything else.
        ParameterProblem => "parameter-problem",
    }
}

/// The node's declaration.
pub const NODE: NodeSpec = NodeSpec {
    name: "icmp6-error",
    help: "Reports errors to the senders of IPv6 packets.",
    edges: Next::NAMES,
    drops: Drop::SPECS,
    counters: Counter::SPECS,
    attach: &[Attach { parent: "inject", key: super::INJECT_KEY_6 }],
    make: |cx: &NodeContext<'_>| Box::new(Icmp6Error { interfaces: cx.table(), limit: ERRORS }),
    ..NodeSpec::EMPTY
};

struct Icmp6Error {
    interfaces: Key<Interfaces>,
    limit: Limiter,
}

impl Node for Icmp6Error {
    fn process(&mut self, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>) {
        frame.each(|slot| match self.report(ctx, slot) {
            Ok(counter) => {
                ctx.count(counter, 1);
                Next::Lookup.edge()
            }
            Err(reason) => ctx.drop(slot, reason),
        });
    }

    fn trace(&self, packets: &Packets, slot: SlotId, out: &mut dyn fmt::Write) -> fmt::Result {
        write!(out, "{}", Describe::new(LinkType::IPV6, packets.head(slot)))
    }
}

/// Bytes of both headers before the quote.
const HEADERS: usize = Ipv6Header::LEN + Icmpv6Header::LEN;

/// Code of a parameter problem: an option isn't known (RFC 4443 section 3.4).
const UNKNOWN_OPTION: u8 = 2;

impl Icmp6Error {
    fn report(&mut self, ctx: &mut Ctx<'_>, slot: SlotId) -> Result<Counter, Drop> {
        let interfaces = ctx.tables.get(self.interfaces);
        let (kind, code, argument) = requested(ctx.packets.meta(slot));
        let icmp =
            Icmpv6Header { kind: Icmpv6Type(kind), code, checksum: U16::ZERO, rest: U32::new(argument) };
        let (to, dst) = addresses(ctx.packets, slot, &icmp)?;
        let rx_if = ctx.packets.meta(slot).rx_if;
        if !self.limit.allows(rx_if, ctx.now) {
            return Err(Drop::Limited);
        }
        let Some(IpAddr::V6(from)) = source(interfaces, rx_if, dst.into(), to.into()) else {
            return Err(Drop::NoSource);
        };
        write(ctx.packets, slot, from, to, icmp)?;
        make_own(ctx.packets.meta_mut(slot), interfaces);
        Ok(match icmp.kind {
            Icmpv6Type::DESTINATION_UNREACHABLE => Counter::Unreachable,
            Icmpv6Type::PACKET_TOO_BIG => Counter::PacketTooBig,
            Icmpv6Type::TIME_EXCEEDED => Counter::TimeExceeded,
            _ => Counter::ParameterProblem,
        })
    }
}

/// The packet's source, if it may be told of this error (RFC 4443 section 2.4 e), and its destination.
fn addresses(packets: &Packets, slot: SlotId, icmp: &Icmpv6Header) -> Result<(Ipv6Addr, Ipv6Addr), Drop> {
    let meta = packets.meta(slot);
    let header = packets.header::<Ipv6Header>(slot, meta.data).ok_or(Drop::BadPacket)?;
    if meta.flags.has(Flags::LOCAL) {
        return Err(Drop::OwnPacket);
    }
    let upper = match walk(packets.head(slot)) {
        // An error is never so long that it comes in fragments.
        Ok(upper) => Some(upper).filter(|upper| !upper.is_later_fragment()),
        // Even a packet whose headers are the error may be reported; but not where more of them may hide an error.
        Err(_) if icmp.kind == Icmpv6Type::PARAMETER_PROBLEM => None,
        Err(_) => return Err(Drop::Hidden),
    };
    let for_groups = icmp.kind == Icmpv6Type::PACKET_TOO_BIG
        || (icmp.kind == Icmpv6Type::PARAMETER_PROBLEM && icmp.code == UNKNOWN_OPTION);
    if !for_groups && (header.dst().is_multicast() || meta.flags.has(Flags::GROUP)) {
        return Err(Drop::Group);
    }
    if !matches!(header.src().kind(), Ipv6Kind::Unicast | Ipv6Kind::UniqueLocal | Ipv6Kind::LinkLocal) {
        return Err(Drop::NoSender);
    }
    if let Some(upper) = upper.filter(|upper| upper.protocol == IpProtocol::ICMPV6) {
        let kind = packets.header::<Icmpv6Type>(slot, meta.data + upper.offset as u16);
        if kind.is_none_or(|kind| kind.is_error()) {
            return Err(Drop::AboutError);
        }
    }
    Ok((header.src(), header.dst()))
}

/// Makes the packet the message.
fn write(
    packets: &mut Packets,
    slot: SlotId,
    from: Ipv6Addr,
    to: Ipv6Addr,
    mut icmp: Icmpv6Header,
) -> Result<(), Drop> {
    packets.truncate(slot, (Icmpv6Header::MAX_ERROR_LEN - HEADERS) as u32);
    // The sender may still write to the body: it is summed once it is ours.
    let body = Partial::of(packets.pull_body(slot).map_err(|_| Drop::BadPacket)?);
    let head = packets.head(slot);
    let quote = Partial::of(head).plus(body.at(head.len()));
    let len = Icmpv6Header::LEN as u16 + packets.meta(slot).len() as u16;
    let ip = Ipv6Header::new(from, to, IpProtocol::ICMPV6, HOPS, len);
    let sum = ip.pseudo_header(IpProtocol::ICMPV6, len.into()).plus(Partial::of(icmp.as_bytes())).plus(quote);
    icmp.checksum = U16::new(sum.checksum());
    let room = packets.prepend(slot, HEADERS as u16).ok_or(Drop::BadPacket)?;
    ip.emit(room).and_then(|rest| icmp.emit(rest)).map_err(|_| Drop::BadPacket)?;
    let meta = packets.meta_mut(slot);
    meta.l4 = meta.data + Ipv6Header::LEN as u16;
    Ok(())
}
