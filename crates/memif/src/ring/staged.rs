//! Sending in two steps, for a dataplane in which somebody else copies bodies: written into the ring now, published once the bodies are there.

use memory::packet::{Bodies, Packets, SlotId};
use memory::region::CheckedRange;
use memory::simd::Simd;

use super::packets::PacketsSent;
use super::slots::{OwnSlots, PeerSlots};
use super::{QueueError, TxQueue, TxSource};

impl TxQueue {
    /// [`transmit_packets`](Self::transmit_packets) with bodies copied by somebody, and nothing published: that is for
    /// [`publish_staged`](Self::publish_staged), when all bodies are there.
    ///
    /// Packets of a trust group, whose buffers change hands, are sent at once.
    ///
    /// # Errors
    /// [`QueueError`] if the peer broke the rules. Nothing of this call will be published, and the connection must be closed; bodies may be being
    /// copied all the same.
    ///
    /// # Safety
    /// Where `bodies` copies later: until it is done, the packets' bodies must be [lent](Packets::lend), and the queue must not be
    /// dropped.
    #[allow(unsafe_code)]
    pub unsafe fn stage_packets<S: Simd, B: Bodies>(
        &mut self,
        simd: S,
        packets: &Packets,
        slots: &[SlotId],
        bodies: &mut B,
    ) -> Result<PacketsSent, QueueError> {
        if self.pool.is_some() {
            return self.transmit_packets(simd, packets, slots);
        }
        let room = self.checked_room().map_err(|fault| self.error(fault))?;
        simd.run(
            #[inline(always)]
            || {
                let mut source = Source { simd, packets, slots, bodies, bytes: 0, refused: false };
                let walked = match OwnSlots::of(self.slots()) {
                    None => self.walk(PeerSlots, room, slots.len(), &mut source),
                    Some(own) => self.walk(own, room, slots.len(), &mut source),
                };
                let sent = walked.map_err(|fault| self.error(fault))?.done.sent;
                let left = if source.refused { 0 } else { slots.len() - sent };
                self.tally.add(sent as u64, source.bytes, left as u64);
                Ok(PacketsSent { packets: sent, bytes: source.bytes, refused: source.refused })
            },
        )
    }

    /// Slots of the ring that were written to and not published.
    #[must_use]
    #[inline]
    pub const fn staged(&self) -> u16 {
        self.cursor.held()
    }

    /// Publishes what was staged, in order. Does not signal: see [`notify`](Self::notify).
    #[inline]
    pub fn publish_staged(&mut self) {
        self.publish();
    }
}

struct Source<'p, S, B> {
    simd: S,
    packets: &'p Packets,
    slots: &'p [SlotId],
    bodies: &'p mut B,
    bytes: u64,
    refused: bool,
}

impl<S: Simd, B: Bodies> TxSource for Source<'_, S, B> {
    #[inline(always)]
    fn length(&mut self, packet: usize) -> u32 {
        self.slots.get(packet).map_or(0, |slot| self.packets.meta(*slot).len())
    }

    #[inline(always)]
    fn write(&mut self, packet: usize, into: CheckedRange<'_>) {
        self.write_chain(packet, &[into]);
    }

    #[inline(always)]
    fn write_chain(&mut self, packet: usize, into: &[CheckedRange<'_>]) {
        if let Some(slot) = self.slots.get(packet) {
            let mut pieces = self.packets.pieces(*slot);
            for part in into {
                // SAFETY: promised to `stage_packets`, which alone makes sources; the ranges are the queue's.
                #[allow(unsafe_code)]
                let written = unsafe { pieces.write_by(self.simd, *part, self.bodies) };
                self.bytes += u64::from(written);
            }
        }
    }

    fn refused(&mut self, _packet: usize) -> bool {
        self.refused = true;
        false
    }
}
