//! A growing array that doesn't move what it holds once that is much.
//!
//! A `Vec` that outgrows its memory copies all of it: tens of milliseconds for a million sessions, in which a worker's
//! rings overflow. Here, an array of more than 256 KiB lies in memory that is reserved for as many elements as there may be, which costs
//! nothing before it is filled. One piece of it, so that an element is found by one addition, and that large pages can hold it.
//!
//! What is filled next is [told](crate::backing) a few steps of 2 MiB before. The first one isn't: few elements take no more memory than they need.

use crate::backing::{self, STEP};

/// Bytes of an array that is still moved as it grows.
const SMALL: usize = 256 << 10;
/// Bytes of an ordinary page.
const PAGE: usize = 4096;

/// Elements of `T`, for `MOST` of which memory is reserved.
#[derive(Clone, Debug)]
pub(crate) struct Chunked<T, const MOST: usize = { 1 << 24 }> {
    all: Vec<T>,
    /// How many elements there are when there is something to do before the next one.
    mark: usize,
    /// How many were told ahead.
    told: usize,
}

impl<T, const MOST: usize> Default for Chunked<T, MOST> {
    fn default() -> Self {
        Self { all: Vec::new(), mark: Self::SMALL, told: Self::IN_STEP }
    }
}

impl<T, const MOST: usize> Chunked<T, MOST> {
    /// Elements of a step, and of an array that is small.
    const IN_STEP: usize = STEP / size_of::<T>();
    const SMALL: usize = SMALL / size_of::<T>();

    /// Elements.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Bytes of memory that it has used, in whole pages.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&self.all[..]).next_multiple_of(PAGE)
    }

    /// Appends an element.
    #[inline]
    pub(crate) fn push(&mut self, element: T) {
        if self.all.len() == self.mark {
            self.step();
        }
        self.all.push(element);
    }

    /// Before an array's first element that isn't small any more, and before a step's.
    #[cold]
    #[inline(never)]
    fn step(&mut self) {
        let len = self.all.len();
        if len < Self::IN_STEP {
            // Where the system doesn't reserve that much: half of it, and so on. An array that outgrows that is moved, as a `Vec` is.
            let mut more = MOST.saturating_sub(len);
            while more > 0 && self.all.try_reserve_exact(more).is_err() {
                more /= 2;
            }
            self.mark = Self::IN_STEP;
            return;
        }
        self.mark = len + Self::IN_STEP;
        let ahead = backing::ahead(len / Self::IN_STEP) * Self::IN_STEP;
        let (from, to) = (self.told.max(len), self.mark + ahead);
        let room = self.all.spare_capacity_mut();
        if let Some(next) = room.get(from - len..(to - len).min(room.len())) {
            let range = next.as_ptr_range();
            backing::hint(range.start.cast()..range.end.cast());
        }
        self.told = to;
    }

    /// Element number `at`.
    #[inline(always)]
    pub(crate) fn get(&self, at: usize) -> Option<&T> {
        self.all.get(at)
    }

    /// [`Chunked::get`], to change.
    #[inline(always)]
    pub(crate) fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        self.all.get_mut(at)
    }
}

impl<T, const MOST: usize> core::ops::Index<usize> for Chunked<T, MOST> {
    type Output = T;

    #[inline(always)]
    fn index(&self, at: usize) -> &T {
        &self.all[at]
    }
}

impl<T, const MOST: usize> core::ops::IndexMut<usize> for Chunked<T, MOST> {
    #[inline(always)]
    fn index_mut(&mut self, at: usize) -> &mut T {
        &mut self.all[at]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of 64 bytes, so that steps are of 32 768.
    type Line = [u64; 8];

    fn holds(all: &Chunked<Line, 100_000>) -> bool {
        (0..all.len()).all(|n| all[n][0] == n as u64) && all.get(all.len()).is_none()
    }

    #[test]
    fn grows_without_moving_what_is_much() {
        let mut all = Chunked::<Line, 100_000>::default();
        assert_eq!((all.len(), all.get(0), all.bytes()), (0, None, 0));
        all.push([0; 8]);
        assert_eq!(all.bytes(), PAGE, "few take little");
        (1..=32_768).for_each(|n| all.push([n; 8]));
        let first = std::ptr::from_ref(all.get(0).unwrap());
        (32_769..100_000).for_each(|n| all.push([n; 8]));
        assert_eq!(std::ptr::from_ref(all.get(0).unwrap()), first);
        assert_eq!((all.len(), all.bytes()), (100_000, (100_000 * 64usize).next_multiple_of(PAGE)));
        // More than there should be find room all the same.
        (100_000..200_000).for_each(|n| all.push([n; 8]));
        assert!(holds(&all));
        all.get_mut(4097).unwrap()[0] = 9;
        all[4098][0] = 10;
        assert_eq!([4097, 4098].map(|n| all[n][0]), [9, 10]);
    }

    #[test]
    fn goes_on_as_a_copy() {
        let mut all = Chunked::<Line, 100_000>::default();
        (0..40_000).for_each(|n| all.push([n; 8]));
        let mut copy = all.clone();
        (40_000..90_000).for_each(|n| copy.push([n; 8]));
        assert!(holds(&all) && holds(&copy));
    }
}
