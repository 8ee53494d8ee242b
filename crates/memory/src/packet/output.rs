//! Giving packets out: the one copy.

use super::slot::Segment;
use super::slots::{Packets, SlotId, index};
use crate::region::CheckedRange;
use crate::simd::Simd;
use core::ptr;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Segments that one system call takes; a packet of more is put together first.
const MAX_IOV: usize = 64;

impl Packets {
    /// Writes the whole packet, from the current header on, to `target`. False, and nothing written, where it is
    /// longer than that.
    #[must_use]
    #[inline(always)]
    pub fn write_to<S: Simd>(&self, simd: S, slot: SlotId, target: CheckedRange<'_>) -> bool {
        // Packets that come in great numbers are at most one line: that is the whole of the loop then.
        match self.short(slot) {
            Some(head) if head.len() <= target.len() as usize => {
                // SAFETY: `target` was checked against its region and has room for the head's bytes; the caller holds the
                // region mapped. The head is private, so exactly its bytes are written.
                unsafe {
                    if head.len() == 64 {
                        simd.copy_line(target.as_ptr(), head.as_ptr());
                    } else {
                        simd.copy(target.as_ptr(), head.as_ptr(), head.len());
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
        let (head, whole) = (self.head(slot), &self.metas[index(slot)]);
        if index(slot) >= self.used || whole.more_count > 0 {
            return self.write_segments(simd, slot, target);
        }
        let (n, body) = (head.len(), whole.first_len as usize);
        if n + body > target.len() as usize {
            return false;
        }
        simd.run(
            #[inline(always)]
            || {
                // SAFETY: `target` was checked against its region and has room for head and body; the caller holds the
                // region mapped. The head is private, so exactly its bytes are written, none of an earlier packet. A segment
                // of a packet of this round is readable until its end.
                unsafe {
                    simd.copy(target.as_ptr(), head.as_ptr(), n);
                    if body > 0 {
                        simd.copy(target.as_ptr().add(n), whole.first_start, body);
                    }
                }
            },
        );
        true
    }

    /// The same for packets in several segments.
    #[inline(never)]
    fn write_segments<S: Simd>(&self, simd: S, slot: SlotId, target: CheckedRange<'_>) -> bool {
        let all = self.segments(slot).fold(self.head(slot).len(), |all, segment| all + segment.len as usize);
        all <= target.len() as usize && self.pieces(slot).write(simd, target) as usize == all
    }

    /// The packet's bytes from the current header on, to be given out piece by piece. For packets that go into a chain of
    /// buffers.
    #[must_use]
    pub fn pieces(&self, slot: SlotId) -> Pieces<'_> {
        let head = self.head(slot);
        let (first, more) = self.body(slot);
        Pieces {
            now: Segment { start: head.as_ptr(), len: head.len() as u32 },
            in_head: true,
            first,
            more: more.iter(),
        }
    }

    /// Writes `prefix` and the packet to a file descriptor in one system call, without putting it together before.
    ///
    /// # Errors
    /// What `writev` returns; [`io::ErrorKind::WriteZero`] where the kernel took only a part.
    pub fn write_fd(&mut self, slot: SlotId, prefix: &[u8], fd: impl AsFd) -> io::Result<usize> {
        if self.body(slot).1.len() + 3 > MAX_IOV {
            self.pull_body(slot).map_err(io::Error::other)?;
        }
        let head = self.head(slot);
        let parts = [(prefix.as_ptr(), prefix.len()), (head.as_ptr(), head.len())];
        let body = self.segments(slot).map(|segment| (segment.start, segment.len as usize));
        // No slices: who sent the packet may write its bytes meanwhile, and only the kernel reads them.
        let mut vector = [libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 }; MAX_IOV];
        let mut count = 0;
        let mut all = 0;
        for ((start, len), place) in parts.into_iter().chain(body).filter(|part| part.1 > 0).zip(&mut vector)
        {
            *place = libc::iovec { iov_base: start.cast_mut().cast(), iov_len: len };
            count += 1;
            all += len;
        }
        // SAFETY: each part is readable until the end of the round, and none is written.
        let written = unsafe { libc::writev(fd.as_fd().as_raw_fd(), vector.as_ptr(), count) };
        match usize::try_from(written) {
            Err(_) => Err(io::Error::last_os_error()),
            Ok(n) if n == all => Ok(n),
            Ok(n) => {
                Err(io::Error::new(io::ErrorKind::WriteZero, format!("{n} of {all} bytes were written")))
            }
        }
    }
}

/// Who copies bodies where packets are given out.
pub trait Bodies {
    /// Whether bodies may be copied later. Where not, heads and bodies are copied alike, by one loop.
    const LATER: bool = true;

    /// Copies bytes of a body, now or later.
    ///
    /// # Safety
    /// `from` must be readable and `to` writable for `len` bytes, from any thread; where [`LATER`](Self::LATER), until this one is done.
    unsafe fn copy<S: Simd>(&mut self, simd: S, to: *mut u8, from: *const u8, len: usize);
}

/// Copies at once.
struct AtOnce;

impl Bodies for AtOnce {
    const LATER: bool = false;

    #[inline(always)]
    unsafe fn copy<S: Simd>(&mut self, simd: S, to: *mut u8, from: *const u8, len: usize) {
        // SAFETY: as the caller promises.
        unsafe { simd.copy(to, from, len) }
    }
}

/// What is left of a packet that is given out piece by piece: it goes on where the last piece ended, so that the cost is the number of
/// the packet's pieces and of the buffers together, however small somebody has made either. Made by [`Packets::pieces`].
#[derive(Debug, Clone)]
pub struct Pieces<'p> {
    /// What is left of the piece that was begun.
    now: Segment,
    /// That is the head.
    in_head: bool,
    /// The body's first segment, until it is begun.
    first: Segment,
    more: core::slice::Iter<'p, Segment>,
}

impl Pieces<'_> {
    /// Writes the next bytes to `target`, as many as fit, and returns how many: fewer where the packet ends.
    pub fn write<S: Simd>(&mut self, simd: S, target: CheckedRange<'_>) -> u32 {
        // SAFETY: nothing is copied later.
        unsafe { self.write_by(simd, target, &mut AtOnce) }
    }

