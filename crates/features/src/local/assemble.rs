//! Putting fragments of packets to us together, the same for both IP versions. How fragments are read and what becomes of
//! them is a version's own: [`Assembles`].

use super::delivery::adopt;
use super::reassembly::{GivenUp, Outcome, Piece, Reassembly, Refused, Whole};
use crate::ip::family::{Family, Refusal};
use core::fmt;
use core::hash::{BuildHasher, Hash};
use graph::packet::{Meta, OwnedPacket, Packets, SlotId};
use graph::{Ctx, Frame, Node, NodeContext};
use std::hash::RandomState;
use std::sync::LazyLock;

graph::counters! {
    /// What is counted.
    pub(super) enum Counter {
        /// Fragments that came.
        Fragments => "fragments",
        /// Fragments that another worker was given, because it has the others.
        HandedOver => "handed-over",
        /// Packets put together.
        Reassembled => "reassembled",
    }
}

/// Why fragments don't become a packet, for either version to give its own name to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loss {
    /// The fragment has come before.
    Duplicate,
    /// Fragments overlap.
    Overlap,
    /// The fragment contradicts itself or others.
    BadFragment,
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

/// A fragment that isn't taken.
pub(super) enum Bad<F: Assembles> {
    /// For this reason.
    Drop(F::Drop),
    /// Its sender is told; the request is in its metadata.
    Tell(F::Drop),
}

/// How fragments of an IP version become packets.
pub(super) trait Assembles: Family + Sized {
    /// The node's drop reasons.
    type Drop: Copy + From<Loss> + Into<u8>;

    /// What tells packets apart whose fragments come at a time.
    type Key: Copy + Eq + Hash + Send;

    /// How long fragments wait for others, in nanoseconds.
    const TIMEOUT: u64;

    /// The node's edge to local delivery.
    const LOCAL: u8;

    /// Key under which the node takes fragments that other workers hand over.
    const HANDOVER: u32;

    /// The node's edge to ICMP errors.
    const ICMP_ERROR: u8;

    /// Reads a fragment, all of whose bytes are in a row; `meta` says where it came from. Of what it is told, the headers
    /// that stand before the payload are kept of the first fragment.
    fn read<'b>(bytes: &'b [u8], meta: &mut Meta) -> Result<(Self::Key, Piece<'b>), Bad<Self>>;

    /// The packet of a first fragment's headers and the whole payload, and where its transport header begins.
    fn whole(headers: Vec<u8>, payload: &[u8]) -> Result<(Vec<u8>, u16), Self::Drop>;

    /// Writes which fragment `head` begins with.
    fn describe(head: &[u8], out: &mut dyn fmt::Write) -> fmt::Result;
}

/// One worker's instance.
pub(super) struct Assemble<F: Assembles> {
    datagrams: Reassembly<F::Key>,
    /// The fragment at hand, its bytes in a row.
    bytes: Vec<u8>,
}

impl<F: Assembles> Assemble<F> {
    /// The node.
    pub(super) fn boxed(_: &NodeContext<'_>) -> Box<dyn Node> {
        Box::new(Self { datagrams: Reassembly::new(F::TIMEOUT), bytes: Vec::new() })
    }
}

impl<F: Assembles> Node for Assemble<F> {
    fn process(&mut self, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>) {
        for slot in frame.slots {
            let (edge, slot) = match self.fragment(ctx, *slot) {
                Ok(None) => continue,
                Ok(Some(whole)) => {
                    ctx.count(Counter::Reassembled, 1);
                    (F::LOCAL, whole)
                }
                Err(Bad::Drop(reason)) => (ctx.drop(*slot, reason), *slot),
                Err(Bad::Tell(reason)) => (ctx.refuse(*slot, reason, F::ICMP_ERROR), *slot),
            };
            ctx.emit(edge, slot);
        }
        for given_up in self.datagrams.take_given_up() {
            give_up::<F>(ctx, &given_up);
        }
    }

    fn trace(&self, packets: &Packets, slot: SlotId, out: &mut dyn fmt::Write) -> fmt::Result {
        F::describe(packets.head(slot), out)
    }
}

impl<F: Assembles> Assemble<F> {
    /// Takes a fragment, and gives the whole packet where nothing is missing any more.
    fn fragment(&mut self, ctx: &mut Ctx<'_>, slot: SlotId) -> Result<Option<SlotId>, Bad<F>> {
        self.bytes.resize(ctx.packets.meta(slot).len() as usize, 0);
        ctx.packets.copy_out(slot, &mut self.bytes);
        let (key, piece) = F::read(&self.bytes, ctx.packets.meta_mut(slot))?;
        let owner = owner_of_fragments(&key, ctx.workers());
        if owner != ctx.worker {
            let handed = ctx.hand_over(slot, owner, F::HANDOVER);
            ctx.count(Counter::HandedOver, u64::from(handed.is_ok()));
            return handed.map(|()| None).map_err(|_| Bad::Drop(Loss::HandoverFull.into()));
        }
        ctx.count(Counter::Fragments, 1);
        let rx_if = ctx.packets.meta(slot).rx_if;
        match self.datagrams.add(key, rx_if, ctx.now, piece) {
            Ok(Outcome::Waits) => Ok(None),
            Ok(Outcome::Whole(Whole { headers, payload, from, earlier })) => {
                let adopted = F::whole(headers, &payload).and_then(|(whole, l4)| {
                    adopt(ctx.packets, slot, whole, l4).ok_or_else(|| Loss::NoSlot.into())
                });
                adopted.map(Some).map_err(|reason| {
                    ctx.count_lost(from, reason, earlier);
                    Bad::Drop(reason)
                })
            }
            Err(refused) => Err(Bad::Drop(Loss::from(refused).into())),
        }
    }
}

/// The worker that puts a packet together: fragments come by whatever queue the sender chose for each.
pub(crate) fn owner_of_fragments(key: &impl Hash, workers: usize) -> usize {
    // The same for all workers, and unknown to senders.
    static SEED: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    if workers == 1 { 0 } else { SEED.hash_one(key) as usize % workers }
}

/// Counts the fragments of a datagram that is given up. Where they have waited too long, and the first is among them, its
/// sender is told (RFC 1122 section 3.3.2, RFC 8200 section 4.5).
fn give_up<F: Assembles>(ctx: &mut Ctx<'_>, given_up: &GivenUp) {
    let loss = if given_up.in_time { Loss::Evicted } else { Loss::TimedOut };
    let mut fragments = given_up.fragments;
    let first = given_up.first.as_ref().filter(|_| !given_up.in_time);
    if let Some(first) = first {
        let packet = OwnedPacket::new(given_up.from, first.clone());
        if let Ok(slot) = ctx.packets.adopt(&packet) {
            let meta = ctx.packets.meta_mut(slot);
            (meta.l2, meta.l3) = (meta.data, meta.data);
            F::request(meta, Refusal::NotReassembled);
            let edge = ctx.refuse(slot, F::Drop::from(loss), F::ICMP_ERROR);
            ctx.emit(edge, slot);
            fragments -= 1;
        }
    }
    ctx.count_lost(given_up.from, F::Drop::from(loss), fragments);
}
