//! Sending.

use std::sync::Arc;

use memory::packet::Alike;
use memory::region::{CheckedRange, RegionTable, prefetch_write};
use memory::simd::Simd;

use super::counters::Tally;
use super::doorbell::{Outgoing, TxSignal};
use super::fault::Owner;
use super::gather::{Fit, Gather};
use super::gauge::Flow;
use super::packets::LINE;
use super::pool::PoolSlots;
use super::quad::{QUAD, Quad, Usual};
use super::slots::{Addressing, OwnSlots, PeerSlots};
use crate::control::DEFAULT_MAX_PACKET;

use super::{
    Cursor, Descriptor, Endpoint, Event, Fault, Lines, QueueCounters, QueueError, QueueName, RingGauge,
    RingSize, RingView, Slots, signals_by_kernel,
};

/// How many slots ahead a buffer's first line is prefetched, to be written ...
const PREFETCH: u16 = 12;
/// ... and, before they are needed for that, the descriptors.
const PREFETCH_DESCRIPTOR: u16 = 32;

/// Gives the packets of [`TxQueue::transmit`]. Its methods are inlined into the loop.
///
/// `packet` counts from 0; each is asked for in order, first its length, then its bytes.
pub trait TxSource {
    /// Bytes of the packet.
    fn length(&mut self, packet: usize) -> u32;

    /// Writes the packet into one buffer; `into` is exactly as long as the packet.
    fn write(&mut self, packet: usize, into: CheckedRange<'_>);

    /// Writes the packet into several buffers, exactly as long together as the packet.
    fn write_chain(&mut self, packet: usize, into: &[CheckedRange<'_>]);

    /// All packets, from number 0 on, if a line is all that is to be written of each: those of these that find room are sent as they
    /// are, where the buffers are ours (a client's), and neither their lengths nor their bytes are asked for one by one. Fewer than are to be sent
    /// are as good as none.
    #[inline(always)]
    fn lines(&self) -> Option<Lines<'_>> {
        None
    }

    /// The packet can't be sent however long one waits: it is empty, longer than all the ring's buffers
    /// together, or than a peer takes. Gives whether to leave it out and go on with the next.
    fn refused(&mut self, packet: usize) -> bool {
        let _ = packet;
        true
    }
}

/// What [`TxQueue::transmit`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Transmitted {
    /// Packets sent.
    pub sent: usize,
    /// Packets that can't be sent (see [`TxSource::refused`]). `sent + refused` is how far it came: the
    /// packet of this number, if there is one, found no room.
    pub refused: usize,
}

impl Transmitted {
    /// Packets that are dealt with: the number of the first that is not.
    #[must_use]
    pub const fn done(self) -> usize {
        self.sent + self.refused
    }
}

/// One queue to send to.
//
// In cache lines of its own, which are fetched in pairs: what lies beside it in memory may be a queue that another thread has.
#[derive(Debug)]
#[repr(align(128))]
pub struct TxQueue {
    pub(super) ring: RingView,
    pub(super) cursor: Cursor,
    endpoint: Endpoint,
    slots: Slots,
    /// Client in a trust group: its buffers.
    pub(super) pool: Option<Arc<PoolSlots>>,
    /// Buffers of the chain being put together. Ranges of `ring.table()`, only valid during `transmit`.
    parts: Vec<CheckedRange<'static>>,
    /// Their descriptors, as they will be published.
    descriptors: Vec<Descriptor>,
    /// Small buffers that were looked at for packets of several in this call.
    looked_at: u16,
    /// Bytes of the longest packet that can be sent.
    longest: u32,
    signal: TxSignal,
    pub(super) tally: Tally,
    owner: Owner,
}

/// What a walk sent.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Walked {
    pub(super) done: Transmitted,
    pub(super) bytes: u64,
    /// The source didn't want to go on after a packet that can't be sent.
    pub(super) stopped: bool,
}

