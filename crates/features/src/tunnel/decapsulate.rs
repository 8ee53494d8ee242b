//! The way out of a tunnel, the same for both formats and IP versions: outer headers off, and on as if the interface had
//! received what was inside.

use super::NESTING_LIMIT;
use super::ecn;
use super::format::{Format, Read, suits};
use super::table::{Door, End, Found, Guest, Tunnels};
use crate::interface::{Direction, LinkMode, Tally};
use crate::ip::family::{Family, V4, V6};
use core::fmt;
use core::marker::PhantomData;
use graph::arc::{ArcPlace, Arcs};
use graph::checksum;
use graph::nodes::DEVICE_INPUT;
use graph::packet::{Flags, Gso, HEAD, HEAD_AREA, Offload, OwnedPacket, Packets, SlotId};
use graph::publish::Key;
use graph::{Ctx, Frame, GONE, IfIndex, Node, NodeContext};
use wire::checksum::Partial;
use wire::{Header, IpProtocol, Ipv4Header, Ipv6Header, UdpHeader};

graph::edges! {
    /// Where a packet goes from here, besides the arc.
    pub enum Next { Drop => "drop" }
}

graph::drops! {
    /// Why a packet that came to a tunnel's port isn't taken.
    pub enum Drop {
        /// The packet ends within the headers of the tunnel, or there is nothing inside.
        Truncated => "truncated", Invalid,
        /// The header has no network identifier (VXLAN), or another version or options that don't add up (Geneve).
        BadHeader => "bad-header", Invalid,
        /// It is a control packet (Geneve's O flag): nothing here speaks with tunnel endpoints.
        Control => "control", Info,
        /// A Geneve option says that the packet is to be dropped where the option isn't known.
        CriticalOption => "critical-option", Loss,
        /// Its UDP checksum isn't that of what it carries: it was damaged on its way.
        BadChecksum => "bad-checksum", Invalid,
        /// It has no UDP checksum, over IPv6 and where the tunnel wants one: neither end may leave it out (RFC 6935), unless both are told to.
        NoChecksum => "no-checksum", Loss,
        /// What is inside is no Ethernet frame, or (Geneve in mode ip) no IP packet.
        UnknownProtocol => "unknown-protocol", Loss,
        /// No tunnel leads to the address that the packet comes from.
        UnknownPeer => "unknown-peer", Loss,
        /// A tunnel leads there, but none with this network identifier.
        UnknownVni => "unknown-vni", Loss,
        /// The packet has come out of as many tunnels, one inside the other, as it may: four.
        Recursion => "recursion", Loss,
        /// The tunnel's interface is administratively down.
        TunnelDown => "tunnel-down", Loss,
        /// A router on the way has met congestion, and the sender of the packet inside takes no hint but its loss (RFC 6040).
        Congested => "congested", Loss,
        /// Several packets of a tunnel in one (UDP segmentation offload): a sender's device would have had to take them apart.
        SuperFrame => "super-frame", Loss,
        /// The headers are long, or the checksum covers a body that has to be read, and all packet slots of the worker are in use.
        NoSlot => "no-slot", Loss,
    }
}

/// What is read of outer IP headers.
pub(super) trait Underlay: Family {
    /// Explicit congestion notification, 0 to 3.
    fn ecn(header: &Self::Header) -> u8;

    /// What a UDP checksum covers besides a datagram of `len` bytes.
    fn pseudo_header(header: &Self::Header, len: u16) -> Partial;
}

impl Underlay for V4 {
    fn ecn(header: &Ipv4Header) -> u8 {
        header.ecn()
    }

    fn pseudo_header(header: &Ipv4Header, len: u16) -> Partial {
        header.pseudo_header(len)
    }
}

impl Underlay for V6 {
    fn ecn(header: &Ipv6Header) -> u8 {
        header.ecn()
    }

    fn pseudo_header(header: &Ipv6Header, len: u16) -> Partial {
        header.pseudo_header(IpProtocol::UDP, len.into())
    }
}

