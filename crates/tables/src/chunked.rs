//! A growing array that never moves what it holds.
//!
//! A `Vec` that outgrows its memory copies all of it: tens of milliseconds for a million sessions, in which a worker's
//! rings overflow. Here a step of growth is one chunk, and an element's address stays.

/// Elements of a chunk; a power of two, so that a look-up is a shift, a mask and one load from a small list.
const CHUNK: usize = 4096;

/// Elements of `T` in chunks.
#[derive(Clone, Debug)]
pub(crate) struct Chunked<T> {
    chunks: Vec<Box<[T; CHUNK]>>,
    len: usize,
}

impl<T> Default for Chunked<T> {
    fn default() -> Self {
        Self { chunks: Vec::new(), len: 0 }
    }
}

impl<T: Clone + Default> Chunked<T> {
    /// Elements.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Bytes of memory it has taken.
    pub(crate) fn bytes(&self) -> usize {
        self.chunks.len() * CHUNK * size_of::<T>()
    }

    /// Appends an element.
    pub(crate) fn push(&mut self, element: T) {
        if self.len == self.chunks.len() * CHUNK
            && let Ok(chunk) = vec![T::default(); CHUNK].into_boxed_slice().try_into()
        {
            self.chunks.push(chunk);
        }
        self.len += 1;
        if let Some(place) = self.get_mut(self.len - 1) {
            *place = element;
        }
    }

    /// Element number `at`; beyond the last one a default or nothing.
    #[inline(always)]
    pub(crate) fn get(&self, at: usize) -> Option<&T> {
        self.chunks.get(at / CHUNK).map(|chunk| &chunk[at % CHUNK])
    }

    /// [`Chunked::get`], to change.
    #[inline(always)]
    pub(crate) fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        self.chunks.get_mut(at / CHUNK).map(|chunk| &mut chunk[at % CHUNK])
    }
}

impl<T> core::ops::Index<usize> for Chunked<T> {
    type Output = T;

    #[inline(always)]
    fn index(&self, at: usize) -> &T {
        &self.chunks[at / CHUNK][at % CHUNK]
    }
}

impl<T> core::ops::IndexMut<usize> for Chunked<T> {
    #[inline(always)]
    fn index_mut(&mut self, at: usize) -> &mut T {
        &mut self.chunks[at / CHUNK][at % CHUNK]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_without_moving_anything() {
        let mut all = Chunked::<u64>::default();
        assert_eq!((all.len(), all.get(0), all.bytes()), (0, None, 0));
        all.push(7);
        let first = std::ptr::from_ref(all.get(0).unwrap());
        (1..3 * CHUNK as u64).for_each(|n| all.push(n));
        assert_eq!(std::ptr::from_ref(all.get(0).unwrap()), first);
        assert_eq!((all.len(), all.bytes()), (3 * CHUNK, 3 * CHUNK * 8));
        *all.get_mut(CHUNK + 1).unwrap() = 9;
        assert_eq!((all.get(0), all.get(CHUNK + 1), all.get(CHUNK + 2)), (Some(&7), Some(&9), Some(&4098)));
        assert_eq!(all.get(3 * CHUNK), None);
    }
}
