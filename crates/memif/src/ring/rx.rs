//! Receiving.

use std::sync::Arc;

use memory::packet::Burst;
use memory::region::{CheckedRange, RegionTable, prefetch_read};
use memory::simd::Simd;

use super::chain::{Chain, Limits};
use super::counters::Tally;
use super::doorbell::{Incoming, RxSignal};
use super::fault::Owner;
use super::gauge::Flow;
use super::packets::LINE;
use super::pool::PoolSlots;
use super::quad::{QUAD, Quad, Usual};
use super::slots::{Addressing, OwnSlots, PeerSlots};
use super::{
    Cursor, Descriptor, Endpoint, Event, Fault, QueueCounters, QueueError, QueueName, RingGauge, RingSize,
    RingView, Slots,
};

/// How many slots ahead the first bytes of a packet are prefetched ...
const PREFETCH: u16 = 8;
/// ... and, before they are needed for that, the descriptors.
const PREFETCH_DESCRIPTOR: u16 = 32;

/// Takes the packets of [`RxQueue::receive`]. Its methods are inlined into the loop.
///
/// The ranges stay readable until [`RxQueue::release`]; the peer may change their bytes at any time.
///
/// A sink may use a range, but not keep it: its slot is the peer's again after the release.
///
/// ```
/// use memif::{RxSink, region::CheckedRange};
///
/// struct Heads(Vec<[u8; 14]>);
///
/// impl RxSink for Heads {
///     fn packet(&mut self, bytes: CheckedRange<'_>) {
///         let mut head = [0; 14];
///         bytes.read(&mut head);
///         self.0.push(head);
///     }
///     fn chain(&mut self, parts: &[CheckedRange<'_>], _: u32) {
///         self.packet(parts[0]);
///     }
/// }
/// ```
///
/// The same with the ranges themselves is refused by the compiler:
///
/// ```compile_fail
/// use memif::{RxSink, region::CheckedRange};
///
/// struct Ranges<'a>(Vec<CheckedRange<'a>>);
///
/// impl<'a> RxSink for Ranges<'a> {
///     fn packet(&mut self, bytes: CheckedRange<'_>) {
///         self.0.push(bytes);
///     }
///     fn chain(&mut self, parts: &[CheckedRange<'_>], _: u32) {
///         self.packet(parts[0]);
///     }
/// }
/// ```
pub trait RxSink {
    /// Cache lines at the beginning of each packet that `packet` will read.
    const PREFETCH_LINES: u32 = 1;

    /// Bytes after which it takes no further packet in this call. The last one may go beyond.
    fn max_bytes(&self) -> u64 {
        u64::MAX
    }

    /// A packet in one piece, of at least one byte.
    fn packet(&mut self, bytes: CheckedRange<'_>);

    /// A packet in several pieces (none of them empty), of `length` bytes together.
    fn chain(&mut self, parts: &[CheckedRange<'_>], length: u32);
}

/// Whether a consumer may sleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Armed {
    /// Nothing to receive: wait for the queue's event.
    Sleep,
    /// Packets are there: receive them first.
    AlreadyReady,
}

/// One queue to receive from.
//
// In cache lines of its own, which are fetched in pairs: what lies beside it in memory may be a queue that another thread has.
#[derive(Debug)]
#[repr(align(128))]
pub struct RxQueue {
    ring: RingView,
    cursor: Cursor,
    endpoint: Endpoint,
    slots: Slots,
    /// Client in a trust group: its buffers.
    pub(super) pool: Option<Arc<PoolSlots>>,
    max_packet: u32,
    /// The chain being received: may be unfinished between two calls. Holds ranges of `ring.table()`.
    chain: Chain,
    signal: RxSignal,
    pub(super) tally: Tally,
    owner: Owner,
}

/// What a walk received.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Taken {
    pub(super) packets: usize,
    pub(super) bytes: u64,
}

impl RxQueue {
    pub(crate) fn new(
        ring: RingView,
        endpoint: Endpoint,
        slots: Slots,
        max_packet: u32,
        event: Event,
    ) -> Self {
        let cursor = Cursor::new(ring.size());
        let (chain, tally, pool) = Default::default();
        let (owner, signal) = (Owner::new(Arc::default(), QueueName::Rx(0)), RxSignal::Direct(event));
        let queue = Self { ring, cursor, endpoint, slots, pool, max_packet, chain, signal, tally, owner };
        queue.post(0, queue.ring.size().descriptors());
        queue
    }

