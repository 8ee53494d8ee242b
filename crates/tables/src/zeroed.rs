//! Large zeroed memory that starts on a cache line and costs nothing until it is touched.

#[cfg(not(loom))]
pub(crate) use zerocopy::FromZeros as Zeroed;

/// Types whose all-zero state is a value; loom's atomics have no bytes, but a default.
#[cfg(loom)]
pub(crate) trait Zeroed: Default {}
#[cfg(loom)]
impl<T: Default> Zeroed for T {}

/// Bytes of a cache line on every machine we run on.
pub(crate) const LINE: usize = 64;

/// A fixed slice of `T` (all zero) whose first element lies on a cache-line boundary.
///
/// A type with `align(64)` would give the same layout, but the system allocator then clears the memory by writing
/// it, which makes every page resident. Memory of the natural alignment comes from the kernel already zero and
/// page by page; so the slice is allocated a line longer and entered at the first boundary.
#[derive(Debug)]
pub(crate) struct LineAligned<T> {
    memory: Box<[T]>,
    skew: usize,
    len: usize,
}

impl<T: Zeroed> LineAligned<T> {
    /// `len` zeroed elements, or `None` where the system refuses the reservation.
    pub(crate) fn zeroed(len: usize) -> Option<Self> {
        let slack = LINE.div_ceil(size_of::<T>());
        #[cfg(not(loom))]
        let memory = <[T]>::new_box_zeroed_with_elems(len.checked_add(slack)?).ok()?;
        #[cfg(loom)]
        let memory: Box<[T]> = (0..len.checked_add(slack)?).map(|_| T::default()).collect();
        let skew = memory.as_ptr().align_offset(LINE).min(slack);
        Some(Self { memory, skew, len })
    }

    /// The elements.
    #[inline]
    pub(crate) fn as_slice(&self) -> &[T] {
        &self.memory[self.skew..self.skew + self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

    #[test]
    fn starts_on_a_line_and_is_zero() {
        for len in [1, 16, 1000, 1 << 20] {
            let words = LineAligned::<AtomicU32>::zeroed(len).unwrap();
            assert_eq!(words.as_slice().len(), len);
            assert_eq!(words.as_slice().as_ptr().addr() % LINE, 0);
            assert!(words.as_slice().iter().all(|word| word.load(Ordering::Relaxed) == 0));
        }
        assert_eq!(LineAligned::<AtomicU64>::zeroed(8).unwrap().as_slice().as_ptr().addr() % LINE, 0);
    }

    #[test]
    fn an_impossible_size_is_refused() {
        assert!(LineAligned::<AtomicU64>::zeroed(usize::MAX).is_none());
    }
}
