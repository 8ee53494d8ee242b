//! What a packet's session is found by.

use super::link;
use crate::ip::family::{Family, V4, V6};
use graph::packet::{HEAD_AREA, Meta, Packets, SlotId};
use tables::session::Key;
use wire::icmp::{Icmpv4Type, Icmpv6Type};
use wire::ipv4::Ipv4Header;
use wire::ipv6::{Ipv6Header, walk, walk_to_authentication};
use wire::{Header, IpProtocol, TcpFlags};

/// What a packet is to sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// One of a flow's packets.
    #[default]
    Flow,
    /// Likewise, with a key that its tenant's parser has given.
    Parsed,
    /// An ICMP error about a packet of a flow, which came from where this one goes.
    Error,
    /// A link's own business (neighbour discovery, listeners), as far as its headers say: never a session's, where it [goes no further](super::link).
    Link,
    /// A fragment without the header that has the ports.
    Fragment,
    /// Such a fragment of one of a flow's packets, whose ports are known.
    Later,
    /// A fragment with the header that has the ports, of a datagram that is known: as nodes that ask tenants about fragments see it.
    First,
    /// A protocol, or a kind of ICMP message, that has no sessions.
    Protocol,
    /// Too short for its transport header, or that lies behind what is looked at; or a later fragment that would replace part of one.
    Short,
}

/// A packet as sessions see it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mark {
    pub(crate) kind: Kind,
    /// The source is the higher endpoint.
    pub(crate) from_high: bool,
}

impl Mark {
    /// The endpoints are the other way round in the key that the session has.
    #[inline(always)]
    pub(super) const fn turn(&mut self) {
        self.from_high = !self.from_high;
    }

    const fn none(kind: Kind) -> (Key, Self) {
        (Key::NONE, Self { kind, from_high: false })
    }
}

/// How packets of an IP version are told apart.
pub(crate) trait Tuple: Family {
    /// Whether it is the sixth.
    const IS_V6: bool;

    /// Key under which the node takes packets that other workers hand over.
    const HANDOVER: u32;

    /// The key of an ordinary packet, UDP or TCP right behind the network header, and whether its source is the higher
    /// endpoint. Everything else is for [`Tuple::read`], which agrees with this.
    fn quick(meta: &Meta, area: &[u8; HEAD_AREA], context: u16) -> Option<(Key, bool)>;

    /// The key of a packet whose network header is in place, and what else of it matters.
    fn read(packets: &Packets, slot: SlotId, context: u16) -> (Key, Mark);
}

/// Source, destination and protocol as the header says.
type Hosts<A> = (A, A, IpProtocol);

/// The transport header of a packet: what is at `at`, up to `end`.
struct Transport<'a> {
    area: &'a [u8; HEAD_AREA],
    at: usize,
    end: usize,
}