    /// As queue `number` of an interface: its errors say so.
    pub(crate) fn belongs_to(&mut self, interface: &Arc<str>, number: u16) {
        self.owner = Owner::new(Arc::clone(interface), QueueName::Rx(number));
    }

    /// With these buffers.
    pub(crate) fn with_pool(self, pool: PoolSlots) -> Self {
        let queue =
            Self { slots: Slots::Pool { capacity: pool.capacity() }, pool: Some(Arc::new(pool)), ..self };
        queue.post(0, queue.ring.size().descriptors());
        queue
    }

    /// To be called when both sides have mapped the ring. Some servers reset all indices and flags when they
    /// do so; what a client published before is lost.
    pub(crate) fn start(&self) {
        self.endpoint.disarm(self.ring.indices());
        if self.endpoint.is_client() {
            self.endpoint.publish(self.ring.indices(), 0);
        }
    }

    /// Receives up to `max` packets into the sink; gives how many. Their bytes stay in the ring's buffers
    /// until [`release`](Self::release).
    ///
    /// # Errors
    /// [`QueueError`] if the peer broke the rules. Packets before that one have been given to the sink; the
    /// connection must be closed.
    #[inline]
    pub fn receive<S: RxSink>(&mut self, max: usize, sink: &mut S) -> Result<usize, QueueError> {
        let available = self.available().map_err(|fault| self.error(fault))?;
        if available == 0 {
            return Ok(0);
        }
        let received = match OwnSlots::of(self.slots) {
            None if self.pool.is_some() => self.walk_pool(available, max, sink),
            None => self.walk(PeerSlots, available, max, sink),
            Some(own) => self.walk(own, available, max, sink),
        };
        let taken = received.map_err(|fault| self.error(fault))?;
        self.tally.add(taken.packets as u64, taken.bytes, 0);
        Ok(taken.packets)
    }

    /// Slots that the peer has filled and that were not received yet: a call begins.
    #[inline]
    pub(super) fn available(&mut self) -> Result<u16, Fault> {
        self.chain.begin_call();
        let available = self.endpoint.available(self.ring.indices(), &self.cursor);
        // Zeros in place of lost pages make impossible indices, too: the better reason comes first.
        if self.ring.table().lost() {
            return Err(Fault::MemoryLost);
        }
        Ok(available?)
    }

    /// Whose fault it is.
    pub(super) fn error(&self, fault: Fault) -> QueueError {
        self.owner.error(&self.ring, fault)
    }

    /// Index of the next slot that is received from.
    #[inline(always)]
    pub(super) const fn next(&self) -> u16 {
        self.cursor.next()
    }

    /// Whose word counts for where buffers lie.
    #[inline]
    pub(super) const fn slots(&self) -> Slots {
        self.slots
    }

