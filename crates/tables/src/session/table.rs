//! The table.

use super::bucket::{SLOTS, tag};
use super::buckets::Buckets;
use super::{Key, Seed};
use crate::chunked::Chunked;

/// In a list of sessions: there is none.
pub const NONE: u32 = u32::MAX;

/// Names a session for good: once it has been removed the handle refers to nothing, also when another one is in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle {
    /// Its number.
    pub index: u32,
    /// Which of the sessions that have had this number.
    pub generation: u32,
}

/// The table holds as many sessions as it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the session table is full")]
pub struct Full;

/// Where an insertion has led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inserted {
    /// A session of that number is new.
    New(u32),
    /// There was one with this key; it is as it was.
    There(u32),
}

#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(64))]
struct Entry<V> {
    key: Key,
    /// Odd while a session is here.
    generation: u32,
    /// The free entry after this one.
    next: u32,
    value: V,
}

impl<V> Entry<V> {
    #[inline(always)]
    const fn lives(&self) -> bool {
        self.generation & 1 != 0
    }
}

/// Sessions by their key. What `V` begins with (16 bytes) is on the cache line of the key, the rest on the next one.
#[derive(Clone, Debug)]
pub struct SessionTable<V> {
    seed: Seed,
    buckets: Buckets,
    entries: Chunked<Entry<V>>,
    free: u32,
    len: usize,
    limit: usize,
}

impl<V: Copy + Default> SessionTable<V> {
    /// An empty table for at most `limit` sessions (and 2^32 − 2). It takes memory as it fills.
    #[must_use]
    pub fn new(seed: Seed, limit: usize) -> Self {
        const { assert!(size_of::<Entry<V>>() <= 128, "a session is two cache lines") };
        let (buckets, entries) = Default::default();
        let mut table = Self { seed, buckets, entries, free: NONE, len: 0, limit };
        table.set_limit(limit);
        table
    }