/// One worker's instance.
pub(super) struct Decapsulate<U, F> {
    tunnels: Key<Tunnels>,
    arcs: Key<Arcs>,
    input: ArcPlace,
    tally: Tally,
    kind: PhantomData<(U, F)>,
}

impl<U: Underlay, F: Format> Decapsulate<U, F> {
    /// The node.
    pub(super) fn boxed(cx: &NodeContext<'_>) -> Box<dyn Node> {
        let (tunnels, arcs, input) = (cx.table(), cx.table(), cx.arc(DEVICE_INPUT));
        Box::new(Self { tunnels, arcs, input, tally: Tally::default(), kind: PhantomData })
    }
}

impl<U: Underlay, F: Format> Node for Decapsulate<U, F> {
    fn process(&mut self, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>) {
        let mut before = None;
        for (slot, next) in frame.slots.iter().zip(frame.next.iter_mut()) {
            *next = match self.packet(ctx, *slot, &mut before) {
                Ok((edge, inner)) if inner == *slot => edge,
                Ok((edge, inner)) => {
                    ctx.emit(edge, inner);
                    GONE
                }
                Err(reason) => ctx.drop(*slot, reason),
            };
        }
        self.tally.flush(ctx.counters, Direction::Rx);
    }

    fn trace(&self, packets: &Packets, slot: SlotId, out: &mut dyn fmt::Write) -> fmt::Result {
        let meta = packets.meta(slot);
        write!(out, "interface {} length {}", meta.rx_if, meta.len())?;
        match packets.header::<U::Header>(slot, meta.l3).filter(|_| meta.l3 < meta.data) {
            Some(outer) => write!(out, " from {}", U::generic(U::src(outer))),
            None => Ok(()),
        }
    }
}

/// What was found in front of a packet.
struct Opened {
    read: Read,
    /// Position in the head area at which the packet begins, or `Err`: too far behind, so many bytes from the current header on.
    at: Result<u16, usize>,
}

/// By whom a packet of the vector came in, and where it went: packets of one tunnel come one behind the other.
#[derive(Clone, Copy)]
struct Before<A> {
    src: A,
    dst: A,
    vrf: u16,
    port: u16,
    vni: u32,
    end: End,
    edge: u8,
}

/// Where a packet that begins later is moved to the front of another slot: too little of its head would have room.
const LATEST: usize = HEAD_AREA - 96;

impl<U: Underlay, F: Format> Decapsulate<U, F> {
    /// Takes the headers off. The edge, and the slot: mostly the same.
    fn packet(
        &mut self,
        ctx: &mut Ctx<'_>,
        slot: SlotId,
        before: &mut Option<Before<U::Address>>,
    ) -> Result<(u8, SlotId), Drop> {
        let meta = ctx.packets.meta(slot);
        if meta.offload.gso != Gso::None {
            return Err(Drop::SuperFrame);
        }
        if meta.decapsulated >= NESTING_LIMIT {
            return Err(Drop::Recursion);
        }
        let (l3, vrf) = (meta.l3, meta.table);
        let outer = *ctx.packets.header::<U::Header>(slot, l3).ok_or(Drop::Truncated)?;
        let port = cut_to_datagram(ctx.packets, slot)?;
        let opened = open::<F>(ctx.packets, slot)?;
        let (src, dst, vni) = (U::src(&outer), U::dst(&outer), opened.read.vni);
        let like =
            |it: &Before<U::Address>| (it.src, it.dst, it.vrf, it.port, it.vni) == (src, dst, vrf, port, vni);
        let Before { end: End { index, mode, zero }, edge, .. } = match *before {
            Some(known) if like(&known) => known,
            _ => {
                let (end, edge) = self.find(ctx, (vrf, U::generic(dst), port), (U::generic(src), vni))?;
                *before.insert(Before { src, dst, vrf, port, vni, end, edge })
            }
        };
        if !suits(opened.read.protocol, mode) {
            return Err(Drop::UnknownProtocol);
        }
        if edge == 0 {
            return Err(Drop::TunnelDown);
        }
        verify::<U>(ctx.packets, slot, &outer, zero)?;
        let slot = bare(ctx.packets, slot, opened.at)?;
        receive(ctx.packets, slot, index, mode, U::ecn(&outer))?;
        self.tally.add(ctx.counters, Direction::Rx, index, ctx.packets.meta(slot).len());
        Ok((edge, slot))
    }

