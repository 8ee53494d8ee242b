//! Receiving.

use std::sync::Arc;

use memory::region::{CheckedRange, RegionTable};

use super::slots::{Addressing, OwnSlots, PeerSlots};
use super::{Cursor, Descriptor, Endpoint, Event, Fault, RingSize, RingView, Slots};

/// How many packets ahead the first bytes of a packet are prefetched.
const PREFETCH: u16 = 8;

/// Takes the packets of [`RxQueue::receive`]. Its methods are inlined into the loop.
///
/// The ranges stay readable until [`RxQueue::release`]; the peer may change their bytes at any time.
pub trait RxSink {
    /// Cache lines at the beginning of each packet that `packet` will read.
    const PREFETCH_LINES: u32 = 1;

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
#[derive(Debug)]
pub struct RxQueue {
    ring: RingView,
    cursor: Cursor,
    endpoint: Endpoint,
    slots: Slots,
    max_packet: u32,
    /// Parts of the chain being looked at. Ranges of `ring.table()`, only valid during `receive`.
    parts: Vec<CheckedRange<'static>>,
    event: Event,
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
        let queue = Self { ring, cursor, endpoint, slots, max_packet, parts: Vec::new(), event };
        queue.endpoint.disarm(queue.ring.indices());
        queue.post_all();
        queue
    }

    /// Receives up to `max` packets into the sink; gives how many. Their bytes stay in the ring's buffers until
    /// [`release`](Self::release).
    ///
    /// # Errors
    /// [`Fault`] if the peer broke the rules. Packets before that one have been given to the sink; the connection must be
    /// closed.
    #[inline]
    pub fn receive<S: RxSink>(&mut self, max: usize, sink: &mut S) -> Result<usize, Fault> {
        let available = self.available()?;
        if available == 0 {
            return Ok(0);
        }
        match OwnSlots::of(self.slots) {
            None => self.walk(PeerSlots, available, max, sink),
            Some(own) => self.walk(own, available, max, sink),
        }
    }

    /// Slots that the peer has filled and that were not received yet.
    #[inline]
    pub(super) fn available(&self) -> Result<u16, Fault> {
        Ok(self.endpoint.available(self.ring.indices(), &self.cursor)?)
    }

    /// Whose word counts for where buffers lie.
    #[inline]
    pub(super) const fn slots(&self) -> Slots {
        self.slots
    }

    #[inline(always)]
    pub(super) fn walk<A: Addressing, S: RxSink>(
        &mut self,
        slots: A,
        available: u16,
        max: usize,
        sink: &mut S,
    ) -> Result<usize, Fault> {
        let table: &RegionTable = self.ring.table();
        let start = self.cursor.next();
        let limit = self.max_packet.min(slots.limit());
        let (mut used, mut packets) = (0, 0);
        while used < available && packets < max {
            let index = start.wrapping_add(used);
            // A hint, from whatever stands there: used for nothing else.
            let ahead = slots.buffer(&self.ring, index.wrapping_add(PREFETCH));
            for line in 0..S::PREFETCH_LINES {
                table.prefetch_read(ahead.region, ahead.offset.wrapping_add(line * 64));
            }
            let d = slots.received(&self.ring, index);
            if d.has_next() {
                let limits = Limits { part: slots.limit(), packet: self.max_packet };
                let chain = collect(&self.ring, slots, d, index, available - used, limits, &mut self.parts)?;
                sink.chain(&self.parts, chain.length);
                used += chain.slots;
            } else {
                // One comparison for both 0 and too long.
                if d.length.wrapping_sub(1) >= limit {
                    return Err(bad_length(d.length, limit));
                }
                sink.packet(checked(table, d)?);
                used += 1;
            }
            packets += 1;
        }
        self.cursor.take(used);
        Ok(packets)
    }

    /// Gives all slots that were received from back to the peer: only after nobody needs their bytes any more.
    #[inline]
    pub fn release(&mut self) {
        if self.cursor.held() == 0 {
            return;
        }
        self.post_held();
        let released = self.cursor.release();
        self.endpoint.publish(self.ring.indices(), released);
    }

    /// Slots received and not yet released.
    #[inline]
    #[must_use]
    pub fn held(&self) -> u16 {
        self.cursor.held()
    }

