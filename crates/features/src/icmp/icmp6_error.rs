//! `icmp6-error`: tells a packet's sender what became of it, as another node has [asked for](super::request)
//! (RFC 4443 sections 2.2, 2.4 and 3).
//!
//! | edge | packets |
//! |---|---|
//! | `ip6-lookup` | the message, made in the packet's slot |
//! | `drop` | their senders must not, or cannot, be told (see [`Counter`]) |
//!
//! Either way the packet ends here, for the reason that the other node has marked it with.
//!
//! The message quotes as much of the packet as fits 1280 bytes.

use super::HOPS;
use super::own::{ERRORS, make_own, source};
use super::request::requested;
use crate::bridge::Origins;
use crate::interface::{Interfaces, Limiter};
use crate::session::OwnErrors;
use core::fmt;
use core::net::{IpAddr, Ipv6Addr};
use graph::context::GONE;
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

graph::counters! {
    /// Errors reported, and packets whose senders aren't told of theirs.
    pub enum Counter {
        /// Destination unreachable.
        Unreachable => "unreachable",
        /// Packet too big.
        PacketTooBig => "packet-too-big",
        /// Time exceeded.
        TimeExceeded => "time-exceeded",
        /// Parameter problem, and everything else.
        ParameterProblem => "parameter-problem",
        /// The packet was made here.
        OwnPacket => "own-packet",
        /// The packet reports an error or is a redirect itself.
        AboutError => "about-error",
        /// The packet has more extension headers than are looked at: it may report an error itself.
        Hidden => "hidden",
        /// The packet was sent to a group, or in a broadcast or multicast frame.
        Group => "group",
        /// The packet's source address is no single station's.
        NoSender => "no-sender",
        /// More errors are to be reported than the limit allows.
        Limited => "icmp-limited",
        /// Neither the interface the packet came in by nor another one in its VRF has an IPv6 address to report from.
        NoSource => "no-source-address",
        /// The packet's header isn't whole, or there is no room before it.
        BadPacket => "bad-packet",
    }
}

/// The node's declaration.
pub const NODE: NodeSpec = NodeSpec {
    name: "icmp6-error",
    help: "Reports errors to the senders of IPv6 packets.",
    edges: Next::NAMES,
    counters: Counter::SPECS,
    attach: &[Attach { parent: "inject", key: super::INJECT_KEY_6 }],
    make: |cx: &NodeContext<'_>| {
        let (origins, translations) = (Origins::new(cx), OwnErrors::new(cx));
        Box::new(Icmp6Error { interfaces: cx.table(), origins, limit: ERRORS, translations })
    },
    ..NodeSpec::EMPTY
};

struct Icmp6Error {
    interfaces: Key<Interfaces>,
    origins: Origins,
    limit: Limiter,
    translations: OwnErrors,
}

