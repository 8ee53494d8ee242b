//! One cache line of the table: where sessions of some hashes are.

use super::table::NONE;

/// Sessions that a bucket has room for.
pub(super) const SLOTS: usize = 8;

/// Eight sessions by the upper half of their hash. A tag of 0 is an empty slot; the used ones come first.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(super) struct Bucket {
    pub(super) tags: [u16; SLOTS],
    pub(super) sessions: [u32; SLOTS],
    /// The bucket with those that had no room here, among the spilled ones, or [`NONE`].
    pub(super) more: u32,
}

const _: () = assert!(size_of::<Bucket>() == 64);

/// Bits of a tag's lane in a word.
const LANE: usize = 16;
/// One in each lane.
const EACH: u64 = 0x0001_0001_0001_0001;
/// All bits of each lane but the uppermost.
const LOW: u64 = 0x7fff * EACH;

impl Default for Bucket {
    fn default() -> Self {
        Self { tags: [0; SLOTS], sessions: [NONE; SLOTS], more: NONE }
    }
}

/// The tag of a hash: never 0.
#[inline(always)]
pub(super) const fn tag(hash: u32) -> u16 {
    (hash >> 16) as u16 | 0x8000
}

impl Bucket {
    /// In the four lanes of each word the uppermost bit is set where that slot has the tag.
    #[inline(always)]
    fn lanes(&self, tag: u16) -> [u64; 2] {
        // Without a branch, as which slot it is can't be foreseen; in words, as compilers make eight comparisons of it else.
        let [a, b, c, d, e, f, g, h] = self.tags.map(u64::from);
        [a | b << 16 | c << 32 | d << 48, e | f << 16 | g << 32 | h << 48].map(|four| {
            let differ = four ^ (u64::from(tag) * EACH);
            // Zero plus 0x7fff carries nothing into the uppermost bit, and nothing carries into the next lane.
            !(((differ & LOW) + LOW) | differ) & !LOW
        })
    }

    /// Bit 16 `n` + 15 is set where slot `n` has the tag.
    #[inline(always)]
    pub(super) fn matches(&self, tag: u16) -> u128 {
        let [low, high] = self.lanes(tag);
        u128::from(low) | u128::from(high) << 64
    }

    /// The slot of the lowest match.
    #[inline(always)]
    pub(super) const fn slot(matches: u128) -> usize {
        matches.trailing_zeros() as usize / LANE
    }

    /// The session in the first slot with the tag, or [`NONE`].
    #[inline(always)]
    pub(super) fn candidate(&self, tag: u16) -> u32 {
        let [low, high] = self.lanes(tag);
        let (four, first) = if low != 0 { (low, 0) } else { (high, SLOTS / 2) };
        let slot = first + four.trailing_zeros() as usize / LANE;
        let session = self.sessions[slot % SLOTS];
        if low | high == 0 { NONE } else { session }
    }

    /// Used slots.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.tags.iter().take_while(|tag| **tag != 0).count()
    }

    /// The sessions that are in it, and their tags.
    #[inline]
    pub(super) fn used(&self) -> impl Iterator<Item = (u16, u32)> {
        self.tags.into_iter().zip(self.sessions).take_while(|(tag, _)| *tag != 0)
    }

    /// Takes a session in; false where there is no room.
    #[inline]
    pub(super) fn put(&mut self, tag: u16, session: u32) -> bool {
        let at = self.len();
        if at == SLOTS {
            return false;
        }
        (self.tags[at], self.sessions[at]) = (tag, session);
        true
    }

    /// The slot that a session is in.
    #[inline]
    pub(super) fn slot_of(&self, session: u32) -> Option<usize> {
        self.sessions.iter().zip(self.tags).position(|(have, tag)| *have == session && tag != 0)
    }

    /// Takes the last session out.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<(u16, u32)> {
        let at = self.len().checked_sub(1)?;
        let taken = (self.tags[at], self.sessions[at]);
        (self.tags[at], self.sessions[at]) = (0, NONE);
        Some(taken)
    }

    /// Writes the session of a slot.
    #[inline]
    pub(super) fn set(&mut self, slot: usize, (tag, session): (u16, u32)) {
        (self.tags[slot], self.sessions[slot]) = (tag, session);
    }
}
