//! Buffers in which a packet is sent that is longer than one.

use memory::region::CheckedRange;

use super::fault::{PARTS_A_CALL, SMALL, most_parts};
use super::slots::Addressing;
use super::{Descriptor, FLAG_NEXT, Fault, RingView};

/// Whether a packet can be sent in several buffers.
pub(super) enum Fit {
    /// The buffers are collected.
    Fits,
    /// Not in the free slots, or not in this call.
    NoRoom,
    /// Not in the whole ring.
    Never,
}

/// Buffers for one packet, being put together: the lists are the queue's.
pub(super) struct Gather<'q> {
    pub(super) ring: &'q RingView,
    pub(super) parts: &'q mut Vec<CheckedRange<'static>>,
    pub(super) descriptors: &'q mut Vec<Descriptor>,
    /// Small buffers that were looked at in this call.
    pub(super) looked_at: &'q mut u16,
}

impl Gather<'_> {
    /// Collects buffers from `first` at `index` on until they hold `length` bytes, each descriptor read once
    /// and checked before anything is written.
    #[cold]
    #[inline(never)]
    pub(super) fn collect<A: Addressing>(
        self,
        slots: A,
        first: Descriptor,
        index: u16,
        room: u16,
        length: u32,
    ) -> Result<Fit, Fault> {
        if length == 0 {
            return Ok(Fit::Never);
        }
        if *self.looked_at >= PARTS_A_CALL {
            return Ok(Fit::NoRoom);
        }
        self.parts.clear();
        self.descriptors.clear();
        let mut d = first;
        let (mut n, mut left) = (0, length);
        loop {
            if d.length == 0 {
                return Err(Fault::NoCapacity);
            }
            *self.looked_at = self.looked_at.saturating_add(u16::from(d.length < SMALL));
            let part = d.length.min(left);
            left -= part;
            d = Descriptor { flags: if left > 0 { FLAG_NEXT } else { 0 }, length: part, ..d };
            let range = d.check(self.ring.table().extents())?;
            // SAFETY: `parts` lives in the queue that owns `ring`, whose `Arc` keeps the table and its
            // mappings; it is given out only as slices that borrow the queue, and refilled before it is used
            // again.
            self.parts.push(unsafe { range.detach() });
            self.descriptors.push(d);
            n += 1;
            if left == 0 {
                return Ok(Fit::Fits);
            }
            if n == room {
                return Ok(if room == self.ring.size().descriptors() { Fit::Never } else { Fit::NoRoom });
            }
            let max = most_parts(length);
            if u32::from(n) >= max {
                return Err(Fault::TooManyParts { max });
            }
            d = slots.buffer(self.ring.descriptors(), index.wrapping_add(n));
        }
    }
}
