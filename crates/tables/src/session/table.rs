//! The table.

use super::alias::{Alias, FIRST};
use super::bucket::{Bucket, SLOTS, tag};
use super::buckets::Buckets;
use super::{Key, Seed};
use crate::chunked::Chunked;

/// Bytes of a cache line.
pub(super) const LINE: usize = 64;

/// In a list of sessions: there is none.
pub const NONE: u32 = u32::MAX;

/// What a packet's session is looked up by, and what the steps of that have led to so far.
#[derive(Clone, Copy, Debug)]
pub struct Look<M> {
    /// The packet's key.
    pub key: Key,
    /// Its hash, behind the first step.
    pub hash: u32,
    /// The number of the session that it most likely has, behind the second one, or [`NONE`].
    pub session: u32,
    /// The caller's.
    pub mark: M,
}

impl<M> Look<M> {
    /// Before the first step.
    #[inline(always)]
    #[must_use]
    pub const fn new(key: Key, mark: M) -> Self {
        Self { key, hash: 0, session: NONE, mark }
    }
}

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

/// A session is found by that key already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a session has that key")]
pub struct Taken;

/// Where an insertion has led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inserted {
    /// A session of that number is new.
    New(u32),
    /// What is found by this key already: a session, or another key of one. It is as it was.
    There(u32),
}

/// Two cache lines. The first is all that is read for a packet of IPv4: its key, and what `V` begins with.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(64))]
pub(super) struct Entry<V> {
    /// The key, but for [`Entry::more`].
    key: [u64; 2],
    /// Odd while a session is here.
    pub(super) generation: u32,
    /// The free entry after this one.
    next: u32,
    value: V,
    /// The rest of a key of IPv6.
    more: [u64; 3],
}

impl<V> Entry<V> {
    #[inline(always)]
    const fn lives(&self) -> bool {
        self.generation & 1 != 0
    }

    #[inline(always)]
    pub(super) fn key(&self) -> Key {
        Key::of_parts(self.key, &self.more)
    }

    /// Whether that is its key.
    #[inline(always)]
    fn has(&self, key: &Key) -> bool {
        let (head, more) = key.parts();
        self.key == head && (key.is_v4() || self.more == more)
    }
}

/// Sessions by their key. What `V` begins with (40 bytes) is on the cache line of the key, the rest on the next one.
#[derive(Clone, Debug)]
pub struct SessionTable<V> {
    pub(super) seed: Seed,
    pub(super) buckets: Buckets,
    pub(super) entries: Chunked<Entry<V>>,
    free: u32,
    pub(super) aliases: Chunked<Alias>,
    pub(super) free_alias: u32,
    len: usize,
    limit: usize,
}

impl<V: Copy + Default> SessionTable<V> {
    /// An empty table for at most `limit` sessions (and 2^31 − 1). It takes memory as it fills.
    #[must_use]
    pub fn new(seed: Seed, limit: usize) -> Self {
        const { assert!(size_of::<Entry<V>>() <= 128, "a session is two cache lines") };
        let (buckets, entries, aliases) = Default::default();
        let mut table = Self { seed, buckets, entries, free: NONE, aliases, free_alias: NONE, len: 0, limit };
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
        self.limit = limit.min(FIRST as usize - 1);
    }

