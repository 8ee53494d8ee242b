//! `ip6-fragment`: cuts a packet of our own that is too big for its next hop (RFC 8200 section 4.5), or one that came in fragments and was put together here
//! for an engine to see it whole. Other packets of others are never cut: their senders are told ("packet too big").
//!
//! | edge | packets |
//! |---|---|
//! | *arc `interface-output`* of the next hop's interface | all fragments |
//! | `drop` | see [`Drop`] |
//!
//! Each fragment has headers of its own; the payload stays where it is and is shared by all of them.

use super::node::{Counter, Cuts, Drop, Fragment};
use crate::ip::Lane;
use crate::ip::family::V6;
use crate::ip::rewrite::forward;
use crate::reassembly::fragment_header_at;
use core::fmt;
use core::hash::BuildHasher;
use graph::NodeSpec;
use graph::nodes::INTERFACE_OUTPUT;
use graph::packet::{Packets, SlotId};
use std::hash::RandomState;
use wire::ipv6::{FragmentHeader, Ipv6Header, walk};
use wire::{Header, IntoBytes, IpProtocol, U16};

graph::edges! {
    /// Where packets go besides the arc.
    enum Next {
        Drop => "drop",
    }
}

/// Identifications of packets: they count up, from a place of each source and destination's own that nobody else can guess
/// (RFC 7739 section 5.3).
#[derive(Default)]
pub(super) struct Identifications {
    secret: RandomState,
    count: u32,
}

impl Identifications {
    fn next(&mut self, header: &Ipv6Header) -> u32 {
        self.count = self.count.wrapping_add(1);
        let place = self.secret.hash_one((header.src(), header.dst()));
        (place as u32).wrapping_add(self.count)
    }
}

/// Bytes of a fragment's headers at most: what can stand before the fragment header in a packet's head.
const HEADERS: usize = 128;

/// The headers of a packet's fragments.
pub(super) struct Headers {
    /// All of them, the fragment header last.
    bytes: [u8; HEADERS],
    len: usize,
    /// Bytes of headers in the packet itself.
    in_packet: usize,
    /// Where the packet itself begins in the whole, and whether it isn't the end of that.
    base: usize,
    more: bool,
}

impl Headers {
    /// Those before the fragment header, and that.
    fn new(before: &[u8], fragment: &FragmentHeader, in_packet: usize) -> Option<Self> {
        let (mut bytes, len) = ([0; HEADERS], before.len() + FragmentHeader::LEN);
        let (first, last) = bytes.get_mut(..len)?.split_at_mut_checked(before.len())?;
        first.copy_from_slice(before);
        last.copy_from_slice(fragment.as_bytes());
        Some(Self { bytes, len, in_packet, base: fragment.offset(), more: fragment.more() })
    }

    /// Those of a packet that has a fragment header already: they stay (RFC 8200 section 4.5).
    fn of_fragment(head: &[u8]) -> Option<Self> {
        let upper = walk(head).ok()?;
        let (before, fragment) = (head.get(..fragment_header_at(head, &upper)?)?, upper.fragment?);
        Self::new(before, &fragment, before.len() + FragmentHeader::LEN)
    }
}

impl Cuts for V6 {
    type State = Identifications;
    type Headers = Headers;

    fn begin(
        ids: &mut Identifications,
        packets: &mut Packets,
        slot: SlotId,
        lane: &Lane<'_>,
    ) -> Result<Headers, Drop> {
        let (meta, area) = packets.parts_mut(slot);
        if !forward::<Self>(meta, area, lane) {
            return Err(Drop::BadPacket);
        }
        let head = packets.head(slot);
        let (whole, _) = Ipv6Header::parse(head).map_err(|_| Drop::BadPacket)?;
        if whole.next_header.is_extension() {
            return Headers::of_fragment(head).ok_or(Drop::BadPacket);
        }
        let fragment = FragmentHeader::new(whole.next_header, 0, false, ids.next(whole));
        let before = Ipv6Header { next_header: IpProtocol::FRAGMENT, ..*whole };
        Headers::new(before.as_bytes(), &fragment, Ipv6Header::LEN).ok_or(Drop::BadPacket)
    }

    fn lens(headers: &Headers) -> [usize; 3] {
        [headers.in_packet, headers.len, headers.len]
    }

    fn of_fragment(headers: &mut Headers, from: usize, to: usize, more: bool) -> &[u8] {
        let Headers { bytes, len, base, more: others, .. } = headers;
        let bytes = &mut bytes[..*len];
        let payload_len = (*len - Ipv6Header::LEN + to - from) as u16;
        if let Ok((header, rest)) = Ipv6Header::parse_mut(bytes) {
            header.payload_len = U16::new(payload_len);
            let at = rest.len() - FragmentHeader::LEN;
            if let Ok((fragment, _)) = FragmentHeader::parse_mut(&mut rest[at..]) {
                let (protocol, id) = (fragment.next_header, fragment.id.get());
                *fragment = FragmentHeader::new(protocol, *base + from, more || *others, id);
            }
        }
        bytes
    }

    fn describe(head: &[u8], out: &mut dyn fmt::Write) -> fmt::Result {
        match walk(head).ok().and_then(|upper| upper.fragment) {
            Some(fragment) => write!(out, "last fragment from byte {}", fragment.offset()),
            None => Ok(()),
        }
    }
}

/// The node's declaration.
pub const NODE: NodeSpec = NodeSpec {
    name: "ip6-fragment",
    help: "Cuts IPv6 packets of our own, or put together here, that are too big for their next hop.",
    edges: Next::NAMES,
    drops: Drop::SPECS,
    counters: Counter::SPECS,
    starts: &[INTERFACE_OUTPUT],
    make: Fragment::<V6>::boxed,
    ..NodeSpec::EMPTY
};
