//! `ip4-reassembly`: puts fragments of packets to our addresses together (RFC 791 section 3.2, RFC 815).
//!
//! | edge | packets |
//! |---|---|
//! | `ip4-local` | whole packets, in a slot of their own |
//! | `icmp4-error` | the first fragment of a packet whose others didn't come in time |
//! | `drop` | see [`Drop`] |
//!
//! Fragments of a packet may come by any queue: who sends them chooses, and a device that tells flows apart by port numbers
//! finds them in the first one only. Each packet belongs to one worker; others hand its fragments over. A fragment that waits
//! is copied, and ends here.

use super::assemble::{Assemble, Assembles, Bad, Counter, Loss};
use super::reassembly::Piece;
use crate::ip::family::V4;
use core::fmt;
use graph::packet::Meta;
use graph::{Attach, NodeKind, NodeSpec};
use wire::ipv4::{Ipv4Flags, Ipv4Header};
use wire::{Header, IpProtocol, U16};

/// Key under which the node takes fragments that other workers hand over.
const HANDOVER_KEY: u32 = 4;

graph::edges! {
    /// Where a packet goes from here.
    pub enum Next { Drop => "drop", Local => "ip4-local", IcmpError => "icmp4-error" }
}

graph::drops! {
    /// Why fragments don't become a packet.
    pub enum Drop {
        /// The fragment has come before.
        Duplicate => "duplicate", Info,
        /// Fragments overlap: somebody tries to hide something.
        Overlap => "overlap", Invalid,
        /// The fragment lies beyond the packet's end, or has a length that no fragment can have.
        BadFragment => "bad-fragment", Invalid,
        /// The packet has more fragments than are put together.
        TooMany => "too-many-fragments", Loss,
        /// Others didn't come in time; the sender is told where the first one did.
        TimedOut => "timed-out", Loss,
        /// Others had to make room for newer ones, or were of no use without those that were refused.
        Evicted => "evicted", Loss,
        /// All packet slots of the worker are in use.
        NoSlot => "no-slot", Loss,
        /// The worker that has the packet's other fragments doesn't keep up.
        HandoverFull => "handover-full", Loss,
    }
}

impl From<Loss> for Drop {
    fn from(loss: Loss) -> Self {
        match loss {
            Loss::Duplicate => Self::Duplicate,
            Loss::Overlap => Self::Overlap,
            Loss::BadFragment => Self::BadFragment,
            Loss::TooMany => Self::TooMany,
            Loss::TimedOut => Self::TimedOut,
            Loss::Evicted => Self::Evicted,
            Loss::NoSlot => Self::NoSlot,
            Loss::HandoverFull => Self::HandoverFull,
        }
    }
}

/// VRF, source, destination, protocol, identification.
type Key = (u16, [u8; 4], [u8; 4], IpProtocol, u16);

impl Assembles for V4 {
    type Drop = Drop;
    type Key = Key;

    /// 30 s, between RFC 791's 15 and RFC 1122's 60.
    const TIMEOUT: u64 = 30_000_000_000;
    const HANDOVER: u32 = HANDOVER_KEY;
    const LOCAL: u8 = Next::Local.edge();
    const ICMP_ERROR: u8 = Next::IcmpError.edge();

    fn read<'b>(bytes: &'b [u8], meta: &mut Meta) -> Result<(Key, Piece<'b>), Bad<Self>> {
        let bad = || Bad::Drop(Drop::BadFragment);
        let (header, _) = Ipv4Header::parse(bytes).map_err(|_| bad())?;
        let (headers, payload) = bytes.split_at_checked(header.header_len()).ok_or_else(bad)?;
        let (offset, more) = (header.fragment_offset(), header.flags().contains(Ipv4Flags::MORE_FRAGMENTS));
        let too_long = headers.len() + offset + payload.len() > usize::from(u16::MAX);
        if too_long || (more && !payload.len().is_multiple_of(8)) {
            return Err(bad());
        }
        let key = (meta.table, header.src, header.dst, header.protocol, header.id.get());
        Ok((key, Piece { offset, more, payload, headers }))
    }

    fn whole(mut bytes: Vec<u8>, payload: &[u8]) -> Result<(Vec<u8>, u16), Drop> {
        let l4 = bytes.len();
        let len = u16::try_from(l4 + payload.len()).map_err(|_| Drop::BadFragment)?;
        let (header, options) = Ipv4Header::parse_mut(&mut bytes).map_err(|_| Drop::BadFragment)?;
        header.set_fragment(Ipv4Flags::empty(), 0);
        header.total_len = U16::new(len);
        header.checksum = U16::new(header.compute_checksum(options));
        bytes.extend_from_slice(payload);
        Ok((bytes, l4 as u16))
    }

    fn describe(head: &[u8], out: &mut dyn fmt::Write) -> fmt::Result {
        match Ipv4Header::parse(head) {
            Ok((header, _)) => write!(out, "id {} from byte {}", header.id, header.fragment_offset()),
            Err(_) => Ok(()),
        }
    }
}

/// The node's declaration.
pub const NODE: NodeSpec = NodeSpec {
    name: "ip4-reassembly",
    help: "Puts fragments of IPv4 packets to us together.",
    kind: NodeKind::Output,
    edges: Next::NAMES,
    drops: Drop::SPECS,
    counters: Counter::SPECS,
    attach: &[Attach { parent: "handover", key: HANDOVER_KEY }],
    make: Assemble::<V4>::boxed,
    ..NodeSpec::EMPTY
};
