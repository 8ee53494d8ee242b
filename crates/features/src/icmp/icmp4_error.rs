//! `icmp4-error`: tells a packet's sender what became of it, as another node has [asked for](super::request)
//! (RFC 792, RFC 1122 section 3.2.2, RFC 1812 section 4.3).
//!
//! | edge | packets |
//! |---|---|
//! | `ip4-lookup` | the message, made in the packet's slot |
//! | `drop` | their senders must not, or cannot, be told (see [`Counter`]) |
//!
//! Either way the packet ends here, for the reason that the other node has marked it with.
//!
//! The message quotes as much of the packet as fits 576 bytes. It comes from the interface that the packet came in by.

use super::HOPS;
use super::own::{ERRORS, make_own, source};
use super::request::requested;
use crate::bridge::Origins;
use crate::interface::{Interfaces, Limiter};
use crate::session::OwnErrors;
use core::fmt;
use core::net::{IpAddr, Ipv4Addr};
use graph::context::GONE;
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

graph::counters! {
    /// Errors reported, and packets whose senders aren't told of theirs.
    pub enum Counter {
        /// Destination unreachable, but for the next one.
        Unreachable => "unreachable",
        /// Fragmentation needed.
        FragmentationNeeded => "fragmentation-needed",
        /// Time exceeded.
        TimeExceeded => "time-exceeded",
        /// Parameter problem, and everything else.
        ParameterProblem => "parameter-problem",
        /// The packet was made here.
        OwnPacket => "own-packet",
        /// The packet reports an error itself.
        AboutError => "about-error",
        /// The packet is a fragment other than the first.
        Fragment => "fragment",
        /// The packet was sent to a group or broadcast address.
        Group => "group",
        /// The packet's source address is no single host's.
        NoSender => "no-sender",
        /// More errors are to be reported than the limit allows.
        Limited => "icmp-limited",
        /// Neither the interface the packet came in by nor another one in its VRF has an IPv4 address to report from.
        NoSource => "no-source-address",
        /// The packet's header isn't whole, or there is no room before it.
        BadPacket => "bad-packet",
    }
}

/// The node's declaration.
pub const NODE: NodeSpec = NodeSpec {
    name: "icmp4-error",
    help: "Reports errors to the senders of IPv4 packets.",
    edges: Next::NAMES,
    counters: Counter::SPECS,
    attach: &[Attach { parent: "inject", key: super::INJECT_KEY_4 }],
    make: |cx: &NodeContext<'_>| {
        let (origins, translations) = (Origins::new(cx), OwnErrors::new(cx));
        Box::new(Icmp4Error { interfaces: cx.table(), origins, limit: ERRORS, translations })
    },
    ..NodeSpec::EMPTY
};

struct Icmp4Error {
    interfaces: Key<Interfaces>,
    origins: Origins,
    limit: Limiter,
    translations: OwnErrors,
}

impl Node for Icmp4Error {
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
        write!(out, "{}", Describe::new(LinkType::IPV4, packets.head(slot)))
    }
}

/// Bytes of both headers before the quote.
const HEADERS: usize = Ipv4Header::LEN + Icmpv4Header::LEN;

impl Icmp4Error {
    /// The message to send, or why there must be none.
    fn report(&mut self, ctx: &Ctx<'_>, slot: SlotId) -> Result<Message, Counter> {
        let interfaces = ctx.tables.get(self.interfaces);
        let (to, dst) = addresses(ctx.packets, slot)?;
        let rx_if = ctx.packets.meta(slot).rx_if;
        if !self.limit.allows(self.origins.of(ctx, slot), ctx.now) {
            return Err(Counter::Limited);
        }
        let Some(IpAddr::V4(from)) = source(interfaces, rx_if, dst.into(), to.into()) else {
            return Err(Counter::NoSource);
        };
        let (kind, code, argument) = requested(ctx.packets.meta(slot));
        let icmp = header(kind, code, argument);
        Ok(Message { from, to, icmp })
    }

