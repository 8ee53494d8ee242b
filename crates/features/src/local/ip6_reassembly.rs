//! `ip6-reassembly`: puts fragments of packets to our addresses together (RFC 8200 section 4.5, RFC 5722, RFC 6980).
//!
//! | edge | packets |
//! |---|---|
//! | `ip6-local` | whole packets, in a slot of their own, without the fragment header |
//! | `icmp6-error` | a fragment whose length can't be; the first one of a packet whose others didn't come in time |
//! | `drop` | see [`Drop`] |
//!
//! Each packet belongs to one worker, as with `ip4-reassembly`.

use super::assemble::{Assemble, Assembles, Bad, Counter, Loss};
use super::reassembly::Piece;
use crate::icmp::request_v6;
use crate::ip::family::V6;
use core::fmt;
use graph::packet::Meta;
use graph::{Attach, NodeKind, NodeSpec};
use wire::ipv6::{FragmentHeader, Ipv6Header, UpperLayer, walk};
use wire::{Header, Icmpv6Error, Icmpv6Type, IpProtocol, U16};

/// Key under which the node takes fragments that other workers hand over.
const HANDOVER_KEY: u32 = 6;

graph::edges! {
    /// Where a packet goes from here.
    pub enum Next { Drop => "drop", Local => "ip6-local", IcmpError => "icmp6-error" }
}

