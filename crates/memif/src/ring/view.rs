//! A ring at a checked place of a region.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

use memory::region::{RegionTable, prefetch_read, prefetch_write, receive_faults};
use memory::simd::{Line, Simd};

use super::{Descriptor, Fault, Indices, RingSize};

/// Value of a ring's first word.
pub const COOKIE: u32 = 0x03E3_1F20;
/// Bytes before the first descriptor.
pub const RING_HEADER: u32 = 128;

const FLAGS: usize = 4;
const HEAD: usize = 6;
const TAIL: usize = 64;
const DESCRIPTOR: usize = 16;
/// What the offset of a ring is a multiple of.
pub const RING_ALIGNMENT: u32 = 64;
const _: () =
    assert!(RING_HEADER.is_multiple_of(RING_ALIGNMENT) && RING_ALIGNMENT as usize == size_of::<Line>());
/// Descriptors in a cache line.
const QUAD: u16 = 4;

/// Why a ring can't be where the peer says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RingError {
    /// Not wholly inside one of the regions.
    #[error("ring of {descriptors} descriptors at offset {offset} is not inside region {region}")]
    Outside {
        /// Index of the region.
        region: u16,
        /// Offset in the region, in bytes.
        offset: u32,
        /// Size of the ring.
        descriptors: u16,
    },
    /// Not on a 64-byte boundary.
    #[error("ring at offset {0} is not aligned to 64 bytes")]
    Misaligned(u32),
    /// Its first word is not the cookie.
    #[error("wrong cookie {0:#x} on ring")]
    Cookie(u32),
}

/// A ring in shared memory. Layout: cookie u32 @0, flags u16 @4, head u16 @6, tail u16 @64, descriptors @128.
///
/// All access is by atomics of the words' own sizes: the peer may write any of them at any time.
#[derive(Debug, Clone)]
pub struct RingView {
    base: NonNull<u8>,
    size: RingSize,
    table: Arc<RegionTable>,
}

// SAFETY: `base` points into a region that `table` keeps mapped, and is only used for atomic accesses.
unsafe impl Send for RingView {}
// SAFETY: as for `Send`.
unsafe impl Sync for RingView {}

impl RingView {
    /// The ring at `offset` of `region`, if it lies inside and is aligned. Its contents are not looked at.
    ///
    /// # Errors
    /// [`RingError::Outside`], [`RingError::Misaligned`].
    pub fn new(table: Arc<RegionTable>, region: u16, offset: u32, size: RingSize) -> Result<Self, RingError> {
        let range = table.check(region, offset, Self::bytes(size)).ok_or(RingError::Outside {
            region,
            offset,
            descriptors: size.descriptors(),
        })?;
        if !offset.is_multiple_of(RING_ALIGNMENT) {
            return Err(RingError::Misaligned(offset));
        }
        let base = NonNull::new(range.as_ptr()).ok_or(RingError::Misaligned(offset))?;
        Ok(Self { base, size, table })
    }

    /// Bytes of a ring with its header; a multiple of 64.
    #[must_use]
    pub const fn bytes(size: RingSize) -> u32 {
        RING_HEADER + size.descriptors() as u32 * DESCRIPTOR as u32
    }

    /// The regions its descriptors refer to.
    #[inline(always)]
    #[must_use]
    pub const fn table(&self) -> &Arc<RegionTable> {
        &self.table
    }

    /// Number of descriptors.
    #[inline(always)]
    #[must_use]
    pub const fn size(&self) -> RingSize {
        self.size
    }

    /// Writes cookie, and zero to flags, head and tail: what the owner of the memory does before it announces
    /// the ring.
    pub fn initialise(&self) {
        self.cookie_word().store(COOKIE, Ordering::Relaxed);
        for word in [FLAGS, HEAD, TAIL] {
            self.word(word).store(0, Ordering::Relaxed);
        }
    }

    /// Checks the cookie.
    ///
    /// # Errors
    /// [`RingError::Cookie`].
    pub fn check_cookie(&self) -> Result<(), RingError> {
        match self.cookie_word().load(Ordering::Relaxed) {
            COOKIE => Ok(()),
            other => Err(RingError::Cookie(other)),
        }
    }

    /// The fault to tell of: where pages were taken away in the middle of a walk, the zeros in their place look like
    /// something else.
    #[cold]
    pub(super) fn blame(&self, fault: Fault) -> Fault {
        if self.table.lost() { Fault::MemoryLost } else { fault }
    }

