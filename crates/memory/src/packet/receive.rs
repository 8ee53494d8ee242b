//! Taking packets in: heads are copied, bodies stay.

use super::meta::Meta;
use super::slot::{Segment, Slot};
use super::slots::{HEAD, HEADROOM, NoSlot, Packets, SlotId, index};
use crate::region::{CheckedRange, RegionTable};
use crate::simd::Simd;
use core::ptr;
use std::io;
use std::sync::Arc;

/// Bytes of a cache line.
const LINE: usize = 64;

/// Packets being received from one queue into consecutive slots. Made by [`Packets::burst`].
#[derive(Debug)]
pub struct Burst<'p, S> {
    packets: &'p mut Packets,
    simd: S,
    template: Slot,
    first: usize,
    bytes: u64,
}

impl Packets {
    /// Begins to receive from a queue of interface `rx_if` whose buffers lie in `regions`; they stay mapped until the
    /// end of the round.
    #[inline(always)]
    pub fn burst<'p, S: Simd>(&'p mut self, simd: S, regions: Arc<RegionTable>, rx_if: u16) -> Burst<'p, S> {
        self.keep.push(regions);
        let first = self.used;
        Burst { packets: self, simd, template: Slot::new(Meta::new(rx_if)), first, bytes: 0 }
    }

    /// Receives one packet that `read` writes into the worker's private memory: `read` gets a buffer of `max` bytes
    /// and returns how many bytes of another header (`virtio_net_hdr`) and of all it wrote. The packet is what is
    /// behind that header. `None` where `read` wrote nothing more than it.
    ///
    /// # Errors
    /// What `read` returns; [`io::ErrorKind::OutOfMemory`] where no slot is free or `max` is above 128 KiB.
    pub fn receive_private(
        &mut self,
        rx_if: u16,
        max: usize,
        read: impl FnOnce(&mut [u8]) -> io::Result<(usize, usize)>,
    ) -> io::Result<Option<SlotId>> {
        if self.free() == 0 {
            return Err(io::Error::new(io::ErrorKind::OutOfMemory, NoSlot));
        }
        let piece =
            self.scratch.piece(max).ok_or_else(|| io::Error::new(io::ErrorKind::OutOfMemory, NoSlot))?;
        let (skip, all) = read(piece)?;
        let Some(bytes) = piece.get(skip..all).filter(|bytes| !bytes.is_empty()) else { return Ok(None) };
        let (start, len) = (bytes.as_ptr(), bytes.len());
        self.scratch.keep(all);
        let Ok(slot) = self.take(rx_if) else { return Ok(None) };
        let head = len.min(HEAD);
        let at = index(slot);
        // SAFETY: `start` is readable for `len` bytes until the end of the round; `keep` has set them aside.
        let source = unsafe { core::slice::from_raw_parts(start, head) };
        self.heads[at].0[HEADROOM..HEADROOM + head].copy_from_slice(source);
        let slot_of = &mut self.metas[at];
        slot_of.meta.end = (HEADROOM + head) as u16;
        if len > head {
            slot_of.set_private(start.wrapping_add(head), (len - head) as u32);
        }
        Ok(Some(slot))
    }
}

