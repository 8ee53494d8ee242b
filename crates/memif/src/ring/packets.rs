//! Between rings and the packet slots of a dataplane worker: heads are copied in, bodies stay in the ring's buffers
//! and are copied out, once, into the buffers of another ring.

use std::ops::Range;
use std::sync::Arc;

use memory::packet::{Burst, Packets, SlotId};
use memory::region::CheckedRange;
use memory::simd::Simd;

use super::slots::OwnSlots;
use super::slots::PeerSlots;
use super::{Fault, RxQueue, RxSink, TxQueue, TxSource};

impl RxQueue {
    /// Receives up to `max` packets into slots, as packets of interface `rx_if`; gives the slots and the bytes in them. The
    /// packets' bodies stay in the ring's buffers until [`release`](Self::release), which is due after the round.
    ///
    /// Compiled for the tier of `simd`.
    ///
    /// # Errors
    /// [`Fault`] if the peer broke the rules; the packets received before that one are lost with the connection.
    pub fn receive_packets<S: Simd>(
        &mut self,
        simd: S,
        packets: &mut Packets,
        rx_if: u16,
        max: usize,
    ) -> Result<(Range<usize>, u64), Fault> {
        let available = self.available()?;
        let max = max.min(packets.free());
        if available == 0 || max == 0 {
            return Ok((0..0, 0));
        }
        let burst = packets.burst(simd, Arc::clone(self.regions()), rx_if);
        simd.run(
            #[inline(always)]
            || {
                let mut sink = Sink(burst);
                let received = match OwnSlots::of(self.slots()) {
                    None => self.walk(PeerSlots, available, max, &mut sink),
                    Some(own) => self.walk(own, available, max, &mut sink),
                };
                received.map_err(|fault| self.blame(fault))?;
                Ok(sink.0.finish())
            },
        )
    }
}

struct Sink<'p, S>(Burst<'p, S>);

impl<S: Simd> RxSink for Sink<'_, S> {
    #[inline(always)]
    fn packet(&mut self, bytes: CheckedRange<'_>) {
        // SAFETY: the queue hands out ranges of its own regions, with which the burst was begun. There is a slot: no more
        // packets are asked for than are free.
        let _ = unsafe { self.0.packet(bytes) };
    }

    #[inline]
    fn chain(&mut self, parts: &[CheckedRange<'_>], _length: u32) {
        let mut parts = parts.iter();
        if let Some(first) = parts.next() {
            self.packet(*first);
        }
        for part in parts {
            // SAFETY: as above.
            unsafe { self.0.segment(*part) };
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
    /// [`Fault`] if the peer broke the rules. Nothing is published then, and the connection must be closed.
    pub fn transmit_packets<S: Simd>(
        &mut self,
        simd: S,
        packets: &Packets,
        slots: &[SlotId],
    ) -> Result<PacketsSent, Fault> {
        simd.run(
            #[inline(always)]
            || {
                let mut source = Source { simd, packets, slots, bytes: 0, refused: false };
                let done = self.transmit(slots.len(), &mut source)?;
                Ok(PacketsSent { packets: done.sent, bytes: source.bytes, refused: source.refused })
            },
        )
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

struct Source<'p, S> {
    simd: S,
    packets: &'p Packets,
    slots: &'p [SlotId],
    bytes: u64,
    refused: bool,
}

impl<S: Simd> TxSource for Source<'_, S> {
    #[inline(always)]
    fn length(&mut self, packet: usize) -> u32 {
        self.slots.get(packet).map_or(0, |slot| self.packets.meta(*slot).len())
    }

    #[inline(always)]
    fn write(&mut self, packet: usize, into: CheckedRange<'_>) {
        if let Some(slot) = self.slots.get(packet) {
            self.bytes += u64::from(into.len());
            // As long as the packet, so it can't be too short.
            let _ = self.packets.write_to(self.simd, *slot, into);
        }
    }

    #[inline]
    fn write_chain(&mut self, packet: usize, into: &[CheckedRange<'_>]) {
        if let Some(slot) = self.slots.get(packet) {
            let mut offset = 0;
            for part in into {
                offset += self.packets.write_part(self.simd, *slot, offset, *part);
            }
            self.bytes += u64::from(offset);
        }
    }

    fn refused(&mut self, _packet: usize) -> bool {
        self.refused = true;
        false
    }
}
