//! A node that puts fragments together, the same for both IP versions and whatever the packets are needed for.

use super::store::{Bounds, GivenUp, Outcome, Reassembly, Refused, Whole};
use super::version::{Bad, Joins};
use crate::bridge::Origins;
use crate::ip::family::{Family, Refusal};
use core::fmt;
use core::hash::{BuildHasher, Hash};
use graph::packet::{Meta, OwnedPacket, Packets, SlotId};
use graph::{Ctx, Frame, Node, NodeContext};
use std::hash::RandomState;
use std::sync::LazyLock;

graph::counters! {
    /// What is counted.
    pub(crate) enum Counter {
        /// Fragments that came.
        Fragments => "fragments",
        /// Fragments that another worker was given, because it has the others.
        HandedOver => "handed-over",
        /// Packets put together.
        Reassembled => "reassembled",
    }
}

/// Why fragments don't become a packet, for each node to give its own name to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// The fragment has come before.
    Duplicate,
    /// Fragments overlap.
    Overlap,
    /// The fragment contradicts itself or others.
    BadFragment,
    /// It has a length or an offset that can't be (IPv6: its sender may be told).
    BadLength,
    /// They are of neighbour discovery, which doesn't come in fragments.
    NeighbourDiscovery,
    /// The packet has more fragments than are put together.
    TooMany,
    /// Others didn't come in time.
    TimedOut,
    /// Others had to make room for newer ones.
    Evicted,
    /// All packet slots of the worker are in use.
    NoSlot,
    /// The worker that has the others doesn't keep up.
    HandoverFull,
}

impl From<Refused> for Loss {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Duplicate => Self::Duplicate,
            Refused::Overlap => Self::Overlap,
            Refused::BadEnd => Self::BadFragment,
            Refused::TooMany => Self::TooMany,
        }
    }
}

/// What is a node's own.
pub(crate) trait Assembles: Send + 'static {
    /// The IP version.
    type Version: Joins;

    /// The node's drop reasons.
    type Drop: Copy + From<Loss> + Into<u8>;

    /// How much it has at a time.
    const BOUNDS: Bounds;

    /// The edge of whole packets.
    const ONWARD: u8;

    /// Key under which the node takes fragments that other workers hand over; `None`: all of a packet come to one worker.
    const HANDOVER: Option<u32>;

    /// The edge to ICMP errors; `None`: nobody is told.
    const ICMP_ERROR: Option<u8>;

    /// Whole IPv6 packets keep their fragment header, which then says that they are whole (RFC 6946).
    const ATOMIC: bool;

    /// Where a packet's addresses and number mean that packet alone.
    fn place(meta: &Meta) -> (u16, u16);
}

/// What tells packets apart whose fragments come at a time: where they mean something, and what the version has.
type KeyOf<A> = ((u16, u16), <<A as Assembles>::Version as Joins>::Id);

/// One worker's instance.
pub(crate) struct Assemble<A: Assembles> {
    origins: Origins,
    datagrams: Reassembly<KeyOf<A>>,
    /// The fragment at hand, its bytes in a row.
    bytes: Vec<u8>,
}

impl<A: Assembles> Assemble<A> {
    /// The node.
    pub(crate) fn boxed(cx: &NodeContext<'_>) -> Box<dyn Node> {
        let (origins, datagrams) = (Origins::new(cx), Reassembly::new(A::BOUNDS));
        Box::new(Self { origins, datagrams, bytes: Vec::new() })
    }
}

impl<A: Assembles> Node for Assemble<A> {
    fn process(&mut self, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>) {
        for slot in frame.slots {
            let (edge, slot) = match self.fragment(ctx, *slot) {
                Ok(None) => continue,
                Ok(Some(whole)) => {
                    ctx.count(Counter::Reassembled, 1);
                    (A::ONWARD, whole)
                }
                Err(bad) => {
                    let reason = A::Drop::from(bad.loss);
                    let edge = match A::ICMP_ERROR.filter(|_| bad.is_told) {
                        Some(edge) => ctx.refuse(*slot, reason, edge),
                        None => ctx.drop(*slot, reason),
                    };
                    (edge, *slot)
                }
            };
            ctx.emit(edge, slot);
        }
        for given_up in self.datagrams.take_given_up() {
            give_up::<A>(ctx, &given_up);
        }
    }