impl Transport<'_> {
    /// The word `offset` bytes into it.
    #[inline(always)]
    fn word(&self, offset: usize) -> Option<u16> {
        let at = self.at + offset;
        let bytes = self.area.get(at..at + 2)?;
        (at + 2 <= self.end).then_some(u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    #[inline(always)]
    fn byte(&self, offset: usize) -> Option<u8> {
        let at = self.at + offset;
        (at < self.end).then(|| self.area.get(at).copied())?
    }

    /// Source and destination port; of TCP only where the flags are there, too.
    #[inline(always)]
    fn ports(&self, protocol: IpProtocol) -> Option<(u16, u16)> {
        if protocol == IpProtocol::TCP {
            self.byte(TCP_FLAGS)?;
        }
        Some((self.word(0)?, self.word(2)?))
    }

    /// The halves of the SPI, which stand for ports. 0 is none's on the wire (RFC 4303 section 2.1, RFC 4302 section 2.4).
    fn spi(&self, at: usize) -> Result<(u16, u16), Kind> {
        match self.word(at).zip(self.word(at + 2)) {
            Some((0, 0)) => Err(Kind::Protocol),
            halves => halves.ok_or(Kind::Short),
        }
    }
}

/// Where a header has its SPI, if it has one: ESP's begins with it, AH's has it behind a word.
const fn spi_at(protocol: IpProtocol) -> Option<usize> {
    match protocol {
        IpProtocol::ESP => Some(0),
        IpProtocol::AH => Some(4),
        _ => None,
    }
}

/// Whether packets of a protocol have sessions: ports, or what stands for them. Of ICMP, echoes have.
#[must_use]
pub const fn has_sessions(protocol: IpProtocol) -> bool {
    protocol.has_ports()
        || spi_at(protocol).is_some()
        || matches!(protocol, IpProtocol::ICMP | IpProtocol::ICMPV6)
}

/// Keys under which the nodes that find sessions take packets of other workers.
pub(super) const HANDOVER_IP4: u32 = 14;
pub(super) const HANDOVER_IP6: u32 = 16;

/// Bytes of a TCP header before its data offset.
pub(super) const TCP_OFFSET: usize = 12;
/// Bytes of a TCP header before its flags, and of an ICMP message before an echo's identifier and a quoted packet.
const TCP_FLAGS: usize = 13;
const ECHO_ID: usize = 4;
/// "More fragments" and the offset, in IPv4's word of both.
const FRAGMENT: u16 = 0x3fff;
/// Bytes of both ports.
const PORTS: usize = 4;
const QUOTED: usize = 8;

#[inline(always)]
fn flow<A: Copy>(
    (src, dst, protocol): Hosts<A>,
    (src_port, dst_port): (u16, u16),
    make: impl Fn(u8, (A, u16), (A, u16)) -> (Key, bool),
) -> (Key, Mark) {
    let (key, from_high) = make(protocol.0, (src, src_port), (dst, dst_port));
    (key, Mark { kind: Kind::Flow, from_high })
}

/// The key of the packet that an ICMP error quotes, seen from the error: it goes to where that came from.
fn error<A: Copy>(
    (src, dst, protocol): Hosts<A>,
    quoted: &Transport<'_>,
    echo: IpProtocol,
    make: impl Fn(u8, (A, u16), (A, u16)) -> (Key, bool),
) -> (Key, Mark) {
    let ports = if protocol == echo {
        quoted.word(ECHO_ID).map(|id| (id, id))
    } else if protocol.has_ports() {
        quoted.word(0).zip(quoted.word(2))
    } else if let Some(at) = spi_at(protocol) {
        quoted.spi(at).ok()
    } else {
        return Mark::none(Kind::Protocol);
    };
    let Some((src_port, dst_port)) = ports else { return Mark::none(Kind::Short) };
    let (key, from_high) = make(protocol.0, (src, src_port), (dst, dst_port));
    (key, Mark { kind: Kind::Error, from_high: !from_high })
}

/// The network header at `meta.l3` with what is right behind it, `N` bytes, where that is a whole header of UDP or of TCP up to its
/// flags, by the protocol at byte `PROTOCOL`.
#[inline(always)]
fn ordinary<'a, const N: usize, const PROTOCOL: usize>(
    meta: &Meta,
    area: &'a [u8; HEAD_AREA],
) -> Option<&'a [u8; N]> {
    let bytes: &[u8; N] = area.get(usize::from(meta.l3)..)?.first_chunk()?;
    let transport = meta.l3 + (N - PORTS) as u16;
    let known = matches!(IpProtocol(bytes[PROTOCOL]), IpProtocol::UDP | IpProtocol::TCP);
    let whole = meta.l4 == transport && meta.end > transport + TCP_FLAGS as u16;
    (known & whole).then_some(bytes)
}