    /// The shared words. Whoever has to do with the ring begins here, so that its thread survives what the peer does to the memory.
    #[inline(always)]
    #[must_use]
    pub(crate) fn indices(&self) -> Indices<'_, AtomicU16> {
        receive_faults();
        Indices { head: self.word(HEAD), tail: self.word(TAIL), flags: self.word(FLAGS) }
    }

    /// The descriptors.
    #[inline(always)]
    #[must_use]
    pub(crate) fn descriptors(&self) -> Descriptors<'_> {
        // Descriptors are only accessed through these atomics here; that the peer's accesses are atomic, too, can't be
        // had, but then only the values suffer.
        // SAFETY: `new` found the ring inside a region that `table` keeps mapped: its header (128 bytes) and behind it `size`
        // descriptors of 16 bytes, which keep the 8-byte alignment of base (64).
        let words = unsafe {
            let first = self.base.add(RING_HEADER as usize).cast();
            std::slice::from_raw_parts(first.as_ptr(), self.size.descriptors().into())
        };
        Descriptors(words)
    }

    /// The header word at one of FLAGS, HEAD, TAIL.
    #[inline(always)]
    fn word(&self, at: usize) -> &AtomicU16 {
        debug_assert!(matches!(at, FLAGS | HEAD | TAIL));
        // SAFETY: the offsets are even and inside the 128-byte header, for which all of the reasons in `descriptors` hold.
        unsafe { self.base.add(at).cast().as_ref() }
    }

    fn cookie_word(&self) -> &AtomicU32 {
        receive_faults();
        // SAFETY: the first word of the header, 64-byte aligned, for which all of the reasons in `descriptors` hold.
        unsafe { self.base.cast().as_ref() }
    }
}

/// The descriptors of a ring: what its loops keep in registers.
#[derive(Debug, Clone, Copy)]
pub struct Descriptors<'r>(&'r [[AtomicU64; 2]]);

impl<'r> Descriptors<'r> {
    /// Reads the descriptor of the slot of this index, each half of it once.
    #[inline(always)]
    #[must_use]
    pub fn get(self, index: u16) -> Descriptor {
        let [first, second] = self.slot(index);
        Descriptor::from_words(first.load(Ordering::Relaxed), second.load(Ordering::Relaxed))
    }

    /// Whether flags, region and length of a slot are these.
    #[inline(always)]
    #[must_use]
    pub fn has_length(self, index: u16, descriptor: Descriptor) -> bool {
        self.slot(index)[0].load(Ordering::Relaxed) == descriptor.first_word()
    }

    /// Writes flags, region and length of a slot.
    #[inline(always)]
    pub fn set_length(self, index: u16, descriptor: Descriptor) {
        let [first, _] = self.slot(index);
        first.store(descriptor.first_word(), Ordering::Relaxed);
    }

    /// Writes flags, region and length of a slot, and the rest where that isn't there already: whose descriptors the peer writes, too.
    #[inline(always)]
    pub fn renew(self, index: u16, descriptor: Descriptor) {
        let [first, second] = self.slot(index);
        first.store(descriptor.first_word(), Ordering::Relaxed);
        if second.load(Ordering::Relaxed) != descriptor.second_word() {
            second.store(descriptor.second_word(), Ordering::Relaxed);
        }
    }

    /// Writes all of a slot's descriptor.
    #[inline(always)]
    pub fn set(self, index: u16, descriptor: Descriptor) {
        let [first, second] = self.slot(index);
        first.store(descriptor.first_word(), Ordering::Relaxed);
        second.store(descriptor.second_word(), Ordering::Relaxed);
    }

    /// Number of descriptors, a power of two.
    #[inline(always)]
    #[must_use]
    pub const fn count(self) -> u16 {
        self.0.len() as u16
    }

    /// Whether the slot of this index is the first of its cache line.
    #[inline(always)]
    #[must_use]
    pub const fn begins_line(self, index: u16) -> bool {
        index.is_multiple_of(QUAD)
    }

    /// Offsets in the line of the slot of this index, from whatever stands there: only for hints.
    #[inline(always)]
    pub(super) fn offsets(self, index: u16) -> [u32; QUAD as usize] {
        let first = index & !(QUAD - 1);
        std::array::from_fn(|at| self.get(first.wrapping_add(at as u16)).offset)
    }

    /// Writes flags, region and length of all slots in the line of the slot of this index.
    #[inline(always)]
    pub(super) fn set_lengths(self, simd: impl Simd, index: u16, descriptor: Descriptor) {
        let first = usize::from(index & !(QUAD - 1)) & (self.0.len() - 1);
        if let Some(line) = self.0.get(first..).and_then(<[_]>::first_chunk) {
            simd.store_firsts(line, descriptor.first_word());
        }
    }

    /// Prefetches the line of the slot of this index, to be read.
    #[inline(always)]
    pub fn prefetch_read(self, index: u16) {
        prefetch_read(std::ptr::from_ref(self.slot(index)).cast());
    }

    /// Prefetches the line of the slot of this index, to be written.
    #[inline(always)]
    pub fn prefetch_write(self, index: u16) {
        prefetch_write(std::ptr::from_ref(self.slot(index)).cast());
    }

    /// Reads the line of the slot of this index, once: what the peer writes meanwhile may be seen or not.
    #[inline(always)]
    pub(super) fn read_line(self, simd: impl Simd, index: u16) -> Line {
        let first = self.slot(index & !(QUAD - 1));
        // SAFETY: a ring has a multiple of QUAD slots, so QUAD descriptors, 64 bytes, are there from `first` on; a ring is aligned to
        // that, and its descriptors begin at a multiple of it.
        unsafe { simd.read_line(std::ptr::from_ref(first).cast()) }
    }

    #[inline(always)]
    fn slot(self, index: u16) -> &'r [AtomicU64; 2] {
        let at = usize::from(index) & (self.0.len() - 1);
        // SAFETY: a ring's size is a power of two and not 0, so `at` is below it.
        unsafe { self.0.get_unchecked(at) }
    }
}
