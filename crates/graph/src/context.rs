//! What a node sees while it works.

use crate::IfIndex;
use crate::counters::WorkerCounters;
use crate::engine::Pending;
use crate::handover::{Full, Station};
use crate::locals::Locals;
use crate::port::{Quota, TxPorts};
use crate::publish::{Key, Tables};
use crate::worker::{Event, EventSender};
use memory::packet::{NoSlot, OwnedPacket, Packets, SlotId};
use memory::simd::Tier;

/// The packets a node works on, and the edges it decides for them; both have the same length, at most 256.
#[derive(Debug)]
pub struct Frame<'a> {
    /// The packets' slots.
    pub slots: &'a [SlotId],
    /// The next edge of each.
    pub next: &'a mut [u8],
}

impl Frame<'_> {
    /// Packets.
    #[must_use]
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there are none: so for input nodes.
    #[must_use]
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Sends all packets along the same edge.
    #[inline]
    pub fn all(&mut self, edge: u8) {
        self.next.fill(edge);
    }

    /// Decides packet by packet.
    #[inline(always)]
    pub fn each(&mut self, mut decide: impl FnMut(SlotId) -> u8) {
        for (slot, next) in self.slots.iter().zip(self.next.iter_mut()) {
            *next = decide(*slot);
        }
    }
}

/// An edge that leads nowhere: the node has dealt with the packet itself. It has become other packets, which were
/// emitted, or is kept elsewhere. No drop, and not counted as one.
pub const GONE: u8 = u8::MAX;

/// The worker as a node sees it.
pub struct Ctx<'a> {
    /// The packets of the round.
    pub packets: &'a mut Packets,
    /// The published tables, as of the beginning of the round.
    pub tables: &'a Tables,
    /// What this worker's nodes share.
    pub locals: &'a mut Locals,
    /// Transmit queues by interface.
    pub ports: &'a mut TxPorts,
    /// The worker's counters.
    pub counters: &'a WorkerCounters,
    /// Instruction-set tier.
    pub tier: Tier,
    /// Monotonic time at the beginning of the round, in nanoseconds.
    pub now: u64,
    /// Number of the worker.
    pub worker: usize,
    /// What can still be received in this round (for input nodes).
    pub budget: Quota,
    /// A trace is on: what can be done at once is to be done node by node, so that each node is seen.
    pub traced: bool,
    pub(crate) drop_capture: Option<&'a dyn DropCapture>,
    pub(crate) events: &'a EventSender,
    pub(crate) station: &'a mut Station,
    pub(crate) pending: &'a mut Pending,
    pub(crate) edges: &'a [u16; 256],
    pub(crate) first_drop: u16,
    pub(crate) first_counter: u16,
}

/// Sees the packets that are dropped, while a capture of drops is on.
pub trait DropCapture: Send {
    /// `slot`'s packet is dropped for the reason in its metadata at `now` (monotonic nanoseconds).
    fn dropped(&self, packets: &Packets, slot: SlotId, now: u64);

    /// The round is over: what was seen in it can be handed on.
    fn end_round(&self) {}
}

impl core::fmt::Debug for Ctx<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Ctx").field("worker", &self.worker).field("now", &self.now).finish_non_exhaustive()
    }
}

