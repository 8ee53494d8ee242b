//! Between rings and the packet slots of a dataplane worker: heads are copied in, bodies stay in the ring's buffers
//! and are copied out, once, into the buffers of another ring.

use std::ops::Range;
use std::sync::Arc;

use memory::packet::{Burst, Packets, SlotId};
use memory::region::CheckedRange;
use memory::simd::Simd;

use super::quad::QUAD;
use super::slots::OwnSlots;
use super::slots::PeerSlots;
use super::{Fault, QueueError, RxQueue, RxSink, TxQueue, TxSource};

/// Bytes of a cache line.
pub(super) const LINE: usize = 64;

impl RxQueue {
    /// Receives up to `max` packets into slots, as packets of interface `rx_if`; returns the slots and the bytes in them. The
    /// packets' bodies stay in the ring's buffers until [`release`](Self::release), which is due after the round.
    ///
    /// Compiled for the tier of `simd`.
    ///
    /// # Errors
    /// [`QueueError`] if the peer broke the rules; the packets received before that one are lost with the connection.
    pub fn receive_packets<S: Simd>(
        &mut self,
        simd: S,
        packets: &mut Packets,
        rx_if: u16,
        max: usize,
    ) -> Result<(Range<usize>, u64), QueueError> {
        self.receive_share(simd, packets, rx_if, max, u64::MAX)
    }

    /// As [`receive_packets`](Self::receive_packets), and no further packet after `max_bytes` bytes. Four packets may go beyond.
    ///
    /// # Errors
    /// As for [`receive_packets`](Self::receive_packets).
    pub fn receive_share<S: Simd>(
        &mut self,
        simd: S,
        packets: &mut Packets,
        rx_if: u16,
        max: usize,
        max_bytes: u64,
    ) -> Result<(Range<usize>, u64), QueueError> {
        let available = self.available().map_err(|fault| self.error(fault))?;
        let max = max.min(packets.free());
        if available == 0 || max == 0 {
            return Ok((0..0, 0));
        }
        let burst = packets.burst(simd, Arc::clone(self.regions()), rx_if);
        simd.run(
            #[inline(always)]
            || {
                let mut sink = Sink { burst, max_bytes };
                let received = match OwnSlots::of(self.slots()) {
                    None if self.pool.is_some() => self.walk_pool(available, max, &mut sink).map(drop),
                    None => self.lines(available, max, &mut sink),
                    Some(own) => self.walk(own, available, max, &mut sink).map(drop),
                };
                received.map_err(|fault| self.error(fault))?;
                let (slots, bytes) = sink.burst.finish();
                self.tally.add(slots.len() as u64, bytes, 0);
                Ok((slots, bytes))
            },
        )
    }
}

impl RxQueue {
    /// Four at a time, and one by one where that can't be.
    #[inline(always)]
    fn lines<S: Simd>(&mut self, available: u16, max: usize, sink: &mut Sink<'_, S>) -> Result<(), Fault> {
        let start = self.next();
        let mut packets = 0;
        loop {
            let left = available - self.next().wrapping_sub(start);
            packets += usize::from(self.quads(left, max - packets, &mut sink.burst));
            let left = available - self.next().wrapping_sub(start);
            let to_next_line = QUAD - usize::from(self.next()) % QUAD;
            let some = self.walk(PeerSlots, left, to_next_line.min(max - packets), sink)?.packets;
            if some == 0 {
                return Ok(());
            }
            packets += some;
        }
    }
}

struct Sink<'p, S> {
    burst: Burst<'p, S>,
    max_bytes: u64,
}

impl<S: Simd> RxSink for Sink<'_, S> {
    #[inline(always)]
    fn max_bytes(&self) -> u64 {
        self.max_bytes.saturating_sub(self.burst.bytes())
    }

    #[inline(always)]
    fn packet(&mut self, bytes: CheckedRange<'_>) {
        // SAFETY: the queue hands out ranges of its own regions, with which the burst was begun. There is a slot: no more
        // packets are asked for than are free.
        let _ = unsafe { self.burst.packet(bytes) };
    }

    #[cold]
    #[inline(never)]
    fn chain(&mut self, parts: &[CheckedRange<'_>], _length: u32) {
        let mut parts = parts.iter();
        if let Some(first) = parts.next() {
            self.packet(*first);
        }
        for part in parts {
            // SAFETY: as above.
            unsafe { self.burst.segment(*part) };
        }
    }
}