    /// Bytes of memory it has taken.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.buckets.bytes() + self.entries.bytes() + self.aliases.bytes()
    }

    /// Hash of a key, as the other calls want it.
    #[inline(always)]
    #[must_use]
    pub const fn hash(&self, key: &Key) -> u32 {
        self.seed.hash(key)
    }

    /// Looking up, first step: hashes. `soon` is told each cache line that the next step reads, for a prefetch.
    ///
    /// Three steps, so that whoever has other packets to deal with between them waits for none of the lines: the last one is
    /// [`SessionTable::visit_if`].
    #[inline(always)]
    pub fn hashes<M>(&self, looks: &mut [Look<M>], soon: impl Fn(*const u8)) {
        for look in looks {
            look.hash = self.hash(&look.key);
            soon(core::ptr::from_ref(self.buckets.home(look.hash)).cast());
        }
    }

    /// Second step: the sessions that nearly always are the right ones, if there are any. `soon` is told their lines: the first one, and with
    /// `both` the second, which is needed for IPv6. Gives whether some may have been found by another key of theirs: then
    /// [`SessionTable::by_own_keys`] comes before the third step.
    #[inline(always)]
    pub fn candidates<M>(&self, looks: &mut [Look<M>], soon: impl Fn(*const u8), both: bool) -> bool {
        let mut others = false;
        for look in looks {
            look.session = self.buckets.home(look.hash).candidate(tag(look.hash));
            if let Some(entry) = self.entries.get(look.session as usize) {
                let line = core::ptr::from_ref(entry).cast::<u8>();
                soon(line);
                if both {
                    soon(line.wrapping_add(LINE));
                }
            } else if let Some(alias) = self.aliases.get((look.session ^ FIRST) as usize) {
                soon(core::ptr::from_ref(alias).cast());
                others = true;
            }
        }
        others
    }

    /// What has that key: the number of a session, or of a session's other key ([`is_alias`]).
    #[must_use]
    pub fn find(&self, key: &Key, hash: u32) -> Option<u32> {
        let mut bucket = self.buckets.home(hash);
        loop {
            let mut slots = bucket.matches(tag(hash));
            while slots != 0 {
                let session = bucket.sessions[Bucket::slot(slots) % SLOTS];
                if self.has(session, key) {
                    return Some(session);
                }
                slots &= slots - 1;
            }
            bucket = self.buckets.behind(bucket)?;
        }
    }

    /// Tells `soon` the line of the bucket that keys of a hash belong to, for a prefetch before [`SessionTable::is_vacant`].
    #[inline(always)]
    pub fn bucket_soon(&self, hash: u32, soon: impl Fn(*const u8)) {
        soon(core::ptr::from_ref(self.buckets.home(hash)).cast());
    }

    /// Whether nothing can be found by a key of that hash, as buckets alone tell. Where they can't, [`SessionTable::find`] may find nothing
    /// nevertheless: for one key in some thousands.
    #[must_use]
    pub fn is_vacant(&self, hash: u32) -> bool {
        let mut next = Some(self.buckets.home(hash));
        while let Some(bucket) = next {
            if bucket.matches(tag(hash)) != 0 {
                return false;
            }
            next = self.buckets.behind(bucket);
        }
        true
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
        self.grow();
        let index = self.take_entry();
        if let Some(entry) = self.entries.get_mut(index as usize) {
            entry.generation = entry.generation.wrapping_add(1);
            ((entry.key, entry.more), entry.value) = (key.parts(), value);
        }
        self.buckets.insert(hash, index);
        self.len += 1;
        Ok(Inserted::New(index))
    }

    /// Whether what was found is found by that key.
    #[inline(always)]
    fn has(&self, found: u32, key: &Key) -> bool {
        if found < FIRST {
            return self.entries.get(found as usize).is_some_and(|entry| entry.has(key));
        }
        self.alias(found).is_some_and(|alias| alias.key == *key)
    }

    /// Splits a few buckets where there are too many keys for them.
    pub(super) fn grow(&mut self) {
        let (entries, aliases, seed) = (&self.entries, &self.aliases, &self.seed);
        let hash = |found: u32| {
            let key = if found < FIRST {
                entries.get(found as usize).map(Entry::key)
            } else {
                aliases.get((found ^ FIRST) as usize).map(|alias| alias.key)
            };
            key.map_or(0, |key| seed.hash(&key))
        };
        self.buckets.grow(self.len + self.aliases.len(), hash);
    }

    /// Removes the session of that number and gives what was known of it.
    pub fn remove(&mut self, index: u32) -> Option<(Key, V)> {
        let entry = self.entries.get(index as usize).filter(|entry| entry.lives())?;
        let (key, value) = (entry.key(), entry.value);
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

    /// Tells `soon` the first line of the session of that number, for a prefetch, and with `both` the second.
    #[inline(always)]
    pub fn soon(&self, index: u32, both: bool, soon: impl Fn(*const u8)) {
        if let Some(entry) = self.entries.get(index as usize) {
            let line = core::ptr::from_ref(entry).cast::<u8>();
            soon(line);
            if both {
                soon(line.wrapping_add(LINE));
            }
        }
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
    pub fn visit(&mut self, index: u32) -> Option<(Handle, Key, &mut V)> {
        let entry = self.entries.get_mut(index as usize).filter(|entry| entry.lives())?;
        Some((Handle { index, generation: entry.generation }, entry.key(), &mut entry.value))
    }

    /// Third step: [`SessionTable::visit`] of the session of that number, if that is the one with this key, one of IPv6 where
    /// `is_v6`. Where it isn't, [`SessionTable::find`] looks further.
    #[inline(always)]
    #[must_use]
    pub fn visit_if(&mut self, index: u32, key: &Key, is_v6: bool) -> Option<(Handle, &mut V)> {
        let entry = self.entries.get_mut(index as usize)?;
        let (head, more) = key.parts();
        // No branch of its own for what is never so but for a vector in which a session ended.
        let right = entry.lives() & (entry.key == head) & (!is_v6 || entry.more == more);
        right.then_some((Handle { index, generation: entry.generation }, &mut entry.value))
    }

    /// The key of the session of that number.
    #[must_use]
    pub fn key(&self, index: u32) -> Option<Key> {
        self.entries.get(index as usize).filter(|entry| entry.lives()).map(Entry::key)
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