/// A host and its port, at `host` and `port` of these bytes.
#[inline(always)]
fn v4_at(bytes: &[u8; 24], host: usize, port: usize) -> (u32, u16) {
    let [a, b, c, d] = [bytes[host], bytes[host + 1], bytes[host + 2], bytes[host + 3]];
    (u32::from_be_bytes([a, b, c, d]), u16::from_be_bytes([bytes[port], bytes[port + 1]]))
}

/// Likewise. By halves: sixteen bytes would be put together in memory one by one, and each half read back waits for all of them.
#[inline(always)]
fn v6_at(bytes: &[u8; 44], host: usize, port: usize) -> (u128, u16) {
    let half = |at: usize| {
        let [a, b, c, d] = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        let [e, f, g, h] = [bytes[at + 4], bytes[at + 5], bytes[at + 6], bytes[at + 7]];
        u128::from(u64::from_be_bytes([a, b, c, d, e, f, g, h]))
    };
    (half(host) << 64 | half(host + 8), u16::from_be_bytes([bytes[port], bytes[port + 1]]))
}

impl Tuple for V4 {
    const IS_V6: bool = false;
    const HANDOVER: u32 = HANDOVER_IP4;

    #[inline(always)]
    fn quick(meta: &Meta, area: &[u8; HEAD_AREA], context: u16) -> Option<(Key, bool)> {
        let bytes = ordinary::<24, 9>(meta, area)?;
        if u16::from_be_bytes([bytes[6], bytes[7]]) & FRAGMENT != 0 {
            return None;
        }
        Some(Key::v4(context, bytes[9], v4_at(bytes, 12, 20), v4_at(bytes, 16, 22)))
    }

    #[inline(always)]
    fn read(packets: &Packets, slot: SlotId, context: u16) -> (Key, Mark) {
        let meta = packets.meta(slot);
        let Some(header) = packets.header::<Ipv4Header>(slot, meta.l3) else {
            return Mark::none(Kind::Short);
        };
        if meta.l4 == 0 {
            return Mark::none(later_fragment(header.protocol, header.fragment_offset()));
        }
        let hosts = (Self::src(header), Self::dst(header), header.protocol);
        let transport = Transport { area: packets.area(slot), at: meta.l4.into(), end: meta.end.into() };
        if header.protocol.has_ports() {
            return match transport.ports(header.protocol) {
                Some(ports) => flow(hosts, ports, |p, a, b| Key::v4(context, p, a, b)),
                None => Mark::none(Kind::Short),
            };
        }
        others4(hosts, &transport, context)
    }
}

/// A packet whose protocol has no ports.
#[inline(never)]
fn others4(hosts: Hosts<u32>, icmp: &Transport<'_>, context: u16) -> (Key, Mark) {
    let make = |p, a, b| Key::v4_by_protocol(context, p, a, b);
    if let Some(at) = spi_at(hosts.2) {
        return icmp.spi(at).map_or_else(Mark::none, |halves| flow(hosts, halves, make));
    }
    if hosts.2 != IpProtocol::ICMP {
        return Mark::none(Kind::Protocol);
    }
    let (Some(kind), Some(id)) = (icmp.byte(0), icmp.word(ECHO_ID)) else { return Mark::none(Kind::Short) };
    match Icmpv4Type(kind) {
        Icmpv4Type::ECHO_REQUEST | Icmpv4Type::ECHO_REPLY => flow(hosts, (id, id), make),
        Icmpv4Type::REDIRECT => Mark::none(Kind::Protocol),
        kind if kind.is_error() => {
            let quoted = icmp.at + QUOTED;
            let bytes = icmp.area.get(quoted..icmp.end).unwrap_or_default();
            let Ok((header, _)) = Ipv4Header::parse(bytes) else { return Mark::none(Kind::Short) };
            if header.is_later_fragment() {
                return Mark::none(Kind::Fragment);
            }
            let at = quoted + header.header_len().max(Ipv4Header::LEN);
            let hosts = (V4::src(header), V4::dst(header), header.protocol);
            error(hosts, &Transport { at, ..*icmp }, IpProtocol::ICMP, make)
        }
        _ => Mark::none(Kind::Protocol),
    }
}