impl TxQueue {
    /// Sends packets, in order, as many as there is room for: head and body straight into the ring's buffers. Stops before a
    /// packet that can never be sent. Does not signal: see [`notify`](Self::notify).
    ///
    /// Compiled for the tier of `simd`.
    ///
    /// # Errors
    /// [`QueueError`] if the peer broke the rules. Nothing is published then, and the connection must be closed.
    pub fn transmit_packets<S: Simd>(
        &mut self,
        simd: S,
        packets: &Packets,
        slots: &[SlotId],
    ) -> Result<PacketsSent, QueueError> {
        simd.run(
            #[inline(always)]
            || {
                let mut source = Source { simd, packets, slots, done: 0, bytes: 0, refused: false };
                let sent = match OwnSlots::of(self.slots()) {
                    None if self.pool.is_some() => self.exchange(&mut source),
                    None => self.lines(&mut source),
                    Some(_) => self.fill(slots.len(), &mut source).map(|filled| filled.done.sent),
                };
                let sent = sent.map_err(|fault| self.error(fault))?;
                let left = if source.refused { 0 } else { slots.len() - sent };
                self.tally.add(sent as u64, source.bytes, left as u64);
                Ok(PacketsSent { packets: sent, bytes: source.bytes, refused: source.refused })
            },
        )
    }
}

impl TxQueue {
    /// Four at a time, and one by one where that can't be.
    #[inline(always)]
    fn lines<S: Simd>(&mut self, source: &mut Source<'_, S>) -> Result<usize, Fault> {
        let room = self.checked_room()?;
        let start = self.next();
        loop {
            let left = room - self.next().wrapping_sub(start);
            let slots = source.slots.get(source.done..).unwrap_or_default();
            if self.begins_line() {
                let alike = source.packets.alike(slots);
                let written = self.quads(source.simd, left, &alike);
                source.done += usize::from(written);
                source.bytes += u64::from(written) * u64::from(alike.len());
            }
            let left = room - self.next().wrapping_sub(start);
            let to_next_line = QUAD - usize::from(self.next()) % QUAD;
            let n = to_next_line.min(source.slots.len() - source.done);
            let some = self.walk(PeerSlots, left, n, source)?.done.sent;
            source.done += some;
            if some < n || n == 0 {
                self.publish();
                return Ok(source.done);
            }
        }
    }
}

/// What [`TxQueue::transmit_packets`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PacketsSent {
    /// Packets sent, from the front.
    pub packets: usize,
    /// Their bytes.
    pub bytes: u64,
    /// The next packet can't be sent however long one waits; else there was no room for it.
    pub refused: bool,
}

pub(super) struct Source<'p, S> {
    pub(super) simd: S,
    pub(super) packets: &'p Packets,
    pub(super) slots: &'p [SlotId],
    /// Packets before the one that counts as packet 0.
    pub(super) done: usize,
    pub(super) bytes: u64,
    refused: bool,
}

impl<S: Simd> TxSource for Source<'_, S> {
    #[inline(always)]
    fn length(&mut self, packet: usize) -> u32 {
        self.slots.get(self.done + packet).map_or(0, |slot| self.packets.meta(*slot).len())
    }

    #[inline(always)]
    fn write(&mut self, packet: usize, into: CheckedRange<'_>) {
        if let Some(slot) = self.slots.get(self.done + packet) {
            self.bytes += u64::from(into.len());
            // As long as the packet, so it can't be too short.
            let _ = self.packets.write_to(self.simd, *slot, into);
        }
    }

    #[cold]
    #[inline(never)]
    fn write_chain(&mut self, packet: usize, into: &[CheckedRange<'_>]) {
        if let Some(slot) = self.slots.get(self.done + packet) {
            let mut pieces = self.packets.pieces(*slot);
            for part in into {
                self.bytes += u64::from(pieces.write(self.simd, *part));
            }
        }
    }

    fn refused(&mut self, _packet: usize) -> bool {
        self.refused = true;
        false
    }
}