graph::drops! {
    /// Why fragments don't become a packet.
    pub enum Drop {
        /// The fragment has come before.
        Duplicate => "duplicate", Info,
        /// Fragments overlap: somebody tries to hide something.
        Overlap => "overlap", Invalid,
        /// The fragment lies beyond the packet's end, or its headers aren't whole.
        BadFragment => "bad-fragment", Invalid,
        /// The packet has more fragments than are put together.
        TooMany => "too-many-fragments", Loss,
        /// Others didn't come in time; the sender is told where the first one did.
        TimedOut => "timed-out", Loss,
        /// Others had to make room for newer ones, or were of no use without those that were refused.
        Evicted => "evicted", Loss,
        /// Neighbour discovery doesn't come in fragments (RFC 6980).
        NeighbourDiscovery => "neighbor-discovery", Invalid,
        /// The fragment's length or offset can't be; the sender is told.
        BadLength => "bad-length", Invalid,
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

/// VRF and, as a link-local address says nothing without it, interface; source, destination, identification.
type Key = (u16, u16, [u8; 16], [u8; 16], u32);

/// Where the payload length stands in the IPv6 header.
const PAYLOAD_LEN_AT: u32 = 4;
/// Where the offset stands in the fragment header.
const OFFSET_AT: usize = 2;

impl Assembles for V6 {
    type Drop = Drop;
    type Key = Key;

    /// RFC 8200 section 4.5: 60 s.
    const TIMEOUT: u64 = 60_000_000_000;
    const HANDOVER: u32 = HANDOVER_KEY;
    const LOCAL: u8 = Next::Local.edge();
    const ICMP_ERROR: u8 = Next::IcmpError.edge();

    /// The headers that are kept of the first fragment end with its fragment header.
    fn read<'b>(bytes: &'b [u8], meta: &mut Meta) -> Result<(Key, Piece<'b>), Bad<Self>> {
        let bad = || Bad::Drop(Drop::BadFragment);
        let (header, _) = Ipv6Header::parse(bytes).map_err(|_| bad())?;
        let upper = walk(bytes).map_err(|_| bad())?;
        let fragment = upper.fragment.ok_or_else(bad)?;
        let before = place(bytes, &upper).ok_or_else(bad)?;
        let (headers, payload) = bytes.split_at_checked(before + FragmentHeader::LEN).ok_or_else(bad)?;
        let (offset, more) = (fragment.offset(), fragment.more());
        let pointer = if more && !payload.len().is_multiple_of(8) {
            Some(PAYLOAD_LEN_AT)
        } else if before - Ipv6Header::LEN + offset + payload.len() > usize::from(u16::MAX) {
            Some((before + OFFSET_AT) as u32)
        } else {
            None
        };
        if let Some(pointer) = pointer {
            request_v6(meta, Icmpv6Error::WrongField { pointer });
            return Err(Bad::Tell(Drop::BadLength));
        }
        let key = (meta.table, meta.rx_if, header.src, header.dst, fragment.id.get());
        Ok((key, Piece { offset, more, payload, headers }))
    }

    fn whole(headers: Vec<u8>, payload: &[u8]) -> Result<(Vec<u8>, u16), Drop> {
        let whole = join(headers, payload).ok_or(Drop::BadFragment)?;
        let found = walk(&whole).map_err(|_| Drop::BadFragment)?;
        let kind = whole.get(found.offset).copied().map(Icmpv6Type);
        let discovery = kind.is_some_and(Icmpv6Type::is_neighbour_discovery);
        if found.protocol == IpProtocol::ICMPV6 && discovery {
            return Err(Drop::NeighbourDiscovery);
        }
        let l4 = u16::try_from(found.offset).map_err(|_| Drop::BadFragment)?;
        Ok((whole, l4))
    }

    fn describe(head: &[u8], out: &mut dyn fmt::Write) -> fmt::Result {
        match walk(head).ok().and_then(|upper| upper.fragment) {
            Some(fragment) => write!(out, "id {:#010x} from byte {}", fragment.id.get(), fragment.offset()),
            None => Ok(()),
        }
    }
}

/// Where the fragment header stands.
fn place(bytes: &[u8], upper: &UpperLayer) -> Option<usize> {
    let (header, _) = Ipv6Header::parse(bytes).ok()?;
    let (mut protocol, mut at) = (header.next_header, Ipv6Header::LEN);
    while protocol != IpProtocol::FRAGMENT {
        // Lengths of AH are of another unit, and nothing signed is put together here.
        let extension = bytes.get(at..at + 2).filter(|_| protocol != IpProtocol::AH)?;
        (protocol, at) = (IpProtocol(extension[0]), at + (usize::from(extension[1]) + 1) * 8);
        if at >= upper.offset {
            return None;
        }
    }
    Some(at)
}

/// The packet of a first fragment's headers, the last of which is its fragment header, and the whole payload, which begins
/// with what that one names (RFC 8200 section 4.5); what later ones name doesn't count.
fn join(mut bytes: Vec<u8>, payload: &[u8]) -> Option<Vec<u8>> {
    let before = bytes.len().checked_sub(FragmentHeader::LEN)?;
    let protocol = FragmentHeader::parse(bytes.get(before..)?).ok()?.0.next_header;
    bytes.truncate(before);
    let len = u16::try_from(before.checked_sub(Ipv6Header::LEN)? + payload.len()).ok()?;
    let (header, rest) = Ipv6Header::parse_mut(&mut bytes).ok()?;
    header.payload_len = U16::new(len);
    if header.next_header == IpProtocol::FRAGMENT {
        header.next_header = protocol;
    } else {
        // The last header before names what follows.
        let mut at = 0;
        loop {
            let [next, units, ..] = rest.get_mut(at..)? else { return None };
            let len = (usize::from(*units) + 1) * 8;
            if *next == IpProtocol::FRAGMENT.0 {
                *next = protocol.0;
                break;
            }
            at += len;
        }
    }
    bytes.extend_from_slice(payload);
    Some(bytes)
}

/// The node's declaration.
pub const NODE: NodeSpec = NodeSpec {
    name: "ip6-reassembly",
    help: "Puts fragments of IPv6 packets to us together.",
    kind: NodeKind::Output,
    edges: Next::NAMES,
    drops: Drop::SPECS,
    counters: Counter::SPECS,
    attach: &[Attach { parent: "handover", key: HANDOVER_KEY }],
    make: Assemble::<V6>::boxed,
    ..NodeSpec::EMPTY
};