    /// Makes the packet, which has been counted, the message.
    fn tell(&self, ctx: &mut Ctx<'_>, slot: SlotId, message: Message) -> u8 {
        if let Err(failed) = write(ctx.packets, slot, &message) {
            ctx.count(failed, 1);
            return GONE;
        }
        make_own(ctx.packets.meta_mut(slot), ctx.tables.get(self.interfaces));
        self.translations.translate4(ctx, slot);
        let counter = match (message.icmp.kind, message.icmp.code) {
            (Icmpv4Type::DESTINATION_UNREACHABLE, 4) => Counter::FragmentationNeeded,
            (Icmpv4Type::DESTINATION_UNREACHABLE, _) => Counter::Unreachable,
            (Icmpv4Type::TIME_EXCEEDED, _) => Counter::TimeExceeded,
            _ => Counter::ParameterProblem,
        };
        ctx.count(counter, 1);
        Next::Lookup.edge()
    }
}

/// What is sent to whom. The checksum isn't computed yet.
struct Message {
    from: Ipv4Addr,
    to: Ipv4Addr,
    icmp: Icmpv4Header,
}

/// The packet's source, if it may be told of an error (RFC 1122 section 3.2.2), and its destination.
fn addresses(packets: &Packets, slot: SlotId) -> Result<(Ipv4Addr, Ipv4Addr), Counter> {
    let meta = packets.meta(slot);
    let header = packets.header::<Ipv4Header>(slot, meta.data).ok_or(Counter::BadPacket)?;
    if meta.flags.has(Flags::LOCAL) {
        return Err(Counter::OwnPacket);
    }
    if header.is_later_fragment() {
        return Err(Counter::Fragment);
    }
    let single = |address: Ipv4Addr| matches!(address.kind(), Ipv4Kind::Unicast | Ipv4Kind::LinkLocal);
    let group = matches!(
        header.dst().kind(),
        Ipv4Kind::Broadcast | Ipv4Kind::Multicast | Ipv4Kind::LinkLocalMulticast
    );
    if group || meta.flags.has(Flags::GROUP) {
        return Err(Counter::Group);
    }
    if !single(header.src()) {
        return Err(Counter::NoSender);
    }
    if header.protocol == IpProtocol::ICMP {
        let at = meta.data + header.header_len() as u16;
        let kind = packets.header::<Icmpv4Type>(slot, at);
        if kind.is_none_or(|kind| kind.is_error()) {
            return Err(Counter::AboutError);
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
fn write(packets: &mut Packets, slot: SlotId, message: &Message) -> Result<(), Counter> {
    let Message { from, to, mut icmp } = *message;
    packets.truncate(slot, (Icmpv4Header::MAX_ERROR_LEN - HEADERS) as u32);
    // The sender may still write to the body: it is summed once it is ours.
    let body = Partial::of(packets.pull_body(slot).map_err(|_| Counter::BadPacket)?);
    let head = packets.head(slot);
    let sum = Partial::of(head).plus(body.at(head.len())).plus(Partial::of(icmp.as_bytes()));
    icmp.checksum = U16::new(sum.checksum());
    let len = HEADERS as u16 + packets.meta(slot).len() as u16;
    let mut ip = Ipv4Header::new(from, to, IpProtocol::ICMP, HOPS, len);
    // Precedence "internetwork control" (RFC 1812 section 4.3.2.5). Not to be fragmented: its id stands for nothing.
    ip.dscp_ecn = 6 << 5;
    ip.set_fragment(Ipv4Flags::DONT_FRAGMENT, 0);
    ip.checksum = U16::new(ip.compute_checksum(&[]));
    let room = packets.prepend(slot, HEADERS as u16).ok_or(Counter::BadPacket)?;
    ip.emit(room).and_then(|rest| icmp.emit(rest)).map_err(|_| Counter::BadPacket)?;
    let meta = packets.meta_mut(slot);
    meta.l4 = meta.data + Ipv4Header::LEN as u16;
    Ok(())
}
