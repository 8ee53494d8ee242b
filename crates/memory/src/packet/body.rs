//! Bodies: shortening, sharing, and making them private.

use super::slot::{Holder, Segment};
use super::slots::{NoSlot, Packets, SlotId, index};
use core::ptr;
use core::slice;

impl Packets {
    /// The body's first segment, and those behind it.
    #[inline(always)]
    pub(crate) fn body(&self, slot: SlotId) -> (Segment, &[Segment]) {
        let Some(slot) = self.live(slot) else { return (Segment::NONE, &[]) };
        (slot.first(), self.segments.get(slot.more()).unwrap_or_default())
    }

    /// The body's segments, in order.
    pub(crate) fn segments(&self, slot: SlotId) -> impl Iterator<Item = Segment> + '_ {
        let (first, more) = self.body(slot);
        (first.len > 0).then_some(first).into_iter().chain(more.iter().copied())
    }

    /// Where the body lies, and its bytes, if it is one piece of memory that it was received in and that no other packet refers to.
    #[must_use]
    #[inline(always)]
    pub fn lone_body(&self, slot: SlotId) -> Option<(*const u8, u32)> {
        let slot = self.live(slot)?;
        let lone = slot.first_len > 0 && slot.more_count == 0 && slot.holder == Holder::Sender;
        lone.then_some((slot.first_start, slot.first_len))
    }

    /// Shortens the packet to `len` bytes from the current header on. Nothing happens if it isn't longer.
    pub fn truncate(&mut self, slot: SlotId, len: u32) {
        let at = index(slot);
        if at >= self.used {
            return;
        }
        let slot = &mut self.metas[at];
        let m = &mut slot.meta;
        let head = u32::from(m.end.saturating_sub(m.data));
        if len >= head + m.body_len {
            return;
        }
        if len <= head {
            m.end = m.data + len as u16;
            m.body_len = 0;
            slot.first_len = 0;
            slot.more_count = 0;
            return;
        }
        let mut left = len - head;
        m.body_len = left;
        slot.first_len = slot.first_len.min(left);
        left -= slot.first_len;
        let mut count = 0;
        let more = slot.more();
        // The packet's own segments are cut in place; a duplicate's range is the same, so it is copied first.
        let copy_at = self.segments.len();
        for at in more {
            if left == 0 {
                break;
            }
            let mut segment = self.segments[at];
            segment.len = segment.len.min(left);
            left -= segment.len;
            count += 1;
            self.segments.push(segment);
        }
        slot.more_start = copy_at as u32;
        slot.more_count = count;
    }

    /// Makes `target`'s body the bytes `from..from + len` of `source`'s body; they are shared, not copied.
    /// Used to cut a packet into fragments or segments. Ranges beyond the body are cut off.
    pub fn share_body(&mut self, source: SlotId, target: SlotId, from: u32, len: u32) {
        let mut skip = from;
        let mut left = len;
        let store = self.segments.len();
        let mut first = None;
        let mut count = 0;
        let segments: Vec<Segment> = self.segments(source).collect();
        for Segment { start, len } in segments {
            if left == 0 {
                break;
            }
            let ahead = skip.min(len);
            skip -= ahead;
            let take = (len - ahead).min(left);
            if take == 0 {
                continue;
            }
            left -= take;
            let piece = Segment { start: start.wrapping_add(ahead as usize), len: take };
            if first.is_none() {
                first = Some(piece);
            } else {
                self.segments.push(piece);
                count += 1;
            }
        }
        let slot = &mut self.metas[index(target)];
        let first = first.unwrap_or(Segment::NONE);
        (slot.first_start, slot.first_len) = (first.start, first.len);
        (slot.more_start, slot.more_count) = (store as u32, count);
        slot.meta.body_len = len - left;
        // Shared from now on, hence not to be changed; a private source keeps bytes stable all the same.
        slot.holder = Holder::Shared;
        self.metas[index(source)].holder = Holder::Shared;
    }

    /// Copies the body into the worker's private memory, so that it can be read twice, summed or changed. Does
    /// nothing where it is private already, and nobody reads it for whom it was [lent](Self::lend).
    ///
    /// # Errors
    /// [`NoSlot`] when the body is larger than any packet may be.
    pub fn pull_body(&mut self, slot: SlotId) -> Result<&mut [u8], NoSlot> {
        let Some(live) = self.live(slot).filter(|slot| slot.first_len > 0) else { return Ok(&mut []) };
        if live.holder != Holder::Worker || self.is_lent() {
            let segments: Vec<Segment> = self.segments(slot).collect();
            let len = segments.iter().fold(0, |all, segment| all + segment.len as usize);
            let piece = self.scratch.piece(len).ok_or(NoSlot)?;
            let mut at = 0;
            for segment in segments {
                let n = segment.len as usize;
                let Some(target) = piece.get_mut(at..at + n) else { return Err(NoSlot) };
                // SAFETY: a segment is readable for its length until the end of the round (it was checked against
                // its region, which `keep` holds, or lies in `scratch`); the target is exclusive and as long. The
                // sender may be writing: bytes are taken as they come, and only this copy is used from here on.
                unsafe { ptr::copy_nonoverlapping(segment.start, target.as_mut_ptr(), n) };
                at += n;
            }
            let start: *const u8 = piece.as_mut_ptr();
            self.scratch.keep(len);
            self.metas[index(slot)].set_private(start, len as u32);
        }
        let Segment { start, len } = self.metas[index(slot)].first();
        // SAFETY: a private body is one segment in `scratch` of this round, handed out to this packet alone (sharing changes the
        // holder), alive until `end_round`, which needs `&mut self`.
        Ok(unsafe { slice::from_raw_parts_mut(start.cast_mut(), len as usize) })
    }

    /// Brings as much of the body into the head that the head reaches position `end` of its area: for headers that
    /// go on where the head ended. False, and nothing changed, where the packet or the area is shorter than that.
    #[must_use]
    pub fn pull_head(&mut self, slot: SlotId, end: usize) -> bool {
        let at = index(slot);
        let whole = self.metas[at];
        let missing = end.saturating_sub(whole.meta.end as usize);
        if missing == 0 {
            return true;
        }
        let Some(room) = self.heads[at].0.get_mut(whole.meta.end as usize..end) else { return false };
        if missing > whole.meta.body_len as usize || at >= self.used {
            return false;
        }
        let mut done = 0;
        let mut store = whole.more();
        let mut first = whole.first();
        while done < missing {
            let n = (first.len as usize).min(missing - done);
            // SAFETY: as in `pull_body`: the segment is readable for its length; `n` bytes are left in `room`.
            unsafe { ptr::copy_nonoverlapping(first.start, room.as_mut_ptr().add(done), n) };
            done += n;
            first = Segment { start: first.start.wrapping_add(n), len: first.len - n as u32 };
            if first.len > 0 {
                break;
            }
            let next = store.next().and_then(|at| self.segments.get(at));
            first = next.copied().unwrap_or(Segment::NONE);
            if next.is_none() {
                break;
            }
        }
        let slot = &mut self.metas[at];
        slot.meta.end += done as u16;
        slot.meta.body_len -= done as u32;
        (slot.first_start, slot.first_len) = (first.start, first.len);
        (slot.more_start, slot.more_count) = (store.start as u32, store.len() as u16);
        done == missing
    }

    /// Whether the memory that the packet's body lies in was taken away by its sender: what was read of it may be zeros.
    #[must_use]
    #[inline]
    pub fn body_lost(&self, slot: SlotId) -> bool {
        self.keep.iter().any(|table| table.lost()) && self.lies_in_lost(slot)
    }

    #[cold]
    fn lies_in_lost(&self, slot: SlotId) -> bool {
        let lost = || self.keep.iter().flat_map(|table| table.regions()).filter(|region| region.lost());
        self.segments(slot).any(|segment| lost().any(|region| region.contains(segment.start)))
    }

    /// Copies the packet, from the current header on, into `out` and returns how many bytes that were; what
    /// doesn't fit is left out. For traces, captures and packets that leave the worker.
    pub fn copy_out(&self, slot: SlotId, out: &mut [u8]) -> usize {
        let head = self.head(slot);
        let mut at = head.len().min(out.len());
        out[..at].copy_from_slice(&head[..at]);
        for segment in self.segments(slot) {
            let n = (segment.len as usize).min(out.len() - at);
            // SAFETY: as in `pull_body`; `n` bytes are left in `out`.
            unsafe { ptr::copy_nonoverlapping(segment.start, out.as_mut_ptr().add(at), n) };
            at += n;
        }
        at
    }

    /// Sets the body of a packet without one to private bytes. Returns them to be written.
    ///
    /// # Errors
    /// [`NoSlot`] when `len` is larger than any packet may be.
    pub fn new_body(&mut self, slot: SlotId, len: usize) -> Result<&mut [u8], NoSlot> {
        let piece = self.scratch.piece(len).ok_or(NoSlot)?;
        let start = piece.as_mut_ptr();
        self.scratch.keep(len);
        self.metas[index(slot)].set_private(start, len as u32);
        // SAFETY: the piece was just handed out to this packet alone and lives until `end_round`.
        Ok(unsafe { slice::from_raw_parts_mut(start, len) })
    }
}