    /// Asks the peer to signal [`event`](Self::event), and looks once more.
    ///
    /// A peer that doesn't look at the flag after a full fence (older implementations don't) may still miss it: sleep with a
    /// time limit.
    ///
    /// # Errors
    /// [`Fault::Index`] if the peer's index is impossible.
    pub fn arm(&mut self) -> Result<Armed, Fault> {
        match self.endpoint.arm(self.ring.indices(), &self.cursor)? {
            0 => Ok(Armed::Sleep),
            _ => Ok(Armed::AlreadyReady),
        }
    }

    /// Asks the peer not to signal: the queue is polled. The initial state.
    pub fn disarm(&mut self) {
        self.endpoint.disarm(self.ring.indices());
    }

    /// What the peer signals while the queue is armed.
    #[must_use]
    pub const fn event(&self) -> &Event {
        &self.event
    }

    /// Size of the ring.
    #[must_use]
    pub const fn ring_size(&self) -> RingSize {
        self.ring.size()
    }

    /// Bytes of one of our buffers; `None` for a server, whose peer may use a different size in every descriptor.
    #[must_use]
    pub const fn buffer_size(&self) -> Option<u32> {
        match self.slots {
            Slots::Peer => None,
            Slots::Own { capacity, .. } => Some(capacity),
        }
    }

    /// The regions that received bytes lie in: keep a clone while something refers to them.
    #[must_use]
    pub const fn regions(&self) -> &Arc<RegionTable> {
        self.ring.table()
    }

    /// Client: posts the buffers of all slots, before the ring is announced.
    fn post_all(&self) {
        if let Slots::Own { .. } = self.slots {
            self.post(0, self.ring.size().descriptors());
            self.endpoint.publish(self.ring.indices(), 0);
        }
    }

    /// Client: makes the held slots' descriptors empty buffers again.
    #[inline]
    fn post_held(&self) {
        self.post(self.cursor.first_held(), self.cursor.held());
    }

    #[inline]
    fn post(&self, first: u16, n: u16) {
        if let Some(slots) = OwnSlots::of(self.slots) {
            for i in 0..n {
                let index = first.wrapping_add(i);
                self.ring.set_descriptor(index, slots.buffer(&self.ring, index));
            }
        }
    }
}

#[derive(Clone, Copy)]
struct Limits {
    part: u32,
    packet: u32,
}

#[derive(Clone, Copy)]
struct Chain {
    slots: u16,
    length: u32,
}

#[inline(always)]
fn checked(table: &RegionTable, d: Descriptor) -> Result<CheckedRange<'_>, Fault> {
    table.check(d.region, d.offset, d.length).ok_or(Fault::Range {
        region: d.region,
        offset: d.offset,
        length: d.length,
    })
}

#[cold]
fn bad_length(length: u32, max: u32) -> Fault {
    if length == 0 { Fault::Empty } else { Fault::TooLong { length, max } }
}

/// Reads the chain that begins with `first` at `index`, each descriptor once, into `parts`.
///
/// Whole packets are published by every known peer, so that a chain that does not end within the `available` slots is a fault
/// and not something to wait for: waiting would mean to walk it again with each poll.
fn collect<A: Addressing>(
    ring: &RingView,
    slots: A,
    first: Descriptor,
    index: u16,
    available: u16,
    limits: Limits,
    parts: &mut Vec<CheckedRange<'static>>,
) -> Result<Chain, Fault> {
    parts.clear();
    let mut d = first;
    let (mut n, mut length) = (0, 0_u32);
    loop {
        n += 1;
        if d.length > limits.part {
            return Err(Fault::TooLong { length: d.length, max: limits.part });
        }
        length = length.saturating_add(d.length);
        if length > limits.packet {
            return Err(Fault::TooLong { length, max: limits.packet });
        }
        // An empty part is odd but says nothing wrong: some senders trim the last buffer of a chain to nothing.
        if d.length > 0 {
            let range = checked(ring.table(), d)?;
            // SAFETY: `parts` lives in the queue that owns `ring`, whose `Arc` keeps the table and its mappings; it is given out
            // only as slices that borrow the queue, and refilled before it is used again.
            parts.push(unsafe { range.detach() });
        }
        if !d.has_next() {
            break;
        }
        if n == available {
            return Err(Fault::Unfinished { parts: n });
        }
        d = slots.received(ring, index.wrapping_add(n));
    }
    if length == 0 { Err(Fault::Empty) } else { Ok(Chain { slots: n, length }) }
}
