//! `ip4-reassembly`: puts fragments of packets to our addresses together (RFC 791 section 3.2, RFC 815).
//!
//! | edge | packets |
//! |---|---|
//! | `ip4-local` | whole packets, in a slot of their own |
//! | `drop` | see [`Drop`] |
//!
//! Each worker puts together what comes to it: all fragments of a packet come by the same queue where the port doesn't
//! tell flows apart by port numbers. A fragment that waits is copied, and ends here.

use super::delivery::adopt;
use super::reassembly::{Outcome, Piece, Reassembly, Refused};
use core::fmt;
use graph::packet::{Packets, SlotId};
use graph::{Ctx, Frame, Node, NodeContext, NodeKind, NodeSpec};
use wire::ipv4::{Ipv4Flags, Ipv4Header};
use wire::{Header, IpProtocol, U16};

graph::edges! {
    /// Where a packet goes from here.
    pub enum Next { Drop => "drop", Local => "ip4-local" }
}

graph::drops! {
    /// Why fragments don't become a packet.
    pub enum Drop {
        /// The fragment has come before.
        Duplicate => "duplicate", Info,
        /// Fragments overlap: somebody tries to hide something.
        Overlap => "overlap", Error,
        /// The fragment lies beyond the packet's end, or has a length that no fragment can have.
        BadFragment => "bad-fragment", Error,
        /// The packet has more fragments than are put together.
        TooMany => "too-many-fragments", Warning,
        /// Others didn't come in time.
        TimedOut => "timed-out", Warning,
        /// Others had to make room for newer ones, or were of no use without those that were refused.
        Evicted => "evicted", Warning,
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
    name: "ip4-reassembly",
    help: "Puts fragments of IPv4 packets to us together.",
    kind: NodeKind::Output,
    edges: Next::NAMES,
    drops: Drop::SPECS,
    counters: Counter::SPECS,
    make: |_: &NodeContext<'_>| {
        Box::new(Ip4Reassembly { datagrams: Reassembly::new(TIMEOUT), bytes: Vec::new() })
    },
    ..NodeSpec::EMPTY
};

/// How long fragments wait for others, in nanoseconds: 30 s, between RFC 791's 15 and RFC 1122's 60.
const TIMEOUT: u64 = 30_000_000_000;

/// VRF, source, destination, protocol, identification.
type Key = (u16, [u8; 4], [u8; 4], IpProtocol, u16);

struct Ip4Reassembly {
    datagrams: Reassembly<Key>,
    /// The fragment at hand, its bytes in a row.
    bytes: Vec<u8>,
}

impl Node for Ip4Reassembly {
    fn process(&mut self, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>) {
        ctx.count(Counter::Fragments, frame.len() as u64);
        for slot in frame.slots {
            match self.fragment(ctx, *slot) {
                Ok(None) => {}
                Ok(Some(whole)) => {
                    ctx.count(Counter::Reassembled, 1);
                    ctx.emit(Next::Local.edge(), whole);
                }
                Err(reason) => {
                    let edge = ctx.drop(*slot, reason);
                    ctx.emit(edge, *slot);
                }
            }
        }
        let lost =
            [(&mut self.datagrams.timed_out, Drop::TimedOut), (&mut self.datagrams.evicted, Drop::Evicted)];
        for (count, reason) in lost {
            (0..core::mem::take(count)).for_each(|_| ctx.count_drop(reason));
        }
    }

    fn trace(&self, packets: &Packets, slot: SlotId, out: &mut dyn fmt::Write) -> fmt::Result {
        match packets.header::<Ipv4Header>(slot, packets.meta(slot).l3) {
            Some(header) => write!(out, "id {} from byte {}", header.id, header.fragment_offset()),
            None => Ok(()),
        }
    }
}

impl Ip4Reassembly {
    /// Takes a fragment, and gives the whole packet where nothing is missing any more.
    fn fragment(&mut self, ctx: &mut Ctx<'_>, slot: SlotId) -> Result<Option<SlotId>, Drop> {
        let meta = *ctx.packets.meta(slot);
        let header = *ctx.packets.header::<Ipv4Header>(slot, meta.data).ok_or(Drop::BadFragment)?;
        self.bytes.resize(meta.len() as usize, 0);
        ctx.packets.copy_out(slot, &mut self.bytes);
        let (headers, payload) = self.bytes.split_at_checked(header.header_len()).ok_or(Drop::BadFragment)?;
        let (offset, more) = (header.fragment_offset(), header.flags().contains(Ipv4Flags::MORE_FRAGMENTS));
        let too_long = headers.len() + offset + payload.len() > usize::from(u16::MAX);
        if too_long || (more && !payload.len().is_multiple_of(8)) {
            return Err(Drop::BadFragment);
        }
        let key = (meta.table, header.src, header.dst, header.protocol, header.id.get());
        let piece = Piece { offset, more, payload, headers };
        match self.datagrams.add(key, meta.rx_if, ctx.now, piece) {
            Ok(Outcome::Waits) => Ok(None),
            Ok(Outcome::Whole(headers, payload)) => {
                let l4 = headers.len() as u16;
                let whole = whole(headers, &payload).ok_or(Drop::BadFragment)?;
                adopt(ctx.packets, slot, whole, l4).ok_or(Drop::NoSlot).map(Some)
            }
            Err(refused) => Err(reason(refused)),
        }
    }
}

/// The packet of a first fragment's header and the whole payload.
fn whole(mut bytes: Vec<u8>, payload: &[u8]) -> Option<Vec<u8>> {
    let len = bytes.len() + payload.len();
    let (header, options) = Ipv4Header::parse_mut(&mut bytes).ok()?;
    header.set_fragment(Ipv4Flags::empty(), 0);
    header.total_len = U16::new(u16::try_from(len).ok()?);
    header.checksum = U16::new(header.compute_checksum(options));
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
