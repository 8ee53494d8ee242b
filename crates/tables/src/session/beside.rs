//! What somebody else knows of sessions, beside the table.

use super::Handle;

/// Sessions of a chunk.
const CHUNK: usize = 4096;

#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct Entry<T> {
    /// Of the session that it is known of.
    generation: u32,
    value: T,
}

/// A `T` for each session that is asked for, by number: what a service keeps. The table needn't know of it: a session that
/// has another's number is told apart by its generation, and begins with a default.
///
/// Memory is taken in chunks of 4096 sessions, where one of them is asked for.
#[derive(Clone, Debug)]
pub struct Beside<T> {
    chunks: Vec<Option<Box<[Entry<T>; CHUNK]>>>,
}

impl<T> Default for Beside<T> {
    fn default() -> Self {
        Self { chunks: Vec::new() }
    }
}

impl<T: Copy + Default> Beside<T> {
    /// Bytes of memory it has taken.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.chunks.iter().flatten().count() * CHUNK * size_of::<Entry<T>>()
    }

    /// What is known of that session, if anything is.
    #[inline(always)]
    #[must_use]
    pub fn get(&self, session: Handle) -> Option<&T> {
        let at = session.index as usize;
        let entry = &self.chunks.get(at / CHUNK)?.as_ref()?[at % CHUNK];
        (entry.generation == session.generation).then_some(&entry.value)
    }

    /// Reads a word of what is known of the session of that number, whichever had it: by passes over a vector, none of which waits for one
    /// packet before it looks at the next, what is wanted later is fetched.
    #[inline(always)]
    #[must_use]
    pub fn touch(&self, session: u32) -> u32 {
        let at = session as usize;
        let chunk = self.chunks.get(at / CHUNK).and_then(Option::as_ref);
        chunk.map_or(0, |chunk| chunk[at % CHUNK].generation)
    }

    /// The same to change; a default where nothing is known yet, and whether that is so. `None` where there is no memory.
    #[inline(always)]
    #[must_use]
    pub fn get_mut(&mut self, session: Handle) -> Option<(&mut T, bool)> {
        let at = session.index as usize;
        if !matches!(self.chunks.get(at / CHUNK), Some(Some(_))) {
            self.grow(at / CHUNK)?;
        }
        let entry = &mut self.chunks.get_mut(at / CHUNK)?.as_mut()?[at % CHUNK];
        let fresh = entry.generation != session.generation;
        if fresh {
            *entry = Entry { generation: session.generation, value: T::default() };
        }
        Some((&mut entry.value, fresh))
    }

    #[cold]
    fn grow(&mut self, chunk: usize) -> Option<()> {
        if self.chunks.len() <= chunk {
            self.chunks.resize_with(chunk + 1, || None);
        }
        self.chunks[chunk] = Some(vec![Entry::default(); CHUNK].into_boxed_slice().try_into().ok()?);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_of_a_session_goes_with_it() {
        let mut beside = Beside::<u32>::default();
        let (first, later) = (Handle { index: 9000, generation: 1 }, Handle { index: 9000, generation: 3 });
        assert_eq!((beside.get(first), beside.bytes()), (None, 0));
        assert_eq!(beside.get_mut(first), Some((&mut 0, true)));
        *beside.get_mut(first).unwrap().0 = 7;
        assert_eq!(beside.get(first), Some(&7));
        assert_eq!((beside.touch(9000), beside.touch(9001), beside.touch(u32::MAX)), (1, 0, 0));
        assert_eq!(beside.get_mut(first), Some((&mut 7, false)));
        assert_eq!(beside.get(later), None, "another session has its number now");
        assert_eq!(beside.get_mut(later), Some((&mut 0, true)));
        assert_eq!(beside.get(first), None);
        assert_eq!(beside.bytes(), CHUNK * 8, "nothing is taken for those before it");
    }
}