    /// The tunnel by which `guest` comes in at `door`, and the edge to where its packets go on; 0 where it is down.
    fn find(&self, ctx: &Ctx<'_>, door: Door, guest: Guest) -> Result<(End, u8), Drop> {
        match ctx.tables.get(self.tunnels).find(door, guest) {
            Found::Tunnel(end) => Ok((end, self.input.edge(ctx.tables.get(self.arcs), end.index, 0))),
            Found::UnknownVni => Err(Drop::UnknownVni),
            Found::UnknownPeer => Err(Drop::UnknownPeer),
        }
    }
}

/// Reads the UDP header, cuts off what is behind the datagram, and gives the destination port.
fn cut_to_datagram(packets: &mut Packets, slot: SlotId) -> Result<u16, Drop> {
    let meta = packets.meta(slot);
    let before = u32::from(meta.l4.checked_sub(meta.data).ok_or(Drop::Truncated)?);
    let carried = meta.len().checked_sub(before).ok_or(Drop::Truncated)?;
    let head = packets.area(slot).get(meta.l4 as usize..meta.end as usize).unwrap_or_default();
    let udp = UdpHeader::check(head, carried as usize).map_err(|_| Drop::Truncated)?;
    let (port, len) = (udp.dst_port.get(), u32::from(udp.len.get()));
    packets.truncate(slot, before + len);
    Ok(port)
}

/// Looks at the checksum of a datagram, behind which nothing is. One that has none is good where `zero` says so.
///
/// RFC 8926 section 3.3: one that isn't zero must be looked at. RFC 7348 section 5: it may be.
fn verify<U: Underlay>(
    packets: &mut Packets,
    slot: SlotId,
    outer: &U::Header,
    zero: bool,
) -> Result<(), Drop> {
    let meta = packets.meta(slot);
    let (l4, offload) = (meta.l4, meta.offload);
    let udp = packets.header::<UdpHeader>(slot, l4).ok_or(Drop::Truncated)?;
    let len = udp.len.get();
    if udp.checksum.get() == 0 {
        return if zero { Ok(()) } else { Err(Drop::NoChecksum) };
    }
    if offload.checksum_needed && offload.checksum_start == l4 {
        // Its sender has left it to the device: it has been on no wire.
        return Ok(());
    }
    let pseudo = U::pseudo_header(outer, len);
    let sum = if offload.checksum_needed && offload.checksum_start > l4 {
        pseudo.plus(unfinished(packets, slot).ok_or(Drop::Truncated)?)
    } else {
        // Into private memory: its sender could change it behind the sum.
        let body = Partial::of(packets.pull_body(slot).map_err(|_| Drop::NoSlot)?);
        let head = packets.area(slot).get(l4.into()..packets.meta(slot).end.into()).unwrap_or_default();
        pseudo.plus(Partial::of(head)).plus(body.at(head.len()))
    };
    if sum.checksum() == 0 { Ok(()) } else { Err(Drop::BadChecksum) }
}

/// The sum of a datagram within which a checksum isn't finished: all that this covers, itself included, will have the opposite of the sum that stands in its place
/// now. The sender has reckoned with that.
#[cold]
fn unfinished(packets: &mut Packets, slot: SlotId) -> Option<Partial> {
    let Offload { checksum_start, checksum_offset, .. } = packets.meta(slot).offload;
    let (start, field) =
        (usize::from(checksum_start), usize::from(checksum_start) + usize::from(checksum_offset));
    if !packets.pull_head(slot, field + 2) {
        return None;
    }
    let area = packets.area(slot);
    let before = area.get(packets.meta(slot).l4.into()..start)?;
    let pending = u16::from_be_bytes(*area.get(field..field + 2)?.first_chunk()?);
    Some(Partial::of(before).plus(Partial::of_u16(!pending).at(before.len())))
}