/// Where the message begins in the head area, if a packet that [`Tuple::read`] has found a session for is an ICMP error.
#[inline(always)]
pub(super) fn icmp_error_at(packets: &Packets, slot: SlotId, is_v6: bool) -> Option<usize> {
    let meta = packets.meta(slot);
    if is_v6 {
        let header = packets.header::<Ipv6Header>(slot, meta.l3)?;
        return match header.next_header {
            IpProtocol::ICMPV6 => {
                let kind = packets.header::<Icmpv6Type>(slot, meta.l4)?;
                matches!(kind.0, 1..=4).then_some(meta.l4.into())
            }
            extension if extension.is_extension() => icmp6_error_behind(packets, slot),
            _ => None,
        };
    }
    let is_icmp = packets.header::<Ipv4Header>(slot, meta.l3)?.protocol == IpProtocol::ICMP;
    (is_icmp && packets.header::<Icmpv4Type>(slot, meta.l4)?.is_error()).then_some(meta.l4.into())
}

#[cold]
fn icmp6_error_behind(packets: &Packets, slot: SlotId) -> Option<usize> {
    let (meta, area) = (packets.meta(slot), packets.area(slot));
    let (at, protocol) = behind_extensions(area, meta.l3.into(), meta.end.into()).ok()?;
    let is_error = protocol == IpProtocol::ICMPV6 && matches!(area.get(at), Some(1..=4));
    is_error.then_some(at)
}

impl Tuple for V6 {
    const IS_V6: bool = true;
    const HANDOVER: u32 = HANDOVER_IP6;

    #[inline(always)]
    fn quick(meta: &Meta, area: &[u8; HEAD_AREA], context: u16) -> Option<(Key, bool)> {
        let bytes = ordinary::<44, 6>(meta, area)?;
        Some(Key::v6(context, bytes[6], v6_at(bytes, 8, 40), v6_at(bytes, 24, 42)))
    }

    #[inline(always)]
    fn read(packets: &Packets, slot: SlotId, context: u16) -> (Key, Mark) {
        let meta = packets.meta(slot);
        let Some(header) = packets.header::<Ipv6Header>(slot, meta.l3) else {
            return Mark::none(Kind::Short);
        };
        let mut protocol = header.next_header;
        let (mut at, end) = (usize::from(meta.l4), usize::from(meta.end));
        let area = packets.area(slot);
        if protocol.is_extension() {
            match behind_extensions(area, meta.l3.into(), end) {
                Ok((behind, upper)) => (at, protocol) = (behind, upper),
                Err(kind) => return Mark::none(kind),
            }
        }
        let hosts = (Self::src(header), Self::dst(header), protocol);
        let transport = Transport { area, at, end };
        if protocol.has_ports() {
            return match transport.ports(protocol) {
                Some(ports) => flow(hosts, ports, |p, a, b| Key::v6(context, p, a, b)),
                None => Mark::none(Kind::Short),
            };
        }
        others6(hosts, header.hop_limit, &transport, context)
    }
}

/// Where the transport header begins in the head area, of a packet that a session was found for, and whether it is a first fragment. `None` where it has
/// none: it is a later one.
#[inline(always)]
pub(super) fn transport_at(packets: &Packets, slot: SlotId, is_v6: bool) -> Option<(usize, bool)> {
    let meta = packets.meta(slot);
    if is_v6 {
        let header = packets.header::<Ipv6Header>(slot, meta.l3)?;
        if header.next_header.is_extension() {
            let l3 = usize::from(meta.l3);
            let upper = walk(packets.area(slot).get(l3..meta.end.into())?).ok()?;
            if upper.is_later_fragment() {
                return None;
            }
            return Some((l3 + upper.offset, upper.is_fragment()));
        }
        return Some((meta.l4.into(), false));
    }
    let header = packets.header::<Ipv4Header>(slot, meta.l3)?;
    (meta.l4 != 0).then(|| (meta.l4.into(), header.is_fragment()))
}

