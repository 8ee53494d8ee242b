//! What somebody else knows of sessions, beside the table.

use super::Handle;
use super::table::NONE;
use crate::chunked::Chunked;

/// Sessions of a chunk.
const CHUNK: usize = 64;

#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct Entry<T> {
    /// Of the session that it is known of.
    generation: u32,
    value: T,
}

/// Entries of a group.
const GROUP: usize = 8;

/// Some of them, which begin with a cache line: so none of 8, 16, 32 or 64 bytes lies across two.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(64))]
struct Group<T>([Entry<T>; GROUP]);

/// A `T` for each session that is asked for, by number: what a service keeps. The table needn't know of it: a session that
/// has another's number is told apart by its generation, and begins with a default.
///
/// Memory is taken in chunks of 64 sessions, where one of them is asked for: a vector whose packets all want another one clears less than a MiB
/// of values of 48 bytes.
#[derive(Clone, Debug)]
pub struct Beside<T> {
    /// Where each chunk's groups begin among all of them; [`NONE`] where it hasn't any. Chunks lie one behind the other whichever
    /// sessions they are of, so that large pages hold them.
    chunks: Vec<u32>,
    groups: Chunked<Group<T>, { (1 << 24) / GROUP }>,
}

impl<T> Default for Beside<T> {
    fn default() -> Self {
        Self { chunks: Vec::new(), groups: Chunked::default() }
    }
}

impl<T: Copy + Default> Beside<T> {
    /// Bytes of memory it has taken.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.groups.bytes()
    }

    /// What is known of that session, if anything is.
    #[inline(always)]
    #[must_use]
    pub fn get(&self, session: Handle) -> Option<&T> {
        let at = session.index as usize;
        let entry = self.entry(at)?;
        (entry.generation == session.generation).then_some(&entry.value)
    }

    /// Tells `soon` the cache line that begins what is known of the session of that number, whichever had it, for a prefetch.
    #[inline(always)]
    pub fn soon(&self, session: u32, soon: impl Fn(*const u8)) {
        if let Some(entry) = self.entry(session as usize) {
            soon(core::ptr::from_ref(entry).cast());
        }
    }

    /// What is known of the session that was seen last under that number, whichever it is.
    #[inline(always)]
    #[must_use]
    pub fn peek(&self, session: u32) -> Option<&T> {
        self.entry(session as usize).map(|entry| &entry.value)
    }

    /// Which group has a session; one that isn't there where none has.
    #[inline(always)]
    fn group(&self, at: usize) -> usize {
        self.chunks.get(at / CHUNK).map_or(usize::MAX, |first| *first as usize + at % CHUNK / GROUP)
    }

    #[inline(always)]
    fn entry(&self, at: usize) -> Option<&Entry<T>> {
        self.groups.get(self.group(at)).map(|Group(entries)| &entries[at % GROUP])
    }

    #[inline(always)]
    fn entry_mut(&mut self, at: usize) -> Option<&mut Entry<T>> {
        let group = self.group(at);
        self.groups.get_mut(group).map(|Group(entries)| &mut entries[at % GROUP])
    }

    /// The same to change; a default where nothing is known yet, and whether that is so. `None` where there is no memory.
    #[inline(always)]
    #[must_use]
    pub fn get_mut(&mut self, session: Handle) -> Option<(&mut T, bool)> {
        let at = session.index as usize;
        if self.chunks.get(at / CHUNK).is_none_or(|first| *first == NONE) {
            self.grow(at / CHUNK);
        }
        let entry = self.entry_mut(at)?;
        let fresh = entry.generation != session.generation;
        if fresh {
            *entry = Entry { generation: session.generation, value: T::default() };
        }
        Some((&mut entry.value, fresh))
    }

    /// The same where something is known already.
    #[inline(always)]
    #[must_use]
    pub fn known(&mut self, session: Handle) -> Option<&mut T> {
        self.get(session)?;
        self.get_mut(session).map(|(value, _)| value)
    }

    /// Nothing is known of that session any more.
    pub fn reset(&mut self, session: Handle) {
        if self.get(session).is_some()
            && let Some(entry) = self.entry_mut(session.index as usize)
        {
            *entry = Entry::default();
        }
    }

    #[cold]
    fn grow(&mut self, chunk: usize) {
        if self.chunks.len() <= chunk {
            self.chunks.resize(chunk + 1, NONE);
        }
        self.chunks[chunk] = self.groups.len() as u32;
        (0..CHUNK / GROUP).for_each(|_| self.groups.push(Group::default()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_of_a_session_goes_with_it() {
        let mut beside = Beside::<[u32; 7]>::default();
        let (first, later) = (Handle { index: 9000, generation: 1 }, Handle { index: 9000, generation: 3 });
        assert_eq!((beside.get(first), beside.bytes()), (None, 0));
        assert_eq!(beside.get_mut(first), Some((&mut [0; 7], true)));
        *beside.get_mut(first).unwrap().0 = [7; 7];
        assert_eq!(beside.get(first), Some(&[7; 7]));
        let lines = |session| {
            let told = core::cell::Cell::new(None);
            beside.soon(session, |line| told.set(Some(line.addr() % 64)));
            told.get()
        };
        assert_eq!([9000, 9001, 9002, 4000, u32::MAX].map(lines), [Some(0), Some(32), Some(0), None, None]);
        assert_eq!((beside.peek(9000), beside.peek(4000)), (Some(&[7; 7]), None));
        assert_eq!(beside.get_mut(first), Some((&mut [7; 7], false)));
        assert_eq!(beside.get(later), None, "another session has its number now");
        assert_eq!(beside.get_mut(later), Some((&mut [0; 7], true)));
        assert_eq!(beside.get(first), None);
        assert_eq!(
            beside.bytes(),
            (CHUNK * 32).next_multiple_of(4096),
            "nothing is taken for those before it"
        );
        *beside.get_mut(later).unwrap().0 = [8; 7];
        assert_eq!(beside.known(later), Some(&mut [8; 7]));
        assert_eq!(beside.known(first), None);
        beside.reset(first);
        assert_eq!(beside.get(later), Some(&[8; 7]), "that is another session");
        beside.reset(later);
        assert_eq!(beside.get(later), None);
        assert_eq!(beside.get_mut(later), Some((&mut [0; 7], true)));
        beside.reset(Handle { index: 100_000, generation: 1 });
        let mut small = Beside::<[u8; 4]>::default();
        small.get_mut(first).unwrap().0[3] = 1;
        assert_eq!(small.bytes(), (CHUNK * 8).next_multiple_of(4096), "as much as it is");
        // Chunks in any order.
        for index in [500_000, 0, 20_000, 499_999, 9000] {
            *small.get_mut(Handle { index, generation: 1 }).unwrap().0 = index.to_le_bytes();
        }
        for index in [500_000, 0, 20_000, 499_999, 9000] {
            assert_eq!(small.get(Handle { index, generation: 1 }), Some(&index.to_le_bytes()));
        }
        assert_eq!(small.get(Handle { index: 100_000, generation: 1 }), None);
    }
}