    /// Sessions.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no session.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Sessions that there may be.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Changes how many sessions there may be. Where there are more, they stay.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit.min(NONE as usize - 1);
    }

    /// Bytes of memory it has taken.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.buckets.bytes() + self.entries.bytes()
    }

    /// Hash of a key, as the other calls want it.
    #[inline(always)]
    #[must_use]
    pub const fn hash(&self, key: &Key) -> u32 {
        self.seed.hash(key)
    }

    /// Looks a vector's keys up: the number of each one's session or [`NONE`], and its hash. `touch` reads what the caller will
    /// want of a session behind its first 16 bytes.
    ///
    /// In passes over the vector, none of which waits for one packet before it looks at the next. Passes that only read a word of
    /// each line come before those that work on it: their turns are so short that the processor has as many lines on their way
    /// as it can have at all, which is what a prefetch would do.
    ///
    /// # Panics
    /// If the lists are not as long as `keys`.
    #[inline(always)]
    pub fn lookup(&self, keys: &[Key], hashes: &mut [u32], found: &mut [u32], touch: impl Fn(&V) -> u64) {
        let (hashes, found) = (&mut hashes[..keys.len()], &mut found[..keys.len()]);
        for (key, hash) in keys.iter().zip(hashes.iter_mut()) {
            *hash = self.hash(key);
        }
        let mut read = 0;
        for hash in &*hashes {
            read ^= u64::from(self.buckets.home(*hash).more);
        }
        for (hash, found) in hashes.iter().zip(found.iter_mut()) {
            *found = self.buckets.home(*hash).candidate(tag(*hash));
        }
        for found in &*found {
            if let Some(entry) = self.entries.get(*found as usize) {
                read ^= u64::from(entry.generation) ^ touch(&entry.value);
            }
        }
        // Else nobody would want what was read, and it wouldn't be.
        core::hint::black_box(read);
        for ((key, hash), found) in keys.iter().zip(&*hashes).zip(found) {
            let right = self.entries.get(*found as usize).is_some_and(|entry| entry.key == *key);
            if !right {
                *found = self.find(key, *hash).unwrap_or(NONE);
            }
        }
    }

    /// The number of the session with that key.
    #[must_use]
    pub fn find(&self, key: &Key, hash: u32) -> Option<u32> {
        let mut bucket = self.buckets.home(hash);
        loop {
            let mut slots = bucket.matches(tag(hash));
            while slots != 0 {
                let session = bucket.sessions[slots.trailing_zeros() as usize % SLOTS];
                if self.entries.get(session as usize).is_some_and(|entry| entry.key == *key) {
                    return Some(session);
                }
                slots &= slots - 1;
            }
            bucket = self.buckets.behind(bucket)?;
        }
    }

    /// Adds a session, unless there is one with that key.
    ///
    /// # Errors
    /// [`Full`] where there are as many as there may be.
    pub fn insert(&mut self, key: Key, hash: u32, value: V) -> Result<Inserted, Full> {
        if let Some(there) = self.find(&key, hash) {
            return Ok(Inserted::There(there));
        }
        if self.len >= self.limit {
            return Err(Full);
        }
        let (entries, seed) = (&self.entries, &self.seed);
        self.buckets
            .grow(self.len, |session| entries.get(session as usize).map_or(0, |entry| seed.hash(&entry.key)));
        let index = self.take_entry();
        if let Some(entry) = self.entries.get_mut(index as usize) {
            entry.generation = entry.generation.wrapping_add(1);
            (entry.key, entry.value) = (key, value);
        }
        self.buckets.insert(hash, index);
        self.len += 1;
        Ok(Inserted::New(index))
    }

    /// Removes the session of that number and gives what was known of it.
    pub fn remove(&mut self, index: u32) -> Option<(Key, V)> {
        let entry = self.entries.get(index as usize).filter(|entry| entry.lives())?;
        let (key, value) = (entry.key, entry.value);
        self.buckets.remove(self.seed.hash(&key), index);
        let free = self.free;
        if let Some(entry) = self.entries.get_mut(index as usize) {
            entry.generation = entry.generation.wrapping_add(1);
            entry.next = free;
        }
        self.free = index;
        self.len -= 1;
        Some((key, value))
    }

    /// What is known of the session of that number.
    #[inline(always)]
    #[must_use]
    pub fn get(&self, index: u32) -> Option<&V> {
        self.entries.get(index as usize).filter(|entry| entry.lives()).map(|entry| &entry.value)
    }

    /// [`SessionTable::get`], to change.
    #[inline(always)]
    #[must_use]
    pub fn get_mut(&mut self, index: u32) -> Option<&mut V> {
        self.entries.get_mut(index as usize).filter(|entry| entry.lives()).map(|entry| &mut entry.value)
    }

    /// The session of that number, to change: its handle, its key, and what is known of it.
    #[inline(always)]
    #[must_use]
    pub fn visit(&mut self, index: u32) -> Option<(Handle, &Key, &mut V)> {
        let entry = self.entries.get_mut(index as usize).filter(|entry| entry.lives())?;
        Some((Handle { index, generation: entry.generation }, &entry.key, &mut entry.value))
    }

    /// The key of the session of that number.
    #[must_use]
    pub fn key(&self, index: u32) -> Option<Key> {
        self.entries.get(index as usize).filter(|entry| entry.lives()).map(|entry| entry.key)
    }

    /// A handle of the session of that number.
    #[must_use]
    pub fn handle(&self, index: u32) -> Option<Handle> {
        let entry = self.entries.get(index as usize).filter(|entry| entry.lives())?;
        Some(Handle { index, generation: entry.generation })
    }

    /// The number of the session that `handle` names, if it is still there.
    #[must_use]
    pub fn resolve(&self, handle: Handle) -> Option<u32> {
        (self.handle(handle.index)? == handle).then_some(handle.index)
    }

    /// Numbers of the sessions that lie at `from` and behind, in no particular order, a part at a time: of at most `span`
    /// places, and where to go on. `None` when there is nothing behind.
    pub fn walk(&self, from: u32, span: u32) -> (impl Iterator<Item = u32> + '_, Option<u32>) {
        let all = u32::try_from(self.entries.len()).unwrap_or(NONE);
        let end = from.saturating_add(span).min(all);
        ((from..end).filter(|index| self.get(*index).is_some()), (end < all).then_some(end))
    }

    fn take_entry(&mut self) -> u32 {
        let index = self.free;
        if let Some(entry) = self.entries.get(index as usize) {
            self.free = entry.next;
            return index;
        }
        self.entries.push(Entry::default());
        (self.entries.len() - 1) as u32
    }
}