    /// Receives whole lines of descriptors, as long as all packets are like the first: in one piece, of one length. Gives how
    /// many packets that were, at most `max`, with `available` slots filled.
    #[inline(always)]
    pub(super) fn quads<S: Simd>(&mut self, available: u16, max: usize, burst: &mut Burst<'_, S>) -> u16 {
        let (simd, ring, table) = (burst.simd(), self.ring.descriptors(), self.ring.table().extents());
        let mut index = self.cursor.next();
        let quads = max.min(available.into()) / QUAD;
        if quads == 0 || !ring.begins_line(index) || self.chain.slots() > 0 {
            return 0;
        }
        let Descriptor { region, length, .. } = ring.get(index);
        let span = table.span(region);
        let Some((span, last)) =
            span.and_then(|span| Some((span, span.last_offset(Burst::<S>::reach(length))?)))
        else {
            return 0;
        };
        if length.wrapping_sub(1) >= self.max_packet {
            return 0;
        }
        let usual = Usual::packets(region, length, last);
        let two = length as usize > LINE;
        // SAFETY: the length isn't 0, and the offsets leave room for what is read, in a region of the queue, with whose
        // regions the burst was begun.
        let taken = unsafe {
            burst.alike(
                length,
                quads,
                #[inline(always)]
                || {
                    ring.prefetch_read(index.wrapping_add(PREFETCH_DESCRIPTOR));
                    for ahead in ring.offsets(index.wrapping_add(PREFETCH)) {
                        prefetch_read(span.address(ahead));
                        if two {
                            prefetch_read(span.address(ahead).wrapping_add(LINE));
                        }
                    }
                    let quad = Quad::read(simd, ring, index);
                    index = index.wrapping_add(QUAD as u16);
                    quad.is(simd, &usual).then(|| quad.addresses(span).map(<*mut u8>::cast_const))
                },
            )
        } as u16;
        self.cursor.take(taken);
        taken
    }

    #[inline(always)]
    pub(super) fn walk<A: Addressing, S: RxSink>(
        &mut self,
        slots: A,
        available: u16,
        max: usize,
        sink: &mut S,
    ) -> Result<Taken, Fault> {
        let (ring, table) = (self.ring.descriptors(), self.ring.table().extents());
        let start = self.cursor.next();
        let limit = self.max_packet.min(slots.limit());
        let (mut used, mut packets, mut bytes) = (self.chain.slots(), 0, 0);
        let mut chained = used > 0;
        let most = sink.max_bytes();
        while used < available && packets < max && bytes < most {
            let index = start.wrapping_add(used);
            if ring.begins_line(index) {
                ring.prefetch_read(index.wrapping_add(PREFETCH_DESCRIPTOR));
            }
            // A hint, from whatever stands there: used for nothing else.
            let ahead = slots.buffer(ring, index.wrapping_add(PREFETCH));
            for line in 0..S::PREFETCH_LINES {
                table.prefetch_read(ahead.region, ahead.offset.wrapping_add(line * 64));
            }
            let d = slots.received(ring, index);
            used += 1;
            if !d.has_next() && !chained {
                // One comparison for both 0 and too long.
                if d.length.wrapping_sub(1) >= limit {
                    return Err(bad_length(d.length, limit));
                }
                sink.packet(d.check(table)?);
                bytes += u64::from(d.length);
            } else if self.chain.is_enough() {
                used -= 1;
                break;
            } else {
                let limits = Limits { part: slots.limit(), packet: self.max_packet };
                self.chain.add(&self.ring, index, d, limits)?;
                chained = d.has_next();
                if chained {
                    continue;
                }
                let length = self.chain.length()?;
                sink.chain(self.chain.parts(), length);
                bytes += u64::from(length);
                self.chain.clear();
            }
            packets += 1;
        }
        // An unfinished chain is not taken: its slots are asked for again, but not read again.
        self.cursor.take(used - self.chain.slots());
        Ok(Taken { packets, bytes })
    }

    /// Gives all slots that were received from back to the peer: only after nobody needs their bytes any
    /// more.
    #[inline]
    pub fn release(&mut self) {
        if self.cursor.held() == 0 {
            return;
        }
        self.post(self.cursor.first_held(), self.cursor.held());
        let released = self.cursor.release();
        self.endpoint.publish(self.ring.indices(), released);
    }

    /// Gives the first `n` of these slots back, at most all.
    pub fn release_first(&mut self, n: u16) {
        let n = n.min(self.cursor.held());
        if n > 0 {
            self.post(self.cursor.first_held(), n);
            let released = self.cursor.release_first(n);
            self.endpoint.publish(self.ring.indices(), released);
        }
    }

