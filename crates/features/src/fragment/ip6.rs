//! `ip6-fragment`: cuts a packet of our own that is too big for its next hop (RFC 8200 section 4.5). Packets of others
//! are never cut: their senders are told ("packet too big").
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

/// Bytes of a fragment's headers.
const HEADERS: usize = Ipv6Header::LEN + FragmentHeader::LEN;

/// The headers of a packet's fragments.
pub(super) struct Headers {
    whole: Ipv6Header,
    id: u32,
    bytes: [u8; HEADERS],
}

impl Cuts for V6 {
    type State = Identifications;
    type Headers = Headers;

    fn begin(
        ids: &mut Identifications,
        packets: &mut Packets,
        slot: SlotId,
        _: &Lane<'_>,
    ) -> Result<Headers, Drop> {
        let (whole, _) = Ipv6Header::parse(packets.head(slot)).map_err(|_| Drop::BadPacket)?;
        // What is made here has no extension headers; which of them would have to be in every fragment need not be known.
        if whole.next_header.is_extension() {
            return Err(Drop::BadPacket);
        }
        Ok(Headers { whole: *whole, id: ids.next(whole), bytes: [0; HEADERS] })
    }

    fn lens(_: &Headers) -> [usize; 3] {
        [Ipv6Header::LEN, HEADERS, HEADERS]
    }

    fn of_fragment(headers: &mut Headers, from: usize, to: usize, more: bool) -> &[u8] {
        let Headers { whole, id, bytes } = headers;
        let len = U16::new((FragmentHeader::LEN + to - from) as u16);
        let ip = Ipv6Header { next_header: IpProtocol::FRAGMENT, payload_len: len, ..*whole };
        let fragment = FragmentHeader::new(whole.next_header, from, more, *id);
        let (first, second) = bytes.split_at_mut(Ipv6Header::LEN);
        first.copy_from_slice(ip.as_bytes());
        second.copy_from_slice(fragment.as_bytes());
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
    help: "Cuts IPv6 packets of our own that are too big for their next hop.",
    edges: Next::NAMES,
    drops: Drop::SPECS,
    counters: Counter::SPECS,
    starts: &[INTERFACE_OUTPUT],
    make: Fragment::<V6>::boxed,
    ..NodeSpec::EMPTY
};
