//! Bytes of frames, wherever they lie: in a ring's buffers, in several of them, or in private memory.

use memif::region::CheckedRange;

/// Where a frame is written to. It is exactly as long as the frame.
pub trait Target: Copy {
    /// Writes `N` bytes at `at`.
    fn put_array<const N: usize>(self, at: u32, bytes: &[u8; N]);

    /// Writes bytes at `at`.
    fn put(self, at: u32, bytes: &[u8]);
}

impl Target for CheckedRange<'_> {
    #[inline(always)]
    fn put_array<const N: usize>(self, at: u32, bytes: &[u8; N]) {
        // It is as long as the frame.
        let _ = self.write_array_at(at, bytes);
    }

    #[inline(always)]
    fn put(self, at: u32, bytes: &[u8]) {
        self.write_at(at, bytes);
    }
}

/// Several buffers that hold one frame.
impl Target for &[CheckedRange<'_>] {
    #[inline]
    fn put_array<const N: usize>(self, at: u32, bytes: &[u8; N]) {
        self.put(at, bytes);
    }

    #[inline]
    fn put(self, mut at: u32, mut bytes: &[u8]) {
        for part in self {
            if at < part.len() {
                let done = part.write_at(at, bytes);
                bytes = bytes.get(done..).unwrap_or_default();
                if bytes.is_empty() {
                    return;
                }
            }
            at = at.saturating_sub(part.len());
        }
    }
}

/// Private memory.
impl Target for &[core::cell::Cell<u8>] {
    #[inline]
    fn put_array<const N: usize>(self, at: u32, bytes: &[u8; N]) {
        self.put(at, bytes);
    }

    #[inline]
    fn put(self, at: u32, bytes: &[u8]) {
        for (place, byte) in self.iter().skip(at as usize).zip(bytes) {
            place.set(*byte);
        }
    }
}

/// A received frame.
pub trait View: Copy {
    /// Bytes.
    fn size(self) -> u32;

    /// Copies the `N` bytes at `at`; false, and nothing read, where the frame ends before.
    fn array_at<const N: usize>(self, at: u32, into: &mut [u8; N]) -> bool;

    /// Copies bytes from `at` on; gives how many: as many as there are and fit.
    fn copy_at(self, at: u32, into: &mut [u8]) -> usize;
}

impl View for CheckedRange<'_> {
    #[inline(always)]
    fn size(self) -> u32 {
        self.len()
    }

    #[inline(always)]
    fn array_at<const N: usize>(self, at: u32, into: &mut [u8; N]) -> bool {
        self.read_array_at(at, into)
    }

    #[inline(always)]
    fn copy_at(self, at: u32, into: &mut [u8]) -> usize {
        self.read_at(at, into)
    }
}

/// A frame in several buffers.
#[derive(Clone, Copy, Debug)]
pub struct Parts<'a> {
    /// The buffers.
    pub parts: &'a [CheckedRange<'a>],
    /// Bytes in all of them.
    pub len: u32,
}

impl View for Parts<'_> {
    fn size(self) -> u32 {
        self.len
    }

    #[inline]
    fn array_at<const N: usize>(self, at: u32, into: &mut [u8; N]) -> bool {
        u64::from(at) + N as u64 <= u64::from(self.len) && self.copy_at(at, into) == N
    }

    #[inline]
    fn copy_at(self, mut at: u32, into: &mut [u8]) -> usize {
        let mut done = 0;
        for part in self.parts {
            if at < part.len() {
                done += part.read_at(at, into.get_mut(done..).unwrap_or_default());
            }
            at = at.saturating_sub(part.len());
        }
        done
    }
}

impl View for &[u8] {
    fn size(self) -> u32 {
        self.len() as u32
    }

    #[inline]
    fn array_at<const N: usize>(self, at: u32, into: &mut [u8; N]) -> bool {
        let found = self.get(at as usize..).and_then(|rest| rest.first_chunk());
        found.map(|found| *into = *found).is_some()
    }

    #[inline]
    fn copy_at(self, at: u32, into: &mut [u8]) -> usize {
        let rest = self.get(at as usize..).unwrap_or_default();
        let n = rest.len().min(into.len());
        into[..n].copy_from_slice(&rest[..n]);
        n
    }
}
