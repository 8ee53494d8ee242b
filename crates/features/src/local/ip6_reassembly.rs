//! `ip6-reassembly`: puts fragments of packets to our addresses together (RFC 8200 section 4.5, RFC 5722, RFC 6980).
//!
//! | edge | packets |
//! |---|---|
//! | `ip6-local` | whole packets, in a slot of their own, without the fragment header |
//! | `icmp6-error` | a fragment whose length can't be |
//! | `drop` | see [`Drop`] |
//!
//! Each worker puts together what comes to it, as `ip4-reassembly` does.

use super::delivery::adopt;
use super::reassembly::{Outcome, Piece, Reassembly, Refused};
use crate::icmp::request_v6;
use core::fmt;
use graph::packet::{Packets, SlotId};
use graph::{Ctx, Frame, Node, NodeContext, NodeKind, NodeSpec};
use wire::ipv6::{FragmentHeader, Ipv6Header, UpperLayer, walk};
use wire::{Header, Icmpv6Error, Icmpv6Type, IpProtocol, U16};

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
        Overlap => "overlap", Error,
        /// The fragment lies beyond the packet's end, or its headers aren't whole.
        BadFragment => "bad-fragment", Error,
        /// The packet has more fragments than are put together.
        TooMany => "too-many-fragments", Warning,
        /// Others didn't come in time.
        TimedOut => "timed-out", Warning,
        /// Others had to make room for newer ones, or were of no use without those that were refused.
        Evicted => "evicted", Warning,
        /// Neighbour discovery doesn't come in fragments (RFC 6980).
        NeighborDiscovery => "neighbor-discovery", Error,
        /// The fragment's length or offset can't be; the sender is told.
        BadLength => "bad-length", Error,
        /// All packet slots of the worker are in use.
        NoSlot => "no-slot", Warning,
    }
}

graph::counters! {
    /// What is counted.
    pub enum Counter {
        /// Fragments that came.
        Fragments => "fragments",
        /// Packets put together.
        Reassembled => "reassembled",
    }
}

/// The node's declaration.
pub const NODE: NodeSpec = NodeSpec {
    name: "ip6-reassembly",
    help: "Puts fragments of IPv6 packets to us together.",
    kind: NodeKind::Output,
    edges: Next::NAMES,
    drops: Drop::SPECS,
    counters: Counter::SPECS,
    make: |_: &NodeContext<'_>| {
        Box::new(Ip6Reassembly { datagrams: Reassembly::new(TIMEOUT), bytes: Vec::new() })
    },
    ..NodeSpec::EMPTY
};

/// How long fragments wait for others, in nanoseconds (RFC 8200 section 4.5: 60 s).
const TIMEOUT: u64 = 60_000_000_000;

/// VRF and, as a link-local address says nothing without it, interface; source, destination, identification.
type Key = (u16, u16, [u8; 16], [u8; 16], u32);

struct Ip6Reassembly {
    datagrams: Reassembly<Key>,
    /// The fragment at hand, its bytes in a row.
    bytes: Vec<u8>,
}

/// What becomes of a fragment.
enum Verdict {
    Waits,
    Whole(SlotId),
    Tell(Icmpv6Error),
}

impl Node for Ip6Reassembly {
    fn process(&mut self, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>) {
        ctx.count(Counter::Fragments, frame.len() as u64);
        for slot in frame.slots {
            let (edge, slot) = match self.fragment(ctx, *slot) {
                Ok(Verdict::Waits) => continue,
                Ok(Verdict::Whole(whole)) => {
                    ctx.count(Counter::Reassembled, 1);
                    (Next::Local.edge(), whole)
                }
                Ok(Verdict::Tell(error)) => {
                    request_v6(ctx.packets.meta_mut(*slot), error);
                    (ctx.refuse(*slot, Drop::BadLength, Next::IcmpError.edge()), *slot)
                }
                Err(reason) => (ctx.drop(*slot, reason), *slot),
            };
            ctx.emit(edge, slot);
        }
        let lost =
            [(&mut self.datagrams.timed_out, Drop::TimedOut), (&mut self.datagrams.evicted, Drop::Evicted)];
        for (count, reason) in lost {
            (0..core::mem::take(count)).for_each(|_| ctx.count_drop(reason));
        }
    }

