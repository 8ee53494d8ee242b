//! `tcp-reset`: refuses a TCP connection where a service has found nobody who takes it (RFC 9293 section 3.10.7.1).
//!
//! | edge | packets |
//! |---|---|
//! | `ip4-lookup`, `ip6-lookup` | the RST, made in the segment's slot |
//! | `drop` | their senders must not, or cannot, be told (see [`Counter`]) |
//!
//! Either way the segment ends here, for the reason that the service has marked it with. The RST comes from where the segment was sent to, and
//! as often as ICMP errors do.

use super::tuple::transport_at;
use crate::bridge::Origins;
use crate::icmp::{ERRORS, HOPS, make_own};
use crate::interface::{Interfaces, Limiter};
use core::fmt;
use graph::context::GONE;
use graph::packet::{Flags, Packets, SlotId};
use graph::publish::Key;
use graph::{Ctx, Frame, Node, NodeContext, NodeSpec};
use wire::checksum::Partial;
use wire::describe::Describe;
use wire::ipv4::{Ipv4Class, Ipv4Flags, Ipv4Kind};
use wire::ipv6::{Ipv6Class, Ipv6Kind};
use wire::{Header, IntoBytes, IpProtocol, Ipv4Header, Ipv6Header, LinkType, TcpFlags, TcpHeader, U16, U32};

graph::edges! {
    /// Where a packet goes from here.
    enum Next { Drop => "drop", Lookup4 => "ip4-lookup", Lookup6 => "ip6-lookup" }
}

graph::counters! {
    /// Connections refused, and segments whose senders aren't told.
    enum Counter {
        /// Segments with RST that were sent.
        Resets => "resets",
        /// The segment is a RST itself.
        AboutReset => "about-reset",
        /// The segment comes in fragments: how long it is isn't known.
        Fragment => "fragment",
        /// The segment's source address is no single host's, or it was sent to a group.
        NoSender => "no-sender",
        /// More connections are to be refused than the limit of errors allows.
        Limited => "limited",
        /// The segment's headers aren't whole in what is looked at.
        BadPacket => "bad-packet",
    }
}

/// The node's declaration.
pub(super) const NODE: NodeSpec = NodeSpec {
    name: "tcp-reset",
    help: "Refuses TCP connections that nobody takes.",
    edges: Next::NAMES,
    counters: Counter::SPECS,
    make: |cx: &NodeContext<'_>| {
        Box::new(TcpReset { interfaces: cx.table(), origins: Origins::new(cx), limit: ERRORS })
    },
    ..NodeSpec::EMPTY
};

struct TcpReset {
    interfaces: Key<Interfaces>,
    origins: Origins,
    limit: Limiter,
}

impl Node for TcpReset {
    fn process(&mut self, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>) {
        let interfaces = ctx.tables.get(self.interfaces);
        frame.each(|slot| {
            let answer = answer(ctx.packets, slot).and_then(|answer| {
                let allowed = self.limit.allows(self.origins.of(ctx, slot), ctx.now);
                allowed.then_some(answer).ok_or(Counter::Limited)
            });
            let answer = match answer {
                Ok(answer) => answer,
                Err(untold) => {
                    ctx.count(untold, 1);
                    return Next::Drop.edge();
                }
            };
            ctx.end(slot);
            let Some(next) = answer.write(ctx.packets, slot) else {
                ctx.count(Counter::BadPacket, 1);
                return GONE;
            };
            make_own(ctx.packets.meta_mut(slot), interfaces);
            ctx.count(Counter::Resets, 1);
            next.edge()
        });
    }

    fn trace(&self, packets: &Packets, slot: SlotId, out: &mut dyn fmt::Write) -> fmt::Result {
        let is_v6 = packets.head(slot).first().is_some_and(|first| first >> 4 == 6);
        let link = if is_v6 { LinkType::IPV6 } else { LinkType::IPV4 };
        write!(out, "{}", Describe::new(link, packets.head(slot)))
    }
}

/// Headers of a RST; checksums aren't computed yet.
enum Answer {
    V4(Ipv4Header, TcpHeader),
    V6(Ipv6Header, TcpHeader),
}