impl<S: Simd> Burst<'_, S> {
    /// The tier it is received on.
    #[must_use]
    #[inline(always)]
    pub const fn simd(&self) -> S {
        self.simd
    }

    /// Slots that can still be taken.
    #[must_use]
    #[inline(always)]
    pub fn free(&self) -> usize {
        self.packets.free()
    }

    /// Bytes of the packets taken in so far, those taken in several at a time not counted.
    #[must_use]
    #[inline(always)]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Takes in a packet, or the first segment of one.
    ///
    /// # Errors
    /// [`NoSlot`] when all slots are taken: ask [`Burst::free`] before.
    ///
    /// # Safety
    /// `range` is of the regions that the burst was begun with: those are what is kept mapped until the round's end.
    #[inline(always)]
    pub unsafe fn packet(&mut self, range: CheckedRange<'_>) -> Result<(), NoSlot> {
        let at = self.packets.used;
        if at >= super::SLOTS {
            return Err(NoSlot);
        }
        self.packets.used = at + 1;
        let len = range.len() as usize;
        self.bytes += len as u64;
        let target = self.packets.heads[at].0[HEADROOM..HEADROOM + HEAD].as_mut_ptr();
        let slot = &mut self.packets.metas[at];
        *slot = self.template;
        // SAFETY: `range` was checked against its region, which `keep` holds mapped; the target is HEAD private
        // bytes and at most that many are copied. The sender may be writing: bytes are taken as they come, once.
        unsafe {
            if len == LINE {
                self.simd.copy_line(target, range.as_ptr());
            } else if len >= HEAD {
                self.simd.copy_line(target, range.as_ptr());
                self.simd.copy_line(target.add(LINE), range.as_ptr().add(LINE));
            } else {
                copy_head(self.simd, target, range.as_ptr(), len);
            }
        }
        if len <= HEAD {
            slot.meta.end = (HEADROOM + len) as u16;
        } else {
            slot.meta.end = (HEADROOM + HEAD) as u16;
            slot.first_start = range.as_ptr().wrapping_add(HEAD);
            slot.first_len = (len - HEAD) as u32;
            slot.meta.body_len = slot.first_len;
        }
        Ok(())
    }

    /// Takes in packets of `len` bytes, four at a time from where `next` says, up to `quads` times and as long as it says so.
    /// Gives how many.
    ///
    /// # Safety
    /// `len` isn't 0, and each address is readable for `len` bytes, and at least for as many whole lines as of it go into a
    /// head: [`Burst::reach`]. They are in the regions that the burst was begun with.
    #[inline(always)]
    pub unsafe fn alike(
        &mut self,
        len: u32,
        quads: usize,
        mut next: impl FnMut() -> Option<[*const u8; 4]>,
    ) -> usize {
        let from = self.packets.used;
        let end = from + 4 * quads.min(self.packets.free() / 4);
        let in_head = (len as usize).min(HEAD);
        let body = len - in_head as u32;
        let meta = Meta { end: (HEADROOM + in_head) as u16, body_len: body, ..self.template.meta };
        let slot = Slot { meta, first_len: body, ..self.template };
        // A line, not fifteen fields in as many registers: the compiler isn't to look inside.
        let slot: *const u8 = core::hint::black_box(ptr::from_ref(&slot)).cast();
        let (metas, _) = self.packets.metas.get_mut(from..end).unwrap_or_default().as_chunks_mut::<4>();
        let (heads, _) = self.packets.heads.get_mut(from..end).unwrap_or_default().as_chunks_mut::<4>();
        let mut done = 0;
        for (metas, heads) in metas.iter_mut().zip(heads) {
            let Some(starts) = next() else { break };
            for ((target, head), start) in metas.iter_mut().zip(heads).zip(starts) {
                // SAFETY: a slot is one line, plain data, and `target` is exclusive.
                unsafe { self.simd.copy_line(ptr::from_mut(target).cast(), slot) };
                let head = head.0[HEADROOM..HEADROOM + HEAD].as_mut_ptr();
                // SAFETY: as many lines as the caller promises are readable; the target is HEAD private bytes, two lines.
                // The sender may be writing: bytes are taken as they come, once. Those behind `len` are never looked at.
                unsafe {
                    self.simd.copy_line(head, start);
                    if in_head > LINE {
                        self.simd.copy_line(head.add(LINE), start.add(LINE));
                    }
                }
                if body > 0 {
                    target.first_start = start.wrapping_add(HEAD);
                }
            }
            done += 4;
        }
        self.packets.used = from + done;
        self.bytes += done as u64 * u64::from(len);
        done
    }

    /// Bytes that [`Burst::alike`] reads of the beginning of a packet of `len` bytes, or the packet is long.
    #[must_use]
    #[inline(always)]
    pub const fn reach(len: u32) -> u32 {
        match len as usize {
            HEAD.. => len,
            n if n > LINE => HEAD as u32,
            _ => LINE as u32,
        }
    }

    /// Takes in a further segment of the packet begun last. The head is filled up first, so that headers lie in
    /// it however the sender has cut the packet.
    ///
    /// # Safety
    /// As for [`Burst::packet`].
    pub unsafe fn segment(&mut self, range: CheckedRange<'_>) {
        if self.packets.used == self.first {
            return;
        }
        let at = self.packets.used - 1;
        let slot = &mut self.packets.metas[at];
        let mut start = range.as_ptr();
        let mut len = range.len() as usize;
        self.bytes += len as u64;
        let in_head = slot.meta.end as usize - HEADROOM;
        if in_head < HEAD {
            let n = len.min(HEAD - in_head);
            let target = self.packets.heads[at].0[HEADROOM + in_head..HEADROOM + in_head + n].as_mut_ptr();
            // SAFETY: as in `packet`; `n` bytes fit both sides.
            unsafe { ptr::copy_nonoverlapping(start, target, n) };
            slot.meta.end += n as u16;
            start = start.wrapping_add(n);
            len -= n;
        }
        if len == 0 {
            return;
        }
        if slot.first_len == 0 {
            slot.first_start = start;
            slot.first_len = len as u32;
        } else {
            if slot.more_count == 0 {
                slot.more_start = self.packets.segments.len() as u32;
            }
            self.packets.segments.push(Segment { start, len: len as u32 });
            slot.more_count += 1;
        }
        slot.meta.body_len += len as u32;
    }

    /// Ends the burst: the slots taken, in order of arrival, and the bytes in them.
    #[inline(always)]
    pub fn finish(self) -> (core::ops::Range<usize>, u64) {
        (self.first..self.packets.used, self.bytes)
    }
}

/// A head that isn't whole lines; apart, so that the loop over packets stays short.
///
/// # Safety
/// As [`Simd::copy`].
#[inline(never)]
unsafe fn copy_head<S: Simd>(simd: S, target: *mut u8, source: *const u8, len: usize) {
    simd.run(
        #[inline(always)]
        || {
            // SAFETY: as the caller promises.
            unsafe { simd.copy(target, source, len) }
        },
    );
}
