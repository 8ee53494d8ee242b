//! `icmp4-error`: tells a packet's sender what became of it, as another node has [asked for](super::request)
//! (RFC 792, RFC 1122 section 3.2.2, RFC 1812 section 4.3).
//!
//! | edge | packets |
//! |---|---|
//! | `ip4-lookup` | the message, made in the packet's slot |
//! | `drop` | see [`Drop`]: the packet ends without its sender being told |
//!
//! The message quotes as much of the packet as fits 576 bytes. It comes from the interface that the packet came in by.

use super::HOPS;
use super::own::{ERRORS, make_own, source};
use super::request::requested;
use crate::interface::{Interfaces, Limiter};
use core::fmt;
use core::net::{IpAddr, Ipv4Addr};
use graph::packet::{Flags, Packets, SlotId};
use graph::publish::Key;
use graph::{Attach, Ctx, Frame, Node, NodeContext, NodeSpec};
use wire::checksum::Partial;
use wire::describe::Describe;
use wire::ipv4::{Ipv4Class, Ipv4Flags, Ipv4Kind};
use wire::{Header, Icmpv4Header, Icmpv4Type, IntoBytes, IpProtocol, Ipv4Header, LinkType, U16};

graph::edges! {
    /// Where a packet goes from here.
    pub enum Next { Drop => "drop", Lookup => "ip4-lookup" }
}

graph::drops! {
    /// Why a packet's sender isn't told.
    pub enum Drop {
        /// The packet was made here.
        OwnPacket => "own-packet", Info,
        /// The packet reports an error itself.
        AboutError => "about-error", Info,
        /// The packet is a fragment other than the first.
        Fragment => "fragment", Info,
        /// The packet was sent to a group or broadcast address.
        Group => "group", Info,
        /// The packet's source address is no single host's.
        NoSender => "no-sender", Warning,
        /// More errors are to be reported about packets of this interface than the limit allows.
        Limited => "icmp-limited", Warning,
        /// Neither the interface the packet came in by nor another one in its VRF has an IPv4 address to report from.
        NoSource => "no-source-address", Warning,
        /// The packet's header isn't whole, or there is no room before it.
        BadPacket => "bad-packet", Error,
    }
}

graph::counters! {
    /// Errors reported.
    pub enum Counter {
        /// Destination unreachable, but for the next one.
        Unreachable => "unreachable",
        /// Fragmentation needed.
        FragmentationNeeded => "fragmentation-needed",
        /// Time exceeded.
        TimeExceeded => "time-exceeded",
        /// Parameter problem, and everything else.
        ParameterProblem => "parameter-problem",
    }
}

/// The node's declaration.
pub const NODE: NodeSpec = NodeSpec {
    name: "icmp4-error",
    help: "Reports errors to the senders of IPv4 packets.",
    edges: Next::NAMES,
    drops: Drop::SPECS,
    counters: Counter::SPECS,
    attach: &[Attach { parent: "inject", key: super::INJECT_KEY_4 }],
    make: |cx: &NodeContext<'_>| Box::new(Icmp4Error { interfaces: cx.table(), limit: ERRORS }),
    ..NodeSpec::EMPTY
};

struct Icmp4Error {
    interfaces: Key<Interfaces>,
    limit: Limiter,
}

impl Node for Icmp4Error {
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
        write!(out, "{}", Describe::new(LinkType::IPV4, packets.head(slot)))
    }
}

/// Bytes of both headers before the quote.
const HEADERS: usize = Ipv4Header::LEN + Icmpv4Header::LEN;

impl Icmp4Error {
    fn report(&mut self, ctx: &mut Ctx<'_>, slot: SlotId) -> Result<Counter, Drop> {
        let interfaces = ctx.tables.get(self.interfaces);
        let (to, dst) = addresses(ctx.packets, slot)?;
        let rx_if = ctx.packets.meta(slot).rx_if;
        if !self.limit.allows(rx_if, ctx.now) {
            return Err(Drop::Limited);
        }
        let Some(IpAddr::V4(from)) = source(interfaces, rx_if, dst.into(), to.into()) else {
            return Err(Drop::NoSource);
        };
        let (kind, code, argument) = requested(ctx.packets.meta(slot));
        let icmp = header(kind, code, argument);
        write(ctx.packets, slot, from, to, icmp)?;
        make_own(ctx.packets.meta_mut(slot), interfaces);
        Ok(match (icmp.kind, code) {
            (Icmpv4Type::DESTINATION_UNREACHABLE, 4) => Counter::FragmentationNeeded,
            (Icmpv4Type::DESTINATION_UNREACHABLE, _) => Counter::Unreachable,
            (Icmpv4Type::TIME_EXCEEDED, _) => Counter::TimeExceeded,
            _ => Counter::ParameterProblem,
        })
    }
}