impl TxQueue {
    pub(crate) fn new(ring: RingView, endpoint: Endpoint, slots: Slots, event: Event) -> Self {
        let cursor = Cursor::new(ring.size());
        let (parts, descriptors, looked_at) = Default::default();
        let (tally, pool, longest) = (Tally::default(), None, DEFAULT_MAX_PACKET);
        let (owner, signal) = (Owner::new(Arc::default(), QueueName::Tx(0)), TxSignal::Direct(event));
        let queue = Self {
            ring,
            cursor,
            endpoint,
            slots,
            pool,
            parts,
            descriptors,
            looked_at,
            longest,
            signal,
            tally,
            owner,
        };
        queue.lay_out();
        // What it takes to signal is had before the first packet wants it. Miri has no asynchronous I/O.
        let _ = cfg!(miri) || signals_by_kernel().is_ok();
        queue
    }

    /// Bytes of the longest packet that it sends; fewer where the buffers of the whole ring have fewer.
    #[must_use]
    pub const fn longest(&self) -> u32 {
        self.longest
    }

    /// Never sends longer ones than so many bytes, or than any peer takes by default if that is more, nor what is longer than all buffers of the
    /// ring, where they are ours: the peer would end the link, or the packet wait for ever.
    pub(crate) fn with_longest(self, longest: u32) -> Self {
        let longest = longest.max(DEFAULT_MAX_PACKET);
        let ring = |capacity: u32| capacity.saturating_mul(self.ring.size().descriptors().into());
        Self {
            longest: self.slots.capacity().map_or(longest, |capacity| longest.min(ring(capacity))),
            ..self
        }
    }

    /// As queue `number` of an interface: its errors say so.
    pub(crate) fn belongs_to(&mut self, interface: &Arc<str>, number: u16) {
        self.owner = Owner::new(Arc::clone(interface), QueueName::Tx(number));
    }

    /// With these buffers.
    pub(crate) fn with_pool(self, pool: PoolSlots) -> Self {
        let queue =
            Self { slots: Slots::Pool { capacity: pool.capacity() }, pool: Some(Arc::new(pool)), ..self };
        queue.lay_out();
        queue
    }

    /// Free slots of the ring: packets of at most one buffer that could be sent now.
    ///
    /// # Errors
    /// [`QueueError`] with [`Fault::Index`] if the peer's index is impossible, or [`Fault::MemoryLost`].
    #[inline]
    pub fn room(&self) -> Result<u16, QueueError> {
        let room = self.endpoint.available(self.ring.indices(), &self.cursor);
        if self.ring.table().lost() {
            return Err(self.error(Fault::MemoryLost));
        }
        room.map_err(|fault| self.error(fault.into()))
    }

    /// Sends packets 0..`n` of the source, as far as there is room, and publishes them together. Does not
    /// signal: see [`notify`](Self::notify).
    ///
    /// # Errors
    /// [`QueueError`] if the peer broke the rules. Nothing is published then, and the connection must be closed.
    #[inline(always)]
    pub fn transmit<S: TxSource>(&mut self, n: usize, source: &mut S) -> Result<Transmitted, QueueError> {
        let filled = self.fill(n, source);
        let Walked { done, bytes, stopped } = filled.map_err(|fault| self.error(fault))?;
        let left = if stopped { 0 } else { n - done.done() };
        self.tally.add(done.sent as u64, bytes, left as u64);
        if done.refused > 0 {
            self.tally.refuse(done.refused as u64);
        }
        Ok(done)
    }

    /// [`transmit`](Self::transmit), not counted.
    #[inline(always)]
    pub(super) fn fill<S: TxSource>(&mut self, n: usize, source: &mut S) -> Result<Walked, Fault> {
        let room = self.checked_room()?;
        let sent = match OwnSlots::of(self.slots) {
            None if self.pool.is_some() => self.walk_pool(room, n, source),
            None => self.walk(PeerSlots, room, n, source),
            Some(own) => {
                match source.lines().and_then(|packets| self.fill_lines(own, room, packets.first(n)?)) {
                    Some(sent) => Ok(sent),
                    None => self.walk(own, room, n, source),
                }
            }
        }?;
        self.publish();
        Ok(sent)
    }