/// Flags of a TCP segment; none where it has no whole header.
#[inline(always)]
pub(super) fn tcp_flags(packets: &Packets, slot: SlotId, is_v6: bool) -> u8 {
    let at = transport_at(packets, slot, is_v6);
    at.and_then(|(at, _)| packets.area(slot).get(at + TCP_FLAGS)).copied().unwrap_or_default()
}

/// Whether a segment with these flags begins a connection.
#[inline(always)]
pub(super) const fn begins_connection(flags: u8) -> bool {
    const OF_CONNECTIONS: TcpFlags =
        TcpFlags::SYN.union(TcpFlags::ACK).union(TcpFlags::RST).union(TcpFlags::FIN);
    flags & OF_CONNECTIONS.bits() == TcpFlags::SYN.bits()
}

/// Where the transport header is behind extension headers, and its protocol. An authentication header is one: it has an SPI, as with IPv4.
#[cold]
fn behind_extensions(area: &[u8; HEAD_AREA], l3: usize, end: usize) -> Result<(usize, IpProtocol), Kind> {
    let upper = walk_to_authentication(area.get(l3..end).unwrap_or_default()).map_err(|_| Kind::Short)?;
    if upper.is_later_fragment() {
        let offset = upper.fragment.map_or(0, |fragment| fragment.offset());
        return Err(later_fragment(upper.protocol, offset));
    }
    Ok((l3 + upper.offset, upper.protocol))
}

/// What a fragment is that begins `offset` bytes into its packet: one that has TCP's flags overlaps the first one, whose flags are looked
/// at (RFC 3128).
#[cold]
pub(super) fn later_fragment(protocol: IpProtocol, offset: usize) -> Kind {
    if protocol == IpProtocol::TCP && offset <= TCP_FLAGS { Kind::Short } else { Kind::Fragment }
}

/// A packet whose protocol has no ports.
#[inline(never)]
fn others6(hosts: Hosts<u128>, hop_limit: u8, icmp: &Transport<'_>, context: u16) -> (Key, Mark) {
    let make = |p, a, b| Key::v6_by_protocol(context, p, a, b);
    if let Some(at) = spi_at(hosts.2) {
        return icmp.spi(at).map_or_else(Mark::none, |halves| flow(hosts, halves, make));
    }
    if hosts.2 != IpProtocol::ICMPV6 {
        return Mark::none(Kind::Protocol);
    }
    let (Some(kind), Some(id)) = (icmp.byte(0), icmp.word(ECHO_ID)) else { return Mark::none(Kind::Short) };
    match Icmpv6Type(kind) {
        Icmpv6Type::ECHO_REQUEST | Icmpv6Type::ECHO_REPLY => flow(hosts, (id, id), make),
        Icmpv6Type(1..=4) => {
            let quoted = icmp.at + QUOTED;
            let bytes = icmp.area.get(quoted..icmp.end).unwrap_or_default();
            let Ok((header, _)) = Ipv6Header::parse(bytes) else { return Mark::none(Kind::Short) };
            let (mut at, mut protocol) = (quoted + Ipv6Header::LEN, header.next_header);
            if protocol.is_extension() {
                match behind_extensions(icmp.area, quoted, icmp.end) {
                    Ok((behind, upper)) => (at, protocol) = (behind, upper),
                    Err(kind) => return Mark::none(kind),
                }
            }
            let hosts = (V6::src(header), V6::dst(header), protocol);
            error(hosts, &Transport { at, ..*icmp }, IpProtocol::ICMPV6, make)
        }
        kind if link::is_of_link(kind, hop_limit, hosts.1) => Mark::none(Kind::Link),
        _ => Mark::none(Kind::Protocol),
    }
}