/// The packet's source, if it may be told of an error (RFC 1122 section 3.2.2), and its destination.
fn addresses(packets: &Packets, slot: SlotId) -> Result<(Ipv4Addr, Ipv4Addr), Drop> {
    let meta = packets.meta(slot);
    let header = packets.header::<Ipv4Header>(slot, meta.data).ok_or(Drop::BadPacket)?;
    if meta.flags.has(Flags::LOCAL) {
        return Err(Drop::OwnPacket);
    }
    if header.is_later_fragment() {
        return Err(Drop::Fragment);
    }
    let single = |address: Ipv4Addr| matches!(address.kind(), Ipv4Kind::Unicast | Ipv4Kind::LinkLocal);
    let group = matches!(
        header.dst().kind(),
        Ipv4Kind::Broadcast | Ipv4Kind::Multicast | Ipv4Kind::LinkLocalMulticast
    );
    if group || meta.flags.has(Flags::GROUP) {
        return Err(Drop::Group);
    }
    if !single(header.src()) {
        return Err(Drop::NoSender);
    }
    if header.protocol == IpProtocol::ICMP {
        let at = meta.data + header.header_len() as u16;
        let kind = packets.header::<Icmpv4Type>(slot, at);
        if kind.is_none_or(|kind| kind.is_error()) {
            return Err(Drop::AboutError);
        }
    }
    Ok((header.src(), header.dst()))
}

/// The message's header, checksum 0.
fn header(kind: u8, code: u8, argument: u32) -> Icmpv4Header {
    let kind = Icmpv4Type(kind);
    // A pointer stands in the first byte of the second word, an MTU in its last two.
    let word = if kind == Icmpv4Type::PARAMETER_PROBLEM { argument << 24 } else { argument };
    let (high, low) = ((word >> 16) as u16, word as u16);
    Icmpv4Header { kind, code, checksum: U16::ZERO, rest_high: U16::new(high), rest_low: U16::new(low) }
}

/// Makes the packet the message.
fn write(
    packets: &mut Packets,
    slot: SlotId,
    from: Ipv4Addr,
    to: Ipv4Addr,
    mut icmp: Icmpv4Header,
) -> Result<(), Drop> {
    packets.truncate(slot, (Icmpv4Header::MAX_ERROR_LEN - HEADERS) as u32);
    // The sender may still write to the body: it is summed once it is ours.
    let body = Partial::of(packets.pull_body(slot).map_err(|_| Drop::BadPacket)?);
    let head = packets.head(slot);
    let sum = Partial::of(head).plus(body.at(head.len())).plus(Partial::of(icmp.as_bytes()));
    icmp.checksum = U16::new(sum.checksum());
    let len = HEADERS as u16 + packets.meta(slot).len() as u16;
    let mut ip = Ipv4Header::new(from, to, IpProtocol::ICMP, HOPS, len);
    // Precedence "internetwork control" (RFC 1812 section 4.3.2.5). Not to be fragmented: its id stands for nothing.
    ip.dscp_ecn = 6 << 5;
    ip.set_fragment(Ipv4Flags::DONT_FRAGMENT, 0);
    ip.checksum = U16::new(ip.compute_checksum(&[]));
    let room = packets.prepend(slot, HEADERS as u16).ok_or(Drop::BadPacket)?;
    ip.emit(room).and_then(|rest| icmp.emit(rest)).map_err(|_| Drop::BadPacket)?;
    let meta = packets.meta_mut(slot);
    meta.l4 = meta.data + Ipv4Header::LEN as u16;
    Ok(())
}