    /// [`room`](Self::room), unless the memory is gone: a call begins.
    #[inline]
    pub(super) fn checked_room(&mut self) -> Result<u16, Fault> {
        self.looked_at = 0;
        let room = self.endpoint.available(self.ring.indices(), &self.cursor);
        // Zeros in place of lost pages make impossible indices, too: the better reason comes first.
        if self.ring.table().lost() { Err(Fault::MemoryLost) } else { Ok(room?) }
    }

    /// Whose fault it is.
    pub(super) fn error(&self, fault: Fault) -> QueueError {
        self.owner.error(&self.ring, fault)
    }

    /// Publishes what was written.
    #[inline(always)]
    pub(super) fn publish(&mut self) {
        if self.cursor.held() > 0 {
            let released = self.cursor.release();
            self.endpoint.publish(self.ring.indices(), released);
        }
    }

    /// Index of the next slot that is written to.
    #[inline(always)]
    pub(super) const fn next(&self) -> u16 {
        self.cursor.next()
    }

    /// Whose word counts for where buffers lie.
    #[inline(always)]
    pub(super) const fn slots(&self) -> Slots {
        self.slots
    }

    /// Writes packets that are alike into whole lines of descriptors, as long as there is nothing special about these; gives
    /// how many. They aren't published yet.
    #[inline(always)]
    pub(super) fn quads<S: Simd>(&mut self, simd: S, room: u16, packets: &Alike<'_>) -> u16 {
        match packets.len() as usize > LINE {
            true => self.quads_of::<S, true>(simd, room, packets),
            false => self.quads_of::<S, false>(simd, room, packets),
        }
    }

    /// `TWO`: the packets are longer than a cache line.
    #[inline(always)]
    fn quads_of<S: Simd, const TWO: bool>(&mut self, simd: S, room: u16, packets: &Alike<'_>) -> u16 {
        let (ring, table) = (self.ring.descriptors(), self.ring.table().extents());
        let mut index = self.cursor.next();
        let quads = packets.count().min(room.into()) / QUAD;
        let region = ring.get(index).region;
        let (span, reach) = (table.span(region), Alike::reach(packets.len()));
        let Some((span, last)) = span.and_then(|span| Some((span, span.last_offset(reach)?))) else {
            return 0;
        };
        let usual = Usual::buffers(region, reach, last);
        let filled = Descriptor { flags: 0, region, length: packets.len(), offset: 0 };
        // SAFETY: the offsets leave room for whole lines, which are no less than the packets' length, in a region that the
        // queue holds mapped.
        let written = unsafe {
            packets.write::<S, TWO>(
                simd,
                quads,
                #[inline(always)]
                || {
                    ring.prefetch_write(index.wrapping_add(PREFETCH_DESCRIPTOR));
                    for ahead in ring.offsets(index.wrapping_add(PREFETCH)) {
                        prefetch_write(span.address(ahead));
                        if TWO {
                            prefetch_write(span.address(ahead).wrapping_add(LINE));
                        }
                    }
                    let quad = Quad::read(simd, ring, index);
                    if !quad.is(simd, &usual) {
                        return None;
                    }
                    ring.set_lengths(simd, index, filled);
                    index = index.wrapping_add(QUAD as u16);
                    Some(quad.addresses(span))
                },
            )
        } as u16;
        self.cursor.take(written);
        written
    }

    /// Whether the next slot is the first of its line.
    #[inline(always)]
    pub(super) fn begins_line(&self) -> bool {
        self.ring.descriptors().begins_line(self.cursor.next())
    }