impl Ctx<'_> {
    /// A part of the tables.
    #[must_use]
    #[inline(always)]
    pub fn table<T: Send + Sync + 'static>(&self, key: Key<T>) -> &T {
        self.tables.get(key)
    }

    /// Marks the packet as dropped for `reason` and returns the edge to `drop`, which is edge 0 of every node.
    #[inline]
    pub fn drop(&mut self, slot: SlotId, reason: impl Into<u8>) -> u8 {
        self.packets.meta_mut(slot).drop_reason = self.drop_id(reason);
        0
    }

    /// Graph-wide id of a drop reason of this node.
    #[must_use]
    #[inline(always)]
    pub fn drop_id(&self, reason: impl Into<u8>) -> u16 {
        self.first_drop + u16::from(reason.into())
    }

    /// Marks the packet as dropped for `reason` and returns `edge`, which leads to a node that tells its sender. That node
    /// [ends](Ctx::end) it: the reason is counted there, whether the sender is told or not.
    #[inline]
    pub fn refuse(&mut self, slot: SlotId, reason: impl Into<u8>, edge: u8) -> u8 {
        self.drop(slot, reason);
        edge
    }

    /// Ends a packet that is marked as dropped: counts it and shows it to a capture. The node `drop` does this; one that
    /// makes another packet in the slot does it before.
    #[inline]
    pub fn end(&self, slot: SlotId) {
        let meta = self.packets.meta(slot);
        self.counters.dropped(meta.rx_if, meta.drop_reason);
        if let Some(capture) = self.drop_capture {
            capture.dropped(self.packets, slot, self.now);
        }
    }

    /// Counts a drop of something that never became a packet.
    #[inline]
    pub fn count_drop(&self, reason: impl Into<u8>) {
        self.counters.drops(self.drop_id(reason)).add(1);
    }

    /// Counts drops of packets that came in by `interface` and whose slots are gone: they were kept elsewhere since.
    #[cold]
    pub fn count_lost(&self, interface: u16, reason: impl Into<u8>, packets: usize) {
        let reason = self.drop_id(reason);
        (0..packets).for_each(|_| self.counters.dropped(interface, reason));
    }

    /// Counts drops of packets that never came into a slot.
    #[cold]
    pub fn count_drops(&self, reason: impl Into<u8>, packets: u64) {
        self.counters.drops(self.drop_id(reason)).add(packets);
    }

    /// Adds to a counter that this node has declared.
    #[inline]
    pub fn count(&self, counter: impl Into<u8>, by: u64) {
        self.counters.node(self.first_counter + u16::from(counter.into())).add(by);
    }

    /// Sends a packet along `edge` besides those of the frame: one made here, or one of an input node.
    #[inline]
    pub fn emit(&mut self, edge: u8, slot: SlotId) {
        self.pending.push(self.edges[edge as usize], slot);
    }

    /// [`Ctx::emit`] for packets in consecutive slots.
    #[inline]
    pub fn emit_range(&mut self, edge: u8, slots: core::ops::Range<usize>) {
        self.pending.extend(self.edges[edge as usize], slots.map(|slot| slot as SlotId));
    }

    /// Another packet with the same bytes; see [`Packets::duplicate`].
    ///
    /// # Errors
    /// [`NoSlot`] when all are taken.
    pub fn duplicate(&mut self, slot: SlotId) -> Result<SlotId, NoSlot> {
        self.packets.duplicate(slot)
    }

    /// Hands a copy of the packet to the control thread, at the expense of interface `origin`. False where the queue is full, or
    /// the origin's share of it: drop the packet with a reason that says so.
    #[must_use]
    pub fn punt(&mut self, kind: &'static str, slot: SlotId, origin: IfIndex) -> bool {
        let packet: OwnedPacket = self.packets.own(slot);
        self.events.send(Event::Punt { worker: self.worker, kind, origin, packet })
    }

    /// Workers of this graph, this one among them.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.station.workers()
    }

    /// Hands a copy of the packet to another worker, to the node that has attached itself to `handover` under `target`. What
    /// is in the slot is the caller's still: most let it [go](GONE).
    ///
    /// # Errors
    /// [`Full`] where that worker doesn't keep up, or isn't another one: drop the packet with a reason that says so.
    pub fn hand_over(&mut self, slot: SlotId, worker: usize, target: u32) -> Result<(), Full> {
        self.station.load(self.packets, worker, target, slot)
    }

    /// Tells the control thread something. False where its queue is full.
    #[must_use]
    pub fn tell(&self, event: Event) -> bool {
        self.events.send(event)
    }
}
