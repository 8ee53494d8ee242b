//! Fragments as sessions see them.

use crate::ip::family::{Family, V4, V6};
use crate::reassembly::fragment_header_at;
use crate::session::tuple::{Kind, Mark, Tuple, has_sessions, later_fragment};
use graph::packet::{Flags, Meta, Packets, SlotId};
use tables::session::Key;
use wire::ipv4::{Ipv4Flags, Ipv4Header};
use wire::ipv6::{FragmentHeader, Ipv6Header, walk};
use wire::{Header, IpProtocol};

/// A part of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// What all of its parts have in common: addresses, identification, for IPv4 the protocol.
    pub(crate) datagram: Key,
    /// The source is the higher endpoint of that: answers may have the same number.
    pub(crate) from_high: bool,
    /// Where the part begins, in bytes.
    pub(crate) offset: usize,
    /// Bytes of the part.
    pub(crate) len: usize,
    /// Others follow.
    pub(crate) more: bool,
}

/// What the first fragment of a datagram has told: what its others belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ports {
    pub(super) protocol: u8,
    pub(super) source: u16,
    pub(super) destination: u16,
}

impl Ports {
    /// Those of the packet whose key that is.
    pub(super) fn of(key: &Key, from_high: bool) -> Self {
        let (low, high) = key.ports();
        let (source, destination) = if from_high { (high, low) } else { (low, high) };
        Self { protocol: key.protocol(), source, destination }
    }

    /// Writes them where the next look for the packet's session finds them; what is put there otherwise isn't known before that.
    pub(super) fn put(self, meta: &mut Meta) {
        meta.flags.set(Flags::FRAGMENT);
        meta.next_hop = u32::from(self.source) << 16 | u32::from(self.destination);
        meta.tx_if = self.protocol.into();
    }

    const fn get(meta: &Meta) -> Self {
        Self {
            protocol: meta.tx_if as u8,
            source: (meta.next_hop >> 16) as u16,
            destination: meta.next_hop as u16,
        }
    }
}

/// How fragments of an IP version are read.
pub(crate) trait Pieces: Tuple {
    /// Key under which the node takes fragments that other workers hand over.
    const HANDOVER_PIECES: u32;

    /// Which part of which datagram the packet is; `None` where it is a whole one, or can't be read.
    fn piece(packets: &Packets, slot: SlotId, context: u16) -> Option<Piece>;

    /// The key of a packet with these addresses, ports and protocol.
    fn with_ports(
        packets: &Packets,
        slot: SlotId,
        context: u16,
        ports: (u8, u16, u16),
    ) -> Option<(Key, bool)>;
}

impl Pieces for V4 {
    const HANDOVER_PIECES: u32 = 24;

    #[inline(always)]
    fn piece(packets: &Packets, slot: SlotId, context: u16) -> Option<Piece> {
        let header = packets.header::<Ipv4Header>(slot, packets.meta(slot).l3)?;
        if !header.is_fragment() {
            return None;
        }
        let (id, hosts) = (header.id.get(), (Self::src(header), Self::dst(header)));
        let (datagram, from_high) = Key::v4(context, header.protocol.0, (hosts.0, id), (hosts.1, id));
        let len =
            usize::from(header.total_len.get()).saturating_sub(header.header_len().max(Ipv4Header::LEN));
        let more = header.flags().contains(Ipv4Flags::MORE_FRAGMENTS);
        Some(Piece { datagram, from_high, offset: header.fragment_offset(), len, more })
    }

    fn with_ports(
        packets: &Packets,
        slot: SlotId,
        context: u16,
        ports: (u8, u16, u16),
    ) -> Option<(Key, bool)> {
        let header = packets.header::<Ipv4Header>(slot, packets.meta(slot).l3)?;
        let (protocol, source, destination) = ports;
        Some(Key::v4_by_protocol(
            context,
            protocol,
            (Self::src(header), source),
            (Self::dst(header), destination),
        ))
    }
}

impl Pieces for V6 {
    const HANDOVER_PIECES: u32 = 26;

    #[inline(always)]
    fn piece(packets: &Packets, slot: SlotId, context: u16) -> Option<Piece> {
        let header = packets.header::<Ipv6Header>(slot, packets.meta(slot).l3)?;
        if !header.next_header.is_extension() {
            return None;
        }
        let upper = walk(packets.head(slot)).ok().filter(|upper| upper.is_fragment())?;
        let fragment = upper.fragment?;
        let (id, hosts) = (fragment.id.get(), (Self::src(header), Self::dst(header)));
        // The protocol behind the fragment header is the first fragment's alone (RFC 8200 section 4.5).
        let ends = ((hosts.0, (id >> 16) as u16), (hosts.1, id as u16));
        let (datagram, from_high) = Key::v6(context, IpProtocol::FRAGMENT.0, ends.0, ends.1);
        let before = fragment_header_at(packets.head(slot), &upper).unwrap_or(upper.unfragmentable_len);
        let len = header.total_len().saturating_sub(before + FragmentHeader::LEN);
        Some(Piece { datagram, from_high, offset: fragment.offset(), len, more: fragment.more() })
    }

    fn with_ports(
        packets: &Packets,
        slot: SlotId,
        context: u16,
        ports: (u8, u16, u16),
    ) -> Option<(Key, bool)> {
        let header = packets.header::<Ipv6Header>(slot, packets.meta(slot).l3)?;
        let (protocol, source, destination) = ports;
        Some(Key::v6_by_protocol(
            context,
            protocol,
            (Self::src(header), source),
            (Self::dst(header), destination),
        ))
    }
}

/// What a packet is to sessions of which [`Tuple::read`] says this, if it may be a fragment: one whose datagram isn't known yet has first to be asked about.
#[cold]
pub(in super::super) fn seen<F: Pieces>(
    packets: &Packets,
    slot: SlotId,
    context: u16,
    (key, mark): (Key, Mark),
) -> (Key, Mark) {
    let none = |kind| (Key::NONE, Mark { kind, from_high: false });
    let meta = packets.meta(slot);
    let known = meta.flags.has(Flags::FRAGMENT);
    let Some(piece) = F::piece(packets, slot, context) else {
        // An ICMP error about a later fragment, of which nobody knows the ports.
        return if mark.kind == Kind::Fragment { none(Kind::Error) } else { (key, mark) };
    };
    match mark.kind {
        // An ICMP error, itself a first fragment, about a later one: it isn't the one without ports.
        Kind::Fragment if known && piece.offset == 0 => none(Kind::Error),
        Kind::Fragment if known => {
            let Ports { protocol, source, destination } = Ports::get(meta);
            if later_fragment(IpProtocol(protocol), piece.offset) == Kind::Short {
                return none(Kind::Short);
            }
            let key = F::with_ports(packets, slot, context, (protocol, source, destination));
            key.map_or(none(Kind::Short), |(key, from_high)| (key, Mark { kind: Kind::Later, from_high }))
        }
        Kind::Fragment if !F::IS_V6 && !has_sessions(IpProtocol(piece.datagram.protocol())) => {
            none(Kind::Protocol)
        }
        Kind::Flow | Kind::Error if !known => none(Kind::Fragment),
        _ => (key, mark),
    }
}