    /// Slots received and not yet released.
    #[inline]
    #[must_use]
    pub fn held(&self) -> u16 {
        self.cursor.held()
    }

    /// Asks the peer to signal [`event`](Self::event), and looks once more.
    ///
    /// A peer that doesn't look at the flag after a full fence (older implementations don't) may still miss
    /// it: sleep with a time limit.
    ///
    /// # Errors
    /// [`QueueError`] with [`Fault::Index`] if the peer's index is impossible, or [`Fault::MemoryLost`].
    pub fn arm(&mut self) -> Result<Armed, QueueError> {
        self.signal.arm(self.cursor.next().wrapping_add(self.chain.slots()));
        let available = self.endpoint.arm(self.ring.indices(), &self.cursor);
        // Zeros in place of lost pages look like an empty ring, too: nobody would ever wake us.
        if self.ring.table().lost() {
            return Err(self.error(Fault::MemoryLost));
        }
        match available {
            Err(fault) => Err(self.error(fault.into())),
            // Of a chain that isn't finished what is there was read: there is nothing to do until more of it comes.
            Ok(n) if n <= self.chain.slots() => Ok(Armed::Sleep),
            Ok(_) => Ok(Armed::AlreadyReady),
        }
    }

    /// Asks the peer not to signal: the queue is polled. The initial state.
    pub fn disarm(&mut self) {
        self.endpoint.disarm(self.ring.indices());
        self.signal.disarm();
    }

    /// Takes the peer's signal back and counts it; gives whether there was one.
    pub fn take_signal(&mut self) -> bool {
        let signalled = self.signal.take();
        if signalled {
            self.tally.signal();
        }
        signalled
    }

    /// What was received so far.
    #[must_use]
    pub fn counters(&self) -> QueueCounters {
        self.tally.read()
    }

    /// The queue's ring, to look at while another thread has the queue.
    #[must_use]
    pub fn gauge(&self) -> RingGauge {
        RingGauge::new(&self.ring, self.endpoint, Flow::In, self.slots, &self.tally)
    }

    /// What the peer signals while the queue is armed, by itself or by way of the link's [doorbell](super::Signals).
    #[must_use]
    pub fn event(&self) -> &Event {
        self.signal.event()
    }

    /// Is woken like that from now on; gives the peer's eventfd, if it had that, and what else a thread needs that hears its signals.
    pub(super) fn woken_by(&mut self, signal: RxSignal) -> Option<Incoming> {
        match std::mem::replace(&mut self.signal, signal) {
            RxSignal::Direct(event) => {
                Some(Incoming { event, ring: self.ring.clone(), endpoint: self.endpoint })
            }
            RxSignal::Doorbell(_) => None,
        }
    }

    /// Size of the ring.
    #[must_use]
    pub const fn ring_size(&self) -> RingSize {
        self.ring.size()
    }

    /// Bytes of one of our buffers; `None` for a server, whose peer may use a different size in every
    /// descriptor.
    #[must_use]
    pub const fn buffer_size(&self) -> Option<u32> {
        self.slots.capacity()
    }

    /// The regions that received bytes lie in: keep a clone while something refers to them.
    #[must_use]
    pub const fn regions(&self) -> &Arc<RegionTable> {
        self.ring.table()
    }

    /// Client: makes `n` slots' descriptors empty buffers (again).
    #[inline]
    fn post(&self, first: u16, n: u16) {
        if let Some(slots) = OwnSlots::of(self.slots) {
            let ring = self.ring.descriptors();
            for i in 0..n {
                let index = first.wrapping_add(i);
                ring.renew(index, slots.buffer(ring, index));
            }
        } else if let Some(pool) = &self.pool {
            let ring = self.ring.descriptors();
            for i in 0..n {
                let index = first.wrapping_add(i);
                pool.renew(index);
                ring.set(index, pool.addressing().buffer(ring, index));
            }
        }
    }
}

#[cold]
fn bad_length(length: u32, max: u32) -> Fault {
    if length == 0 { Fault::Empty } else { Fault::TooLong { length, max } }
}
