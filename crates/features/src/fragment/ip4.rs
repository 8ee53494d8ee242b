//! `ip4-fragment`: cuts a packet that is too big for its next hop (RFC 791 section 3.2, RFC 1812 section 5.2.6).
//!
//! | edge | packets |
//! |---|---|
//! | *arc `interface-output`* | all fragments, by the interface of the next hop |
//! | `drop` | see [`Drop`] |
//!
//! Each fragment has a header of its own; the payload stays where it is and is shared by all of them. Fragments are cut
//! again the same way.

use super::cut::HeaderBytes;
use super::node::{Counter, Cuts, Drop, Fragment};
use crate::ip::Lane;
use crate::ip::family::V4;
use crate::ip::rewrite::forward;
use core::fmt;
use graph::NodeSpec;
use graph::checksum;
use graph::nodes::INTERFACE_OUTPUT;
use graph::packet::{Packets, SlotId};
use wire::Header;
use wire::ipv4::{Ipv4Flags, Ipv4Header};

graph::edges! {
    /// Where packets go besides the arc.
    enum Next {
        Drop => "drop",
    }
}

/// The headers of a packet's fragments.
pub(super) struct Headers {
    first: HeaderBytes,
    later: HeaderBytes,
    /// Where the packet's payload begins in the whole, of which it is a fragment itself.
    base: usize,
    /// The packet is a fragment behind which more come.
    more: bool,
}

impl Cuts for V4 {
    type State = ();
    type Headers = Headers;

    fn begin((): &mut (), packets: &mut Packets, slot: SlotId, lane: &Lane<'_>) -> Result<Headers, Drop> {
        // No device can finish it once the packet is cut.
        checksum::complete(packets, slot).map_err(|_| Drop::BadPacket)?;
        let len = packets.meta(slot).len() as usize;
        let (fixed, _) = Ipv4Header::parse(packets.head(slot)).map_err(|_| Drop::BadPacket)?;
        let (base, more) = (fixed.fragment_offset(), fixed.flags().contains(Ipv4Flags::MORE_FRAGMENTS));
        // Offsets beyond the last there is would begin again at 0, and hide one payload behind another.
        if base + len > usize::from(u16::MAX) {
            return Err(Drop::BadPacket);
        }
        let (meta, area) = packets.parts_mut(slot);
        if !forward::<Self>(meta, area, lane) {
            return Err(Drop::BadPacket);
        }
        let first = HeaderBytes::first(packets.head(slot)).ok_or(Drop::BadPacket)?;
        Ok(Headers { first, later: first.later(), base, more })
    }

    fn lens(headers: &Headers) -> [usize; 3] {
        [headers.first.len(), headers.first.len(), headers.later.len()]
    }

    fn of_fragment(headers: &mut Headers, from: usize, to: usize, more: bool) -> &[u8] {
        let Headers { first, later, base, more: fragment } = headers;
        let bytes = if from == 0 { first } else { later };
        bytes.of_fragment(*base + from, to - from, more || *fragment)
    }

    fn describe(head: &[u8], out: &mut dyn fmt::Write) -> fmt::Result {
        match Ipv4Header::parse(head) {
            Ok((header, _)) => write!(out, "last fragment from byte {}", header.fragment_offset()),
            Err(_) => Ok(()),
        }
    }
}

/// The node's declaration.
pub const NODE: NodeSpec = NodeSpec {
    name: "ip4-fragment",
    help: "Cuts IPv4 packets that are too big for their next hop.",
    edges: Next::NAMES,
    drops: Drop::SPECS,
    counters: Counter::SPECS,
    starts: &[INTERFACE_OUTPUT],
    make: Fragment::<V4>::boxed,
    ..NodeSpec::EMPTY
};