/// Reads the header behind UDP, wherever it lies.
fn open<F: Format>(packets: &mut Packets, slot: SlotId) -> Result<Opened, Drop> {
    let meta = packets.meta(slot);
    let data = usize::from(meta.data);
    let header = usize::from(meta.l4) + UdpHeader::LEN;
    let end = data + meta.len() as usize;
    if header + F::FIXED >= end || !packets.pull_head(slot, header + F::FIXED) {
        return Err(Drop::Truncated);
    }
    let fixed = packets.area(slot).get(header..header + F::FIXED).unwrap_or_default();
    let inner = header + F::header_len(fixed);
    if inner >= end {
        return Err(Drop::Truncated);
    }
    if inner <= LATEST {
        let head = end.min(inner + HEAD).min(HEAD_AREA);
        if !packets.pull_head(slot, head) {
            return Err(Drop::Truncated);
        }
        let read = F::read(packets.area(slot).get(header..inner).unwrap_or_default())?;
        return Ok(Opened { read, at: Ok(inner as u16) });
    }
    let mut bytes = vec![0; inner - data];
    packets.copy_out(slot, &mut bytes);
    let read = F::read(bytes.get(header - data..).unwrap_or_default())?;
    Ok(Opened { read, at: Err(inner - data) })
}

/// The packet that begins at `at`, without what is before it.
fn bare(packets: &mut Packets, slot: SlotId, at: Result<u16, usize>) -> Result<SlotId, Drop> {
    let before = match at {
        Ok(at) => {
            let meta = packets.meta_mut(slot);
            meta.data = at;
            // What the sender has left to the device may be left of the packet inside, or of the outer one, which has no more use.
            if meta.offload.checksum_start < at {
                meta.offload = Offload::default();
            }
            return Ok(slot);
        }
        Err(before) => before,
    };
    // Long options: once in a while, at the price of a copy.
    checksum::complete(packets, slot).map_err(|_| Drop::Truncated)?;
    let mut bytes = vec![0; packets.meta(slot).len() as usize];
    packets.copy_out(slot, &mut bytes);
    let like = *packets.meta(slot);
    let inner = packets.adopt(&OwnedPacket::new(like.rx_if, bytes.split_off(before)));
    let inner = inner.map_err(|_| Drop::NoSlot)?;
    let meta = packets.meta_mut(inner);
    (meta.trace, meta.decapsulated) = (like.trace, like.decapsulated);
    if like.flags.has(Flags::ENCAPSULATED) {
        meta.flags.set(Flags::ENCAPSULATED);
    }
    Ok(inner)
}

/// The packet has been received by interface `index` from now on.
fn receive(
    packets: &mut Packets,
    slot: SlotId,
    index: IfIndex,
    mode: LinkMode,
    outer_ecn: u8,
) -> Result<(), Drop> {
    ecn::carry_over(packets.head_mut(slot), mode, outer_ecn).map_err(|_| Drop::Congested)?;
    let meta = packets.meta_mut(slot);
    // What we have encapsulated ourselves and is here in the same round came by a route to ourselves: were that forgotten, a bridge with
    // both ends would send it around for ever.
    meta.flags = if meta.flags.has(Flags::ENCAPSULATED) { Flags::ENCAPSULATED } else { Flags::NONE };
    // `l3` stays: a trace tells by it who has sent the packet, and the nodes behind set it anew.
    meta.l2 = meta.data;
    // No node resets this, so that a way through a bridge or another worker counts as well.
    meta.decapsulated += 1;
    (meta.l4, meta.arc, meta.rx_if) = (0, 0, index);
    (meta.next_hop, meta.flow_hash) = (0, 0);
    Ok(())
}