impl Node for Icmp6Error {
    fn process(&mut self, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>) {
        frame.each(|slot| match self.report(ctx, slot) {
            Ok(message) => {
                ctx.end(slot);
                self.tell(ctx, slot, message)
            }
            Err(untold) => {
                ctx.count(untold, 1);
                Next::Drop.edge()
            }
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
    /// The message to send, or why there must be none.
    fn report(&mut self, ctx: &Ctx<'_>, slot: SlotId) -> Result<Message, Counter> {
        let interfaces = ctx.tables.get(self.interfaces);
        let (kind, code, argument) = requested(ctx.packets.meta(slot));
        let icmp =
            Icmpv6Header { kind: Icmpv6Type(kind), code, checksum: U16::ZERO, rest: U32::new(argument) };
        let (to, dst) = addresses(ctx.packets, slot, &icmp)?;
        let rx_if = ctx.packets.meta(slot).rx_if;
        if !self.limit.allows(self.origins.of(ctx, slot), ctx.now) {
            return Err(Counter::Limited);
        }
        let Some(IpAddr::V6(from)) = source(interfaces, rx_if, dst.into(), to.into()) else {
            return Err(Counter::NoSource);
        };
        Ok(Message { from, to, icmp })
    }

    /// Makes the packet, which has been counted, the message.
    fn tell(&self, ctx: &mut Ctx<'_>, slot: SlotId, message: Message) -> u8 {
        if let Err(failed) = write(ctx.packets, slot, &message) {
            ctx.count(failed, 1);
            return GONE;
        }
        make_own(ctx.packets.meta_mut(slot), ctx.tables.get(self.interfaces));
        self.translations.translate6(ctx, slot);
        let counter = match message.icmp.kind {
            Icmpv6Type::DESTINATION_UNREACHABLE => Counter::Unreachable,
            Icmpv6Type::PACKET_TOO_BIG => Counter::PacketTooBig,
            Icmpv6Type::TIME_EXCEEDED => Counter::TimeExceeded,
            _ => Counter::ParameterProblem,
        };
        ctx.count(counter, 1);
        Next::Lookup.edge()
    }
}

/// What is sent to whom. The checksum isn't computed yet.
struct Message {
    from: Ipv6Addr,
    to: Ipv6Addr,
    icmp: Icmpv6Header,
}

/// The packet's source, if it may be told of this error (RFC 4443 section 2.4 e), and its destination.
fn addresses(packets: &Packets, slot: SlotId, icmp: &Icmpv6Header) -> Result<(Ipv6Addr, Ipv6Addr), Counter> {
    let meta = packets.meta(slot);
    let header = packets.header::<Ipv6Header>(slot, meta.data).ok_or(Counter::BadPacket)?;
    if meta.flags.has(Flags::LOCAL) {
        return Err(Counter::OwnPacket);
    }
    let upper = match walk(packets.head(slot)) {
        // An error is never so long that it comes in fragments.
        Ok(upper) => Some(upper).filter(|upper| !upper.is_later_fragment()),
        // Even a packet whose headers are the error may be reported; but not where more of them may hide an error.
        Err(_) if icmp.kind == Icmpv6Type::PARAMETER_PROBLEM => None,
        Err(_) => return Err(Counter::Hidden),
    };
    let for_groups = icmp.kind == Icmpv6Type::PACKET_TOO_BIG
        || (icmp.kind == Icmpv6Type::PARAMETER_PROBLEM && icmp.code == UNKNOWN_OPTION);
    if !for_groups && (header.dst().is_multicast() || meta.flags.has(Flags::GROUP)) {
        return Err(Counter::Group);
    }
    if !matches!(header.src().kind(), Ipv6Kind::Unicast | Ipv6Kind::UniqueLocal | Ipv6Kind::LinkLocal) {
        return Err(Counter::NoSender);
    }
    if let Some(upper) = upper.filter(|upper| upper.protocol == IpProtocol::ICMPV6) {
        let kind = packets.header::<Icmpv6Type>(slot, meta.data + upper.offset as u16);
        if kind.is_none_or(|kind| kind.is_error()) {
            return Err(Counter::AboutError);
        }
    }
    Ok((header.src(), header.dst()))
}

/// Makes the packet the message.
fn write(packets: &mut Packets, slot: SlotId, message: &Message) -> Result<(), Counter> {
    let Message { from, to, mut icmp } = *message;
    packets.truncate(slot, (Icmpv6Header::MAX_ERROR_LEN - HEADERS) as u32);
    // The sender may still write to the body: it is summed once it is ours.
    let body = Partial::of(packets.pull_body(slot).map_err(|_| Counter::BadPacket)?);
    let head = packets.head(slot);
    let quote = Partial::of(head).plus(body.at(head.len()));
    let len = Icmpv6Header::LEN as u16 + packets.meta(slot).len() as u16;
    let ip = Ipv6Header::new(from, to, IpProtocol::ICMPV6, HOPS, len);
    let sum = ip.pseudo_header(IpProtocol::ICMPV6, len.into()).plus(Partial::of(icmp.as_bytes())).plus(quote);
    icmp.checksum = U16::new(sum.checksum());
    let room = packets.prepend(slot, HEADERS as u16).ok_or(Counter::BadPacket)?;
    ip.emit(room).and_then(|rest| icmp.emit(rest)).map_err(|_| Counter::BadPacket)?;
    let meta = packets.meta_mut(slot);
    meta.l4 = meta.data + Ipv6Header::LEN as u16;
    Ok(())
}
