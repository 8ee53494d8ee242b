//! A checked range of a region: the only way to its bytes.

use std::marker::PhantomData;
use std::ptr::{self, NonNull};

/// `len` bytes of a region that were found to lie inside it.
///
/// Plain data, two words. It can't outlive the [`RegionTable`](super::RegionTable) it came from. Copies never
/// form a reference into the region: the peer may change the bytes at any time, also during a copy.
#[derive(Debug, Clone, Copy)]
pub struct CheckedRange<'t> {
    ptr: NonNull<u8>,
    len: u32,
    table: PhantomData<&'t super::RegionTable>,
}

// SAFETY: a range is an address in process-wide memory that stays mapped for 't; it refers to no Rust place.
unsafe impl Send for CheckedRange<'_> {}
// SAFETY: as for `Send`.
unsafe impl Sync for CheckedRange<'_> {}

impl CheckedRange<'_> {
    /// # Safety
    /// `ptr..ptr+len` lies inside one region that stays mapped, readable and writable, for the lifetime of
    /// the range.
    #[inline(always)]
    pub(crate) const unsafe fn new(ptr: NonNull<u8>, len: u32) -> Self {
        Self { ptr, len, table: PhantomData }
    }

    /// The same range without the bond to its table, to be kept beside an `Arc` of it.
    ///
    /// # Safety
    /// The table must live for as long as the result (or a copy of it) is used for anything.
    #[inline(always)]
    #[must_use]
    pub const unsafe fn detach(self) -> CheckedRange<'static> {
        CheckedRange { ptr: self.ptr, len: self.len, table: PhantomData }
    }

    /// Bytes.
    #[inline(always)]
    #[must_use]
    pub const fn len(self) -> u32 {
        self.len
    }

    /// Whether it has no bytes.
    #[inline(always)]
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.len == 0
    }

    /// First byte. Safe to have: to go through it, these hold:
    /// it is valid for reads and writes of [`len`](Self::len) bytes while the table lives (keep its `Arc`),
    /// the peer may change the bytes at any time (so no `&` or `&mut` may be formed, and what decides
    /// something is read once, by an atomic or volatile access), and two ranges may overlap if the peer
    /// wishes so.
    #[inline(always)]
    #[must_use]
    pub const fn as_ptr(self) -> *mut u8 {
        self.ptr.as_ptr()
    }

    /// The part of it from `at`, `len` bytes; `None` if that is not inside.
    #[inline]
    #[must_use]
    pub const fn part(self, at: u32, len: u32) -> Option<Self> {
        if at > self.len || len > self.len - at {
            return None;
        }
        // SAFETY: at + len ≤ self.len, so the part is inside the same region, for the same lifetime.
        Some(unsafe { Self::new(self.ptr.add(at as usize), len) })
    }

    /// Copies bytes from `at` into `into`; gives how many: as many as there are and fit.
    #[inline]
    pub fn read_at(self, at: u32, into: &mut [u8]) -> usize {
        let n = into.len().min(self.len.saturating_sub(at) as usize);
        if n > 0 {
            // SAFETY: n > 0 means at < len, and at + n ≤ len, so the source is inside the mapped region; the
            // target is n bytes of private memory that can't overlap it. A concurrent writer can only change
            // which bytes are copied.
            unsafe { ptr::copy_nonoverlapping(self.ptr.as_ptr().add(at as usize), into.as_mut_ptr(), n) };
        }
        n
    }

    /// Copies from the start into `into`; gives how many bytes.
    #[inline]
    pub fn read(self, into: &mut [u8]) -> usize {
        self.read_at(0, into)
    }

    /// Copies `from` into the range, beginning at `at`; gives how many bytes: as many as there are and fit.
    #[inline]
    pub fn write_at(self, at: u32, from: &[u8]) -> usize {
        let n = from.len().min(self.len.saturating_sub(at) as usize);
        if n > 0 {
            // SAFETY: as in `read_at`, the other way round.
            unsafe { ptr::copy_nonoverlapping(from.as_ptr(), self.ptr.as_ptr().add(at as usize), n) };
        }
        n
    }

    /// Copies `from` to the start of the range; gives how many bytes.
    #[inline]
    pub fn write(self, from: &[u8]) -> usize {
        self.write_at(0, from)
    }

    /// Copies `N` bytes to the start, a few vector moves where `N` is a few lines. False, and nothing written, where the
    /// range is shorter.
    #[inline(always)]
    #[must_use]
    pub fn write_array<const N: usize>(self, from: &[u8; N]) -> bool {
        let fits = self.len as usize >= N;
        if fits {
            // SAFETY: the range is valid for N bytes; see `write_at`.
            unsafe { ptr::copy_nonoverlapping(from.as_ptr(), self.ptr.as_ptr(), N) };
        }
        fits
    }

    /// [`write_array`](Self::write_array) at `at`.
    #[inline(always)]
    pub fn write_array_at<const N: usize>(self, at: u32, from: &[u8; N]) -> bool {
        let fits = u64::from(at) + N as u64 <= u64::from(self.len);
        if fits {
            // SAFETY: N bytes from `at` on lie inside the range; see `write_at`.
            unsafe { ptr::copy_nonoverlapping(from.as_ptr(), self.ptr.as_ptr().add(at as usize), N) };
        }
        fits
    }

    /// Copies the `N` bytes at `at` into `into`. False, and nothing read, where the range ends before.
    #[inline(always)]
    pub fn read_array_at<const N: usize>(self, at: u32, into: &mut [u8; N]) -> bool {
        let fits = u64::from(at) + N as u64 <= u64::from(self.len);
        if fits {
            // SAFETY: N bytes from `at` on lie inside the range; see `read_at`.
            unsafe { ptr::copy_nonoverlapping(self.ptr.as_ptr().add(at as usize), into.as_mut_ptr(), N) };
        }
        fits
    }

    /// Copies as much as fits into another range, which may overlap this one; gives how many bytes.
    #[inline]
    pub fn copy_to(self, into: CheckedRange<'_>) -> u32 {
        let n = self.len.min(into.len);
        // SAFETY: both ranges are valid for n bytes; `copy` allows them to overlap.
        unsafe { ptr::copy(self.ptr.as_ptr(), into.ptr.as_ptr(), n as usize) };
        n
    }
}
