//! Queues whose buffers are a trust group's: packets change rings without being copied.

use memory::packet::SlotId;
use memory::simd::Simd;

use super::packets::Source;
use super::pool::PoolSlots;
use super::rx::{RxSink, Taken};
use super::tx::{TxSource, Walked};
use super::{Descriptor, Fault, RxQueue, TxQueue};

impl RxQueue {
    /// [`walk`](Self::walk) with the pool's buffers.
    pub(super) fn walk_pool<S: RxSink>(
        &mut self,
        available: u16,
        max: usize,
        sink: &mut S,
    ) -> Result<Taken, Fault> {
        // A handle of its own, for the queue is borrowed as a whole; and it stays there should the sink panic.
        let Some(pool) = self.pool.clone() else { return Ok(Taken::default()) };
        self.walk(pool.addressing(), available, max, sink)
    }
}

impl TxQueue {
    /// [`walk`](Self::walk) with the pool's buffers: copies.
    pub(super) fn walk_pool<S: TxSource>(
        &mut self,
        room: u16,
        n: usize,
        source: &mut S,
    ) -> Result<Walked, Fault> {
        let Some(pool) = self.pool.clone() else { return Ok(Walked::default()) };
        self.walk(pool.addressing(), room, n, source)
    }

    /// Sends packets: those that came in by the same pool in the buffers in which they lie, others as copies. Gives how many. They are
    /// published.
    pub(super) fn exchange<S: Simd>(&mut self, source: &mut Source<'_, S>) -> Result<usize, Fault> {
        let room = self.checked_room()?;
        let Some(pool) = self.pool.clone() else { return Ok(0) };
        let sent = self.exchange_with(&pool, room, source)?;
        self.publish();
        Ok(sent)
    }

    fn exchange_with<S: Simd>(
        &mut self,
        pool: &PoolSlots,
        room: u16,
        source: &mut Source<'_, S>,
    ) -> Result<usize, Fault> {
        let start = self.cursor.next();
        let used = |queue: &Self| queue.cursor.next().wrapping_sub(start);
        while let Some(slot) = source.slots.get(source.done).copied() {
            let left = room - used(self);
            if left == 0 {
                break;
            }
            let index = self.cursor.next();
            if let Some((buffer, d)) = self.lies_in(pool, source, slot) {
                // The head, which is private and may have changed; the body is where it was.
                let body = source.packets.meta(slot).body_len();
                let head = Descriptor { length: d.length.saturating_sub(body), ..d };
                let into = head.check(self.ring.table().extents())?;
                let written = source.packets.pieces(slot).write(source.simd, into);
                debug_assert_eq!(written, head.length);
                self.ring.descriptors().set(index, d);
                pool.exchange(index, buffer);
                self.cursor.take(1);
                source.done += 1;
                source.bytes += u64::from(d.length);
                continue;
            }
            // Up to the next that can be exchanged: copied, in one go.
            let rest = source.slots.get(source.done..).unwrap_or_default();
            let next = rest.iter().skip(1).position(|slot| self.lies_in(pool, source, *slot).is_some());
            let run = next.map_or(rest.len(), |next| next + 1);
            let sent = self.walk(pool.addressing(), left, run, source)?.done.sent;
            source.done += sent;
            if sent < run {
                break;
            }
        }
        Ok(source.done)
    }

    /// The pool's buffer in which the packet lies, and where it is to begin there; `None` if it isn't in one, or shares it with others,
    /// or has grown too long in front.
    #[inline]
    fn lies_in<S: Simd>(
        &self,
        pool: &PoolSlots,
        source: &Source<'_, S>,
        slot: SlotId,
    ) -> Option<(u32, Descriptor)> {
        let (address, body) = source.packets.lone_body(slot)?;
        let base = self.ring.table().check(pool.region(), 0, 0)?.as_ptr().addr();
        let offset = u32::try_from(address.addr().checked_sub(base)?).ok()?;
        let buffer = pool.buffer_of(offset)?;
        let length = source.packets.meta(slot).len();
        let begin =
            offset.checked_sub(length.checked_sub(body)?).filter(|begin| *begin >= pool.begin(buffer))?;
        Some((buffer, Descriptor { flags: 0, region: pool.region(), length, offset: begin }))
    }
}
