//! Private memory of a worker for one round, bounded and returned to the system.

use core::ptr::NonNull;
use core::slice;

/// A list of chunks that never move, allocated from front to back and reset at the end of the round.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    chunks: Vec<Chunk>,
    chunk: usize,
    used: usize,
}

/// Size of a chunk: the largest packet (64 KiB and its link header) with room for small ones behind it.
const CHUNK: usize = 256 * 1024;
/// The largest piece that can be requested.
pub(crate) const SCRATCH_MAX: usize = 128 * 1024;
/// Chunks of one round, at most (64 MiB). A round receives 256 packets of 64 KiB, which take 22 MiB.
const LIMIT: usize = 256;
/// Chunks that stay allocated between rounds (8 MiB).
const KEPT: usize = 32;
/// Chunks that one round returns to the system, at most: unmapping all of them would delay the next round.
const RETURNED: usize = 8;

impl Scratch {
    /// Frees all pieces. Returns chunks beyond [`KEPT`] that the round didn't need to the system, some in each round.
    #[inline]
    pub(crate) fn reset(&mut self) {
        if self.chunks.len() > KEPT {
            self.shrink();
        }
        self.chunk = 0;
        self.used = 0;
    }

    #[cold]
    #[inline(never)]
    fn shrink(&mut self) {
        let needed = if self.used == 0 { self.chunk } else { self.chunk + 1 };
        let len = self.chunks.len();
        self.chunks.truncate(needed.max(KEPT).max(len - RETURNED));
    }

    /// A piece of `len` bytes whose address stays valid until `reset`. `None` if `len` exceeds [`SCRATCH_MAX`], if the round
    /// has used [`LIMIT`] chunks, or if the system has no memory.
    pub(crate) fn piece(&mut self, len: usize) -> Option<&mut [u8]> {
        if len > SCRATCH_MAX {
            return None;
        }
        let (chunk, used) =
            if self.used + len > CHUNK { (self.chunk + 1, 0) } else { (self.chunk, self.used) };
        if chunk == self.chunks.len() {
            if chunk == LIMIT {
                return None;
            }
            self.chunks.push(Chunk::new()?);
        }
        (self.chunk, self.used) = (chunk, used);
        // SAFETY: pieces that were kept in this round lie before `used`; a piece that wasn't kept is a borrow of `self`,
        // which has ended.
        unsafe { self.chunks[chunk].piece(used, len) }
    }

    /// Keeps the first `len` bytes of the piece handed out last; without this the next piece is the same memory.
    pub(crate) fn keep(&mut self, len: usize) {
        // Lines of their own: what one packet's copy writes isn't what another's reads.
        self.used = (self.used + len).next_multiple_of(64).min(CHUNK);
    }

    /// Bytes that are allocated.
    pub(crate) fn allocated(&self) -> usize {
        self.chunks.len() * CHUNK
    }
}

/// An anonymous mapping of [`CHUNK`] bytes. Not from the heap, which doesn't return freed memory of this size to the system.
/// No reference to all of it is ever made, so that pieces handed out earlier stay valid.
#[derive(Debug)]
struct Chunk(NonNull<u8>);

// SAFETY: it is the only owner of its bytes.
unsafe impl Send for Chunk {}

impl Chunk {
    #[cfg(all(target_os = "linux", not(miri)))]
    fn new() -> Option<Self> {
        use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping where the system chooses; nothing that exists is changed.
        let start = unsafe { mmap_anonymous(core::ptr::null_mut(), CHUNK, access, MapFlags::PRIVATE) };
        NonNull::new(start.ok()?.cast()).map(Self)
    }

    #[cfg(any(not(target_os = "linux"), miri))]
    fn new() -> Option<Self> {
        let bytes: Box<[u8; CHUNK]> = vec![0; CHUNK].into_boxed_slice().try_into().ok()?;
        NonNull::new(Box::into_raw(bytes).cast()).map(Self)
    }

    /// `len` bytes from `from` on, if the chunk has so many.
    ///
    /// # Safety
    /// Nothing else refers to these bytes.
    unsafe fn piece(&mut self, from: usize, len: usize) -> Option<&mut [u8]> {
        if len > CHUNK.checked_sub(from)? {
            return None;
        }
        // SAFETY: the range is inside the chunk, and the caller promises that nothing else refers to it.
        Some(unsafe { slice::from_raw_parts_mut(self.0.as_ptr().add(from), len) })
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        #[cfg(all(target_os = "linux", not(miri)))]
        // SAFETY: `new` mapped these bytes; pieces end with the round, and chunks are dropped at its end at the earliest.
        let _ = unsafe { rustix::mm::munmap(self.0.as_ptr().cast(), CHUNK) };
        #[cfg(any(not(target_os = "linux"), miri))]
        // SAFETY: `new` took it from a box; pieces end with the round, and chunks are dropped at its end at the earliest.
        drop(unsafe { Box::from_raw(self.0.as_ptr().cast::<[u8; CHUNK]>()) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(scratch: &mut Scratch, pieces: usize) -> usize {
        (0..pieces)
            .take_while(|number| {
                let Some(piece) = scratch.piece(SCRATCH_MAX) else { return false };
                piece[0] = *number as u8;
                scratch.keep(SCRATCH_MAX);
                true
            })
            .count()
    }

    #[test]
    fn a_round_gets_no_more_than_its_limit() {
        let mut scratch = Scratch::default();
        let per_chunk = CHUNK / SCRATCH_MAX;
        assert_eq!(fill(&mut scratch, 10 * LIMIT), LIMIT * per_chunk);
        assert!(scratch.piece(1).is_none() && scratch.piece(SCRATCH_MAX).is_none());
        scratch.reset();
        assert_eq!(fill(&mut scratch, 10 * LIMIT), LIMIT * per_chunk);
    }

    #[test]
    fn memory_of_a_burst_is_returned_a_little_in_each_round() {
        let mut scratch = Scratch::default();
        fill(&mut scratch, 10 * LIMIT);
        scratch.reset();
        assert_eq!(scratch.allocated(), LIMIT * CHUNK, "this round needed it");
        let mut before = scratch.allocated();
        let mut rounds = 0;
        while before > KEPT * CHUNK {
            scratch.reset();
            let now = scratch.allocated();
            assert!(now < before && before - now <= RETURNED * CHUNK);
            (before, rounds) = (now, rounds + 1);
        }
        assert_eq!(rounds, (LIMIT - KEPT) / RETURNED);
        scratch.reset();
        assert_eq!(scratch.allocated(), KEPT * CHUNK);
    }

    #[test]
    fn rounds_that_need_the_memory_keep_it() {
        let mut scratch = Scratch::default();
        let pieces = (KEPT + 20) * CHUNK / SCRATCH_MAX;
        for _ in 0..5 {
            assert_eq!(fill(&mut scratch, pieces), pieces);
            scratch.reset();
            assert_eq!(scratch.allocated(), (KEPT + 20) * CHUNK);
        }
    }

    #[test]
    fn a_chunk_that_could_not_be_had_changes_nothing() {
        let mut scratch = Scratch::default();
        fill(&mut scratch, LIMIT * CHUNK / SCRATCH_MAX - 1);
        let small = scratch.piece(100).map(|piece| piece.as_ptr());
        assert!(small.is_some() && scratch.piece(SCRATCH_MAX).is_some());
        scratch.keep(SCRATCH_MAX);
        assert!(scratch.piece(100).is_none());
    }
}