    /// [`write`](Self::write), with the body copied by somebody: it is there when that one says so, and until then nobody may be told of
    /// it. The head is written at once.
    ///
    /// # Safety
    /// Where `bodies` copies later: until it is done, the packet's body must be [lent](Packets::lend), and the target's region mapped.
    pub unsafe fn write_by<S: Simd, B: Bodies>(
        &mut self,
        simd: S,
        target: CheckedRange<'_>,
        bodies: &mut B,
    ) -> u32 {
        simd.run(
            #[inline(always)]
            || {
                let mut done = 0;
                while done < target.len() {
                    if self.now.len == 0 && !self.begin_next() {
                        break;
                    }
                    let n = self.now.len.min(target.len() - done);
                    // SAFETY: the head is borrowed, and segments are readable until the end of the round, as long as they are;
                    // `done + n` bytes are writable at the target; both for longer, as the caller promises, where that is needed.
                    unsafe {
                        let to = target.as_ptr().add(done as usize);
                        if B::LATER && !self.in_head {
                            bodies.copy(simd, to, self.now.start, n as usize);
                        } else {
                            simd.copy(to, self.now.start, n as usize);
                        }
                    }
                    self.now =
                        Segment { start: self.now.start.wrapping_add(n as usize), len: self.now.len - n };
                    done += n;
                }
                done
            },
        )
    }

    /// Goes on to the next piece; false where there is none.
    #[inline(always)]
    fn begin_next(&mut self) -> bool {
        self.now = core::mem::replace(&mut self.first, Segment::NONE);
        self.in_head = false;
        while self.now.len == 0 {
            let Some(next) = self.more.next() else { return false };
            self.now = *next;
        }
        true
    }
}