    fn trace(&self, packets: &Packets, slot: SlotId, out: &mut dyn fmt::Write) -> fmt::Result {
        A::Version::describe(packets.head(slot), out)
    }
}

impl<A: Assembles> Assemble<A> {
    /// Takes a fragment, and gives the whole packet where nothing is missing any more.
    fn fragment(&mut self, ctx: &mut Ctx<'_>, slot: SlotId) -> Result<Option<SlotId>, Bad> {
        self.bytes.resize(ctx.packets.meta(slot).len() as usize, 0);
        ctx.packets.copy_out(slot, &mut self.bytes);
        let origin = self.origins.of(ctx, slot);
        let meta = ctx.packets.meta_mut(slot);
        let (id, piece) = A::Version::read(&self.bytes, meta)?;
        let (key, rx_if) = ((A::place(meta), id), meta.rx_if);
        if let Some(handover) = A::HANDOVER {
            let owner = owner_of_fragments(&key, ctx.workers());
            if owner != ctx.worker {
                let handed = ctx.hand_over(slot, owner, handover);
                ctx.count(Counter::HandedOver, u64::from(handed.is_ok()));
                return handed.map(|()| None).map_err(|_| Loss::HandoverFull.into());
            }
        }
        ctx.count(Counter::Fragments, 1);
        match self.datagrams.add(key, (rx_if, origin), ctx.now, piece) {
            Ok(Outcome::Waits) => Ok(None),
            Ok(Outcome::Whole(Whole { headers, payload, from, earlier, decapsulated })) => {
                let whole = A::Version::whole(headers, &payload, A::ATOMIC);
                let adopted =
                    whole.and_then(|(whole, l4)| adopt(ctx.packets, slot, whole, l4).ok_or(Loss::NoSlot));
                let counted =
                    adopted.inspect(|whole| ctx.packets.meta_mut(*whole).decapsulated = decapsulated);
                counted.map(Some).map_err(|loss| {
                    ctx.count_lost(from, A::Drop::from(loss), earlier);
                    loss.into()
                })
            }
            Err(refused) => Err(Loss::from(refused).into()),
        }
    }
}

/// A packet of these bytes, from the IP header on, that came in as `like` did and goes where that would have gone; its transport header is `l4` bytes from
/// its start. `None` where no slot is free.
fn adopt(packets: &mut Packets, like: SlotId, bytes: Vec<u8>, l4: u16) -> Option<SlotId> {
    let like = *packets.meta(like);
    let slot = packets.adopt(&OwnedPacket::new(like.rx_if, bytes)).ok()?;
    let meta = packets.meta_mut(slot);
    (meta.l2, meta.l3, meta.l4) = (meta.data, meta.data, meta.data + l4);
    (meta.table, meta.flags, meta.trace) = (like.table, like.flags, like.trace);
    (meta.tx_if, meta.next_hop) = (like.tx_if, like.next_hop);
    Some(slot)
}

/// The worker that puts a packet together: fragments come by whatever queue the sender chose for each.
pub(crate) fn owner_of_fragments(key: &impl Hash, workers: usize) -> usize {
    // The same for all workers, and unknown to senders.
    static SEED: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    if workers == 1 { 0 } else { SEED.hash_one(key) as usize % workers }
}

/// Counts the fragments of a datagram that is given up. Where they have waited too long, and the first is among them, its
/// sender is told (RFC 1122 section 3.3.2, RFC 8200 section 4.5).
fn give_up<A: Assembles>(ctx: &mut Ctx<'_>, given_up: &GivenUp) {
    let loss = if given_up.in_time { Loss::Evicted } else { Loss::TimedOut };
    let mut fragments = given_up.fragments;
    let first = given_up.first.as_ref().filter(|_| !given_up.in_time);
    if let (Some(first), Some(edge)) = (first, A::ICMP_ERROR) {
        let packet = OwnedPacket::new(given_up.from, first.clone());
        if let Ok(slot) = ctx.packets.adopt(&packet) {
            let meta = ctx.packets.meta_mut(slot);
            (meta.l2, meta.l3) = (meta.data, meta.data);
            A::Version::request(meta, Refusal::NotReassembled);
            let edge = ctx.refuse(slot, A::Drop::from(loss), edge);
            ctx.emit(edge, slot);
            fragments -= 1;
        }
    }
    ctx.count_lost(given_up.from, A::Drop::from(loss), fragments);
}
