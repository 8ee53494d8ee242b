//! All buckets: where a hash belongs, and how they become more.

use super::bucket::{Bucket, SLOTS, tag};
use super::table::NONE;
use crate::chunked::Chunked;

/// Sessions per bucket, on average, above which the table grows. A bucket spills over at 8: so do 7 of 100 then, with two
/// sessions of 100.
const LOAD: usize = 5;
/// Buckets that an insertion splits while the table grows: it has doubled long before it has to grow again.
const SPLITS: usize = 4;
/// Buckets of a new table: 2^6.
const LEVEL: u32 = 6;
/// From this level on the bit that tells the halves of a split bucket is part of the tag.
const TAG_BITS: u32 = 16;

/// Buckets of a table that doubles by splitting them one after the other (linear hashing, Litwin 1980).
#[derive(Clone, Debug)]
pub(super) struct Buckets {
    home: Chunked<Bucket>,
    spilled: Chunked<Bucket>,
    /// The first spilled bucket that is free; `more` leads to the next.
    free: u32,
    /// There are 2^level buckets, and one more for each that has been split since.
    level: u32,
    growing: bool,
}

impl Default for Buckets {
    fn default() -> Self {
        let mut home = Chunked::default();
        (0..1 << LEVEL).for_each(|_| home.push(Bucket::default()));
        Self { home, spilled: Chunked::default(), free: NONE, level: LEVEL, growing: false }
    }
}

impl Buckets {
    /// Bytes of memory taken.
    pub(super) fn bytes(&self) -> usize {
        self.home.bytes() + self.spilled.bytes()
    }

    /// The bucket that a hash belongs to.
    #[inline(always)]
    pub(super) fn home(&self, hash: u32) -> &Bucket {
        &self.home[self.at(hash)]
    }

    /// The bucket with those that had no room in `bucket`.
    pub(super) fn behind(&self, bucket: &Bucket) -> Option<&Bucket> {
        self.spilled.get(bucket.more as usize)
    }

    /// Adds a session.
    pub(super) fn insert(&mut self, hash: u32, session: u32) {
        self.place(self.at(hash), tag(hash), session);
    }

    /// Takes a session away. The hole is filled by the last of the first spilled bucket, or else of the home bucket.
    pub(super) fn remove(&mut self, hash: u32, session: u32) {
        let mut at = self.at(hash);
        let Some(last) = self.take_last(at).filter(|last| last.1 != session) else { return };
        let mut list = &mut self.home;
        while let Some(bucket) = list.get_mut(at) {
            if let Some(slot) = bucket.slot_of(session) {
                return bucket.set(slot, last);
            }
            at = bucket.more as usize;
            list = &mut self.spilled;
        }
    }

    /// Splits a few buckets where there are too many sessions for them. `hash` tells that of a session.
    pub(super) fn grow(&mut self, sessions: usize, hash: impl Fn(u32) -> u32) {
        self.growing |= sessions > self.home.len() * LOAD;
        for _ in 0..SPLITS {
            if self.growing {
                self.split(&hash);
            }
        }
    }

    #[inline(always)]
    fn at(&self, hash: u32) -> usize {
        let low = hash as usize & ((2 << self.level) - 1);
        // Without a branch: whether that bucket is there yet can't be foreseen.
        low - (usize::from(low >= self.home.len()) << self.level)
    }

    /// Puts a session into a bucket or those behind it.
    fn place(&mut self, home: usize, tag: u16, session: u32) {
        let Some(bucket) = self.home.get_mut(home) else { return };
        if bucket.put(tag, session) {
            return;
        }
        // The spilled ones with room come first, since only the first is filled.
        let first = bucket.more;
        if self.spilled.get_mut(first as usize).is_some_and(|more| more.put(tag, session)) {
            return;
        }
        let mut fresh = Bucket { more: first, ..Bucket::default() };
        fresh.put(tag, session);
        let at = self.free;
        let at = match self.spilled.get_mut(at as usize) {
            Some(bucket) => {
                self.free = bucket.more;
                *bucket = fresh;
                at
            }
            None => {
                self.spilled.push(fresh);
                (self.spilled.len() - 1) as u32
            }
        };
        if let Some(bucket) = self.home.get_mut(home) {
            bucket.more = at;
        }
    }

    /// Takes one session out of a bucket or, rather, those behind it.
    fn take_last(&mut self, home: usize) -> Option<(u16, u32)> {
        let bucket = self.home.get_mut(home)?;
        let first = bucket.more;
        let Some(more) = self.spilled.get_mut(first as usize) else { return bucket.pop() };
        let taken = more.pop();
        if more.len() == 0 {
            bucket.more = core::mem::replace(&mut more.more, self.free);
            self.free = first;
        }
        taken
    }

    /// Splits the next bucket: half of its sessions belong to the new one.
    fn split(&mut self, hash: impl Fn(u32) -> u32) {
        let old = self.home.len() - (1 << self.level);
        let new = self.home.len();
        self.home.push(Bucket::default());
        let (mut halves, mut lens, mut over) = ([Bucket::default(); 2], [0; 2], Vec::new());
        let mut bucket = self.home[old];
        loop {
            for (tag, session) in bucket.used() {
                let up = match self.level.checked_sub(TAG_BITS) {
                    Some(bit) => tag >> bit & 1,
                    None => (hash(session) >> self.level & 1) as u16,
                };
                let half = usize::from(up);
                // Which half can't be foreseen: no branch for it.
                if lens[half] < SLOTS {
                    halves[half].set(lens[half], (tag, session));
                    lens[half] += 1;
                } else {
                    over.push(([old, new][half], tag, session));
                }
            }
            let at = bucket.more;
            let Some(spilled) = self.spilled.get_mut(at as usize) else { break };
            bucket = *spilled;
            *spilled = Bucket { more: core::mem::replace(&mut self.free, at), ..Bucket::default() };
        }
        for (at, half) in [old, new].into_iter().zip(halves) {
            if let Some(home) = self.home.get_mut(at) {
                *home = half;
            }
        }
        over.into_iter().for_each(|(home, tag, session)| self.place(home, tag, session));
        if new + 1 == 2 << self.level {
            self.level += 1;
            self.growing = false;
        }
    }
}
