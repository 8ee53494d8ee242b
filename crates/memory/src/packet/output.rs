//! Giving packets out: the one copy.

use super::slots::{Packets, SlotId};
use crate::region::CheckedRange;
use crate::simd::Simd;
use core::ptr;
use rustix::io::IoSlice;
use std::io;
use std::os::fd::AsFd;

/// Segments that one system call takes; a packet of more is put together first.
const MAX_IOV: usize = 64;

impl Packets {
    /// Writes the whole packet, from the current header on, to `target`. False, and nothing written, where it is
    /// longer than that.
    #[must_use]
    #[inline(always)]
    pub fn write_to<S: Simd>(&self, simd: S, slot: SlotId, target: CheckedRange<'_>) -> bool {
        // Packets that come in great numbers are at most one line: that is the whole of the loop then.
        match self.short_len(slot) {
            Some(len) if len <= target.len() => {
                let head = self.head(slot);
                // SAFETY: `target` was checked against its region and has room for `len` bytes, which the head has; the
                // caller holds the region mapped. The head is private, so exactly its bytes are written.
                unsafe {
                    if len == 64 {
                        simd.copy_line(target.as_ptr(), head.as_ptr());
                    } else {
                        simd.copy(target.as_ptr(), head.as_ptr(), len as usize);
                    }
                }
                true
            }
            _ => self.write_any(simd, slot, target),
        }
    }

    /// [`Packets::write_to`] for packets of any length.
    #[inline(never)]
    fn write_any<S: Simd>(&self, simd: S, slot: SlotId, target: CheckedRange<'_>) -> bool {
        let m = self.meta(slot);
        if m.len() > target.len() {
            return false;
        }
        let head = self.head(slot);
        let n = head.len();
        simd.run(
            #[inline(always)]
            || {
                // SAFETY: `target` was checked against its region and has room for head and body; the caller holds the
                // region mapped. The head is private, so exactly its bytes are written, none of an earlier packet.
                unsafe { simd.copy(target.as_ptr(), head.as_ptr(), n) };
                if m.first_len == 0 {
                    return;
                }
                // SAFETY: segments are readable until the end of the round and together `body_len` long.
                unsafe {
                    let mut to = target.as_ptr().add(n);
                    simd.copy(to, m.first_start, m.first_len as usize);
                    to = to.add(m.first_len as usize);
                    if m.more_count > 0 {
                        for segment in self.segments(slot).skip(1) {
                            simd.copy(to, segment.start, segment.len as usize);
                            to = to.add(segment.len as usize);
                        }
                    }
                }
            },
        );
        true
    }

    /// Writes the packet's bytes from `offset` on to `target`, as many as fit, and returns how many. For packets
    /// that go into a chain of buffers.
    pub fn write_part<S: Simd>(&self, simd: S, slot: SlotId, offset: u32, target: CheckedRange<'_>) -> u32 {
        let head = self.head(slot);
        let mut skip = offset as usize;
        let mut done = 0;
        let room = target.len() as usize;
        let first = (head.as_ptr(), head.len());
        let rest = self.segments(slot).map(|segment| (segment.start, segment.len as usize));
        for (start, len) in core::iter::once(first).chain(rest) {
            let ahead = skip.min(len);
            skip -= ahead;
            let n = (len - ahead).min(room - done);
            // SAFETY: `ahead + n <= len` bytes are readable there; `done + n <= room` bytes are writable.
            unsafe { simd.copy(target.as_ptr().add(done), start.add(ahead), n) };
            done += n;
            if done == room {
                break;
            }
        }
        done as u32
    }

    /// Writes `prefix` and the packet to a file descriptor in one system call, without putting it together before.
    ///
    /// # Errors
    /// What `writev` returns; [`io::ErrorKind::WriteZero`] where the kernel took only a part.
    pub fn write_fd(&mut self, slot: SlotId, prefix: &[u8], fd: impl AsFd) -> io::Result<usize> {
        if self.meta(slot).more_count as usize + 3 > MAX_IOV {
            self.pull_body(slot).map_err(io::Error::other)?;
        }
        let mut slices = [IoSlice::new(&[]); MAX_IOV];
        let mut count = 0;
        let head = self.head(slot);
        let ranges = self.segments(slot).map(|segment| (segment.start, segment.len as usize));
        let parts = [(prefix.as_ptr(), prefix.len()), (head.as_ptr(), head.len())];
        for (start, len) in parts.into_iter().chain(ranges).filter(|part| part.1 > 0) {
            // SAFETY: readable until the end of the round. The slice is only handed to the kernel, which copies
            // from it; nothing here reads it, so that a sender who writes meanwhile changes bytes, not meaning.
            slices[count] = IoSlice::new(unsafe { &*ptr::slice_from_raw_parts(start, len) });
            count += 1;
        }
        let all = prefix.len() + self.meta(slot).len() as usize;
        match rustix::io::writev(fd, &slices[..count])? {
            n if n == all => Ok(n),
            n => Err(io::Error::new(io::ErrorKind::WriteZero, format!("{n} of {all} bytes were written"))),
        }
    }
}