    #[inline(always)]
    pub(super) fn walk<A: Addressing, S: TxSource>(
        &mut self,
        slots: A,
        room: u16,
        n: usize,
        source: &mut S,
    ) -> Result<Walked, Fault> {
        let (ring, table) = (self.ring.descriptors(), self.ring.table().extents());
        let start = self.cursor.next();
        let mut used = 0;
        let Walked { mut done, mut bytes, mut stopped } = Walked::default();
        while used < room && done.done() < n {
            let packet = done.done();
            let index = start.wrapping_add(used);
            if A::PEERS && ring.begins_line(index) {
                ring.prefetch_write(index.wrapping_add(PREFETCH_DESCRIPTOR));
            }
            // A hint, from whatever stands there: used for nothing else.
            let ahead = slots.buffer(ring, index.wrapping_add(PREFETCH));
            table.prefetch_write(ahead.region, ahead.offset);

            let d = slots.buffer(ring, index);
            let length = source.length(packet);
            // One comparison for both an empty packet and one that doesn't fit into the buffer.
            if length.wrapping_sub(1) < d.length.min(self.longest) {
                let d = Descriptor { flags: 0, length, ..d };
                source.write(packet, d.check(table)?);
                slots.fill(ring, index, d);
                used += 1;
                bytes += u64::from(length);
                done.sent += 1;
                continue;
            }
            if length > self.longest {
                if source.refused(packet) {
                    done.refused += 1;
                    continue;
                }
                stopped = true;
                break;
            }
            let chain = Gather {
                ring: &self.ring,
                parts: &mut self.parts,
                descriptors: &mut self.descriptors,
                looked_at: &mut self.looked_at,
            };
            match chain.collect(slots, d, index, room - used, length)? {
                Fit::Fits => {
                    source.write_chain(packet, &self.parts);
                    for d in &self.descriptors {
                        slots.fill(ring, start.wrapping_add(used), *d);
                        used += 1;
                    }
                    bytes += u64::from(length);
                    done.sent += 1;
                }
                Fit::NoRoom => break,
                Fit::Never if source.refused(packet) => done.refused += 1,
                Fit::Never => {
                    stopped = true;
                    break;
                }
            }
        }
        self.cursor.take(used);
        Ok(Walked { done, bytes, stopped })
    }

    /// Signals the peer if it wants to be. After [`transmit`](Self::transmit), once for as many as one likes.
    #[inline]
    pub fn notify(&self) {
        if self.endpoint.wanted(self.ring.indices()) {
            self.signal.give(&self.tally);
        }
    }

    /// What was sent so far.
    #[must_use]
    pub fn counters(&self) -> QueueCounters {
        self.tally.read()
    }

    /// The queue's ring, to look at while another thread has the queue.
    #[must_use]
    pub fn gauge(&self) -> RingGauge {
        RingGauge::new(&self.ring, self.endpoint, Flow::Out, self.slots, &self.tally)
    }

    /// What wakes the peer; `None` where the link's [doorbell](super::Signals) has it.
    #[must_use]
    pub const fn event(&self) -> Option<&Event> {
        match &self.signal {
            TxSignal::Direct(event) => Some(event),
            TxSignal::Doorbell(..) => None,
        }
    }

    /// Signals like that from now on; gives the peer's eventfd, if it had that, and what else a thread needs that signals.
    pub(super) fn signalled_by(&mut self, signal: TxSignal) -> Option<Outgoing> {
        match std::mem::replace(&mut self.signal, signal) {
            TxSignal::Direct(event) => Some(Outgoing::new(event, self.tally.clone())),
            TxSignal::Doorbell(..) => None,
        }
    }

    /// Size of the ring.
    #[must_use]
    pub const fn ring_size(&self) -> RingSize {
        self.ring.size()
    }

    /// Bytes of one of our buffers; `None` for a server, whose peer may post a different size in every
    /// descriptor.
    #[must_use]
    pub const fn buffer_size(&self) -> Option<u32> {
        self.slots.capacity()
    }

    /// The regions it writes to.
    #[must_use]
    pub const fn regions(&self) -> &Arc<RegionTable> {
        self.ring.table()
    }

    /// Client: writes where the buffers are, once, before the ring is announced.
    fn lay_out(&self) {
        if let Some(slots) = OwnSlots::of(self.slots) {
            let ring = self.ring.descriptors();
            for index in 0..ring.count() {
                ring.set(index, slots.buffer(ring, index));
            }
        } else if let Some(pool) = &self.pool {
            let ring = self.ring.descriptors();
            for index in 0..ring.count() {
                ring.set(index, pool.addressing().buffer(ring, index));
            }
        }
    }
}
