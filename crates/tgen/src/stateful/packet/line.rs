//! The first bytes of a frame, as numbers.

use crate::link::{Target, View};
use core::fmt::Debug;

/// Bytes of an IPv4 frame that are read and written as one; no Ethernet frame is shorter.
pub const LINE: usize = 64;

/// The first `8·N` bytes of a frame: word `n` is bytes 8·n to 8·n + 7, the first of them highest.
///
/// Words go from and to registers; bytes would be put together in memory first, in pieces that can't be read back as a
/// whole without waiting for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<const N: usize = 8>(pub [u64; N]);

/// A line of any length.
pub trait Head: Copy + Debug {
    /// Its bytes.
    const LEN: usize;

    /// From bytes; what is missing is zero, what is too much is left out.
    #[must_use]
    fn from_bytes(bytes: &[u8]) -> Self;

    /// The first line of a frame, with zeros where that ends within the last word; `None` where it is shorter.
    #[must_use]
    fn read<V: View>(frame: V) -> Option<Self>;

    /// Writes it to the beginning of a frame of `len` bytes, which is shorter by a word at most.
    fn write<T: Target>(&self, frame: T, len: usize);

    /// Its bytes.
    #[must_use]
    fn to_vec(&self) -> Vec<u8>;
}

impl<const N: usize> Line<N> {
    /// Word `n`.
    #[inline(always)]
    pub(super) const fn word(&self, n: usize) -> u64 {
        self.0[n]
    }
}

impl Line {
    /// As bytes.
    #[inline(always)]
    #[must_use]
    pub fn bytes(&self) -> [u8; LINE] {
        let mut line = [0; LINE];
        for (chunk, word) in line.as_chunks_mut::<8>().0.iter_mut().zip(self.0) {
            *chunk = word.to_be_bytes();
        }
        line
    }
}

#[inline(always)]
fn word_at<V: View>(frame: V, at: usize) -> u64 {
    let mut word = [0; 8];
    frame.array_at(at as u32, &mut word);
    u64::from_be_bytes(word)
}

impl<const N: usize> Head for Line<N> {
    const LEN: usize = 8 * N;

    fn from_bytes(bytes: &[u8]) -> Self {
        Self(core::array::from_fn(|n| {
            let mut word = [0; 8];
            for (to, from) in word.iter_mut().zip(bytes.iter().skip(8 * n)) {
                *to = *from;
            }
            u64::from_be_bytes(word)
        }))
    }

    #[inline(always)]
    fn read<V: View>(frame: V) -> Option<Self> {
        let size = frame.size() as usize;
        if size >= Self::LEN {
            return Some(Self(core::array::from_fn(|n| word_at(frame, 8 * n))));
        }
        // No frame of a length that Ethernet allows ends within the last word of a short line.
        let missing = Self::LEN - size;
        if Self::LEN == LINE || missing > 8 {
            return None;
        }
        let tail = word_at(frame, size - 8).checked_shl(8 * missing as u32).unwrap_or(0);
        Some(Self(core::array::from_fn(|n| if n + 1 < N { word_at(frame, 8 * n) } else { tail })))
    }

    #[inline(always)]
    fn write<T: Target>(&self, frame: T, len: usize) {
        let put = |at: usize, word: u64| frame.put_array(at as u32, &word.to_be_bytes());
        let whole = if Self::LEN == LINE || len >= Self::LEN { N } else { N - 1 };
        for n in 0..whole {
            put(8 * n, self.0[n]);
        }
        if whole < N {
            // The frame's last eight bytes once more, with what belongs to the last word.
            let missing = (8 * (Self::LEN - len)) as u32;
            let tail = u128::from(self.0[N - 2]) << 64 | u128::from(self.0[N - 1]);
            put(len - 8, (tail >> missing) as u64);
        }
    }

    fn to_vec(&self) -> Vec<u8> {
        self.0.iter().flat_map(|word| word.to_be_bytes()).collect()
    }
}