/// The RST for a segment, or why there is none.
fn answer(packets: &Packets, slot: SlotId) -> Result<Answer, Counter> {
    let meta = packets.meta(slot);
    let is_v6 = packets.head(slot).first().is_some_and(|first| first >> 4 == 6);
    let (at, is_fragment) = transport_at(packets, slot, is_v6).ok_or(Counter::BadPacket)?;
    if is_fragment {
        return Err(Counter::Fragment);
    }
    if meta.flags.has(Flags::GROUP) {
        return Err(Counter::NoSender);
    }
    let segment = packets.header::<TcpHeader>(slot, at as u16).ok_or(Counter::BadPacket)?;
    // The packet may be longer than it says, but not than its memory.
    let behind = |total: usize| total.checked_sub(at - usize::from(meta.l3)).ok_or(Counter::BadPacket);
    let tcp = |len: usize| reset(segment, len).ok_or(Counter::AboutReset);
    if is_v6 {
        let ip = packets.header::<Ipv6Header>(slot, meta.l3).ok_or(Counter::BadPacket)?;
        if !matches!(ip.src().kind(), Ipv6Kind::Unicast | Ipv6Kind::UniqueLocal | Ipv6Kind::LinkLocal) {
            return Err(Counter::NoSender);
        }
        let tcp = tcp(behind(ip.total_len())?)?;
        let ip = Ipv6Header::new(ip.dst(), ip.src(), IpProtocol::TCP, HOPS, TcpHeader::LEN as u16);
        return Ok(Answer::V6(ip, tcp));
    }
    let ip = packets.header::<Ipv4Header>(slot, meta.l3).ok_or(Counter::BadPacket)?;
    if !matches!(ip.src().kind(), Ipv4Kind::Unicast | Ipv4Kind::LinkLocal) {
        return Err(Counter::NoSender);
    }
    let tcp = tcp(behind(ip.total_len.get().into())?)?;
    let len = Ipv4Header::LEN + TcpHeader::LEN;
    let mut ip = Ipv4Header::new(ip.dst(), ip.src(), IpProtocol::TCP, HOPS, len as u16);
    // Not to be fragmented: its id stands for nothing.
    ip.set_fragment(Ipv4Flags::DONT_FRAGMENT, 0);
    Ok(Answer::V4(ip, tcp))
}

/// The header of the RST for a segment of `len` bytes with its own header; `None` where it is a RST itself.
fn reset(segment: &TcpHeader, len: usize) -> Option<TcpHeader> {
    let flags = segment.flags();
    if flags.contains(TcpFlags::RST) {
        return None;
    }
    let (sequence, acknowledgment, ack) = if flags.contains(TcpFlags::ACK) {
        (segment.acknowledgment.get(), 0, TcpFlags::empty())
    } else {
        // SYN and FIN each take a sequence number.
        let data = len.saturating_sub(usize::from(segment.data_offset >> 4) * 4) as u32;
        let controls = (flags & (TcpFlags::SYN | TcpFlags::FIN)).bits().count_ones();
        (0, segment.sequence.get().wrapping_add(data).wrapping_add(controls), TcpFlags::ACK)
    };
    Some(TcpHeader {
        src_port: segment.dst_port,
        dst_port: segment.src_port,
        sequence: U32::new(sequence),
        acknowledgment: U32::new(acknowledgment),
        data_offset: ((TcpHeader::LEN / 4) as u8) << 4,
        flag_bits: (TcpFlags::RST | ack).bits(),
        window: U16::ZERO,
        checksum: U16::ZERO,
        urgent: U16::ZERO,
    })
}

impl Answer {
    /// Makes the segment the RST; where that goes. Both headers fit: those of the segment are no shorter.
    fn write(self, packets: &mut Packets, slot: SlotId) -> Option<Next> {
        let meta = packets.meta(slot);
        let (data, l3) = (meta.data, meta.l3);
        let (ip_len, next) = match self {
            Self::V4(..) => (Ipv4Header::LEN, Next::Lookup4),
            Self::V6(..) => (Ipv6Header::LEN, Next::Lookup6),
        };
        debug_assert_eq!(data, l3, "a refusal is asked for with the IP header as current one");
        packets.truncate(slot, (ip_len + TcpHeader::LEN) as u32);
        let bytes = packets.head_mut(slot);
        let sum =
            |pseudo: Partial, tcp: &TcpHeader| U16::new(pseudo.plus(Partial::of(tcp.as_bytes())).checksum());
        match self {
            Self::V4(mut ip, mut tcp) => {
                ip.checksum = U16::new(ip.compute_checksum(&[]));
                tcp.checksum = sum(ip.pseudo_header(TcpHeader::LEN as u16), &tcp);
                ip.emit(bytes).and_then(|rest| tcp.emit(rest)).ok()?;
            }
            Self::V6(ip, mut tcp) => {
                tcp.checksum = sum(ip.pseudo_header(IpProtocol::TCP, TcpHeader::LEN as u32), &tcp);
                ip.emit(bytes).and_then(|rest| tcp.emit(rest)).ok()?;
            }
        }
        let meta = packets.meta_mut(slot);
        meta.l4 = data + ip_len as u16;
        Some(next)
    }
}