    fn trace(&self, packets: &Packets, slot: SlotId, out: &mut dyn fmt::Write) -> fmt::Result {
        match walk(packets.head(slot)).ok().and_then(|upper| upper.fragment) {
            Some(fragment) => write!(out, "id {:#010x} from byte {}", fragment.id.get(), fragment.offset()),
            None => Ok(()),
        }
    }
}

/// Where the payload length stands in the IPv6 header.
const PAYLOAD_LEN_AT: u32 = 4;
/// Where the offset stands in the fragment header.
const OFFSET_AT: usize = 2;

impl Ip6Reassembly {
    /// Takes a fragment, and gives the whole packet where nothing is missing any more.
    fn fragment(&mut self, ctx: &mut Ctx<'_>, slot: SlotId) -> Result<Verdict, Drop> {
        let meta = *ctx.packets.meta(slot);
        let header = *ctx.packets.header::<Ipv6Header>(slot, meta.data).ok_or(Drop::BadFragment)?;
        let upper = walk(ctx.packets.head(slot)).map_err(|_| Drop::BadFragment)?;
        let fragment = upper.fragment.ok_or(Drop::BadFragment)?;
        self.bytes.resize(meta.len() as usize, 0);
        ctx.packets.copy_out(slot, &mut self.bytes);
        let before = place(&self.bytes, &upper).ok_or(Drop::BadFragment)?;
        let (headers, rest) = self.bytes.split_at_checked(before).ok_or(Drop::BadFragment)?;
        let payload = rest.get(FragmentHeader::LEN..).ok_or(Drop::BadFragment)?;
        let (offset, more) = (fragment.offset(), fragment.more());
        if more && !payload.len().is_multiple_of(8) {
            return Ok(Verdict::Tell(Icmpv6Error::WrongField { pointer: PAYLOAD_LEN_AT }));
        }
        if headers.len() - Ipv6Header::LEN + offset + payload.len() > usize::from(u16::MAX) {
            return Ok(Verdict::Tell(Icmpv6Error::WrongField { pointer: (before + OFFSET_AT) as u32 }));
        }
        let key = (meta.table, meta.rx_if, header.src, header.dst, fragment.id.get());
        let piece = Piece { offset, more, payload, headers };
        match self.datagrams.add(key, meta.rx_if, ctx.now, piece) {
            Ok(Outcome::Waits) => Ok(Verdict::Waits),
            Ok(Outcome::Whole(headers, payload)) => {
                let whole = whole(headers, &payload, fragment.next_header).ok_or(Drop::BadFragment)?;
                let found = walk(&whole).map_err(|_| Drop::BadFragment)?;
                let kind = whole.get(found.offset).copied().map(Icmpv6Type);
                let discovery = kind.is_some_and(Icmpv6Type::is_neighbor_discovery);
                if found.protocol == IpProtocol::ICMPV6 && discovery {
                    return Err(Drop::NeighborDiscovery);
                }
                let l4 = u16::try_from(found.offset).map_err(|_| Drop::BadFragment)?;
                adopt(ctx.packets, slot, whole, l4).ok_or(Drop::NoSlot).map(Verdict::Whole)
            }
            Err(refused) => Err(reason(refused)),
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

/// The packet of the headers before a first fragment's fragment header, and the whole payload, which begins with
/// `protocol`.
fn whole(mut bytes: Vec<u8>, payload: &[u8], protocol: IpProtocol) -> Option<Vec<u8>> {
    let before = bytes.len();
    let len = u16::try_from(before - Ipv6Header::LEN + payload.len()).ok()?;
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

fn reason(refused: Refused) -> Drop {
    match refused {
        Refused::Duplicate => Drop::Duplicate,
        Refused::Overlap => Drop::Overlap,
        Refused::BadEnd => Drop::BadFragment,
        Refused::TooMany => Drop::TooMany,
    }
}
