//! What somebody else knows of sessions, beside the table.

use super::Handle;
use crate::chunked::Chunked;

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
/// It takes as much memory as the highest number asked for needs, in chunks.
#[derive(Clone, Debug)]
pub struct Beside<T> {
    entries: Chunked<Entry<T>>,
}

impl<T> Default for Beside<T> {
    fn default() -> Self {
        Self { entries: Chunked::default() }
    }
}

impl<T: Copy + Default> Beside<T> {
    /// Bytes of memory it has taken.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.entries.bytes()
    }

    /// What is known of that session, if anything is.
    #[inline(always)]
    #[must_use]
    pub fn get(&self, session: Handle) -> Option<&T> {
        let entry = self.entries.get(session.index as usize)?;
        (entry.generation == session.generation).then_some(&entry.value)
    }

    /// The same to change; a default where nothing is known yet, and whether that is so. `None` where there can't be a
    /// session of that number.
    #[inline(always)]
    #[must_use]
    pub fn get_mut(&mut self, session: Handle) -> Option<(&mut T, bool)> {
        let at = session.index as usize;
        if at >= self.entries.len() {
            self.grow(at);
        }
        let entry = self.entries.get_mut(at)?;
        let fresh = entry.generation != session.generation;
        if fresh {
            *entry = Entry { generation: session.generation, value: T::default() };
        }
        Some((&mut entry.value, fresh))
    }

    #[cold]
    fn grow(&mut self, at: usize) {
        if at < super::NONE as usize {
            while self.entries.len() <= at {
                self.entries.push(Entry::default());
            }
        }
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
        assert_eq!((beside.get(first), beside.get_mut(first)), (Some(&7), Some((&mut 7, false))));
        assert_eq!(beside.get(later), None, "another session has its number now");
        assert_eq!(beside.get_mut(later), Some((&mut 0, true)));
        assert_eq!(beside.get(first), None);
        assert_eq!(beside.bytes(), 3 * 4096 * 8);
        assert_eq!(beside.get_mut(Handle { index: super::super::NONE, generation: 1 }), None);
    }
}
