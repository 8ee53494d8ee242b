//! A set of flows that were seen of late: shared by all workers, of a fixed size, without locks.
//!
//! A member is one word: 39 bits of its keyed hash, whether it stays long, and the second it was last seen in. Eight words are
//! a bucket, one cache line; a full one gives up the member that was silent longest. Keys themselves aren't kept: of two flows
//! one in 2^39 times the number of buckets is taken for the other, and nobody outside can choose which. So this is for
//! questions where a wrong yes costs no more than that flow.

use crate::session::{Key, Seed};
use crate::zeroed::LineAligned;

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering};

/// Words of a bucket: one cache line.
const WAYS: usize = 8;
/// Bits of a word that say when: seconds, round and round in 194 days.
const TIME_BITS: u32 = 24;
const TIME: u64 = (1 << TIME_BITS) - 1;
/// The bit of members that stay long.
const LONG: u64 = 1 << TIME_BITS;
/// Bits of a word that are the hash's.
const TAG: u64 = !(TIME | LONG);

/// How long a member stays after it was seen last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stay {
    /// The shorter of the set's two times.
    Short,
    /// The longer one.
    Long,
}

/// What became of a flow that was to be remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noted {
    /// It wasn't a member.
    New,
    /// It was one already.
    Known,
    /// It wasn't one, and another had to make room.
    Replaced,
}

/// The set. Times are seconds of any clock that all callers share.
#[derive(Debug)]
pub struct Recent {
    words: LineAligned<AtomicU64>,
    mask: usize,
    seed: Seed,
    /// Seconds that members stay, by [`Stay`].
    stays: [u32; 2],
}

impl Recent {
    /// An empty set for that many flows, rounded up to a power of two, eight bytes each, that stay `short` or `long` seconds after
    /// they were seen last, 97 days at most. `None` where the system refuses the memory.
    #[must_use]
    pub fn with_capacity(flows: usize, short: u32, long: u32) -> Option<Self> {
        let words = flows.max(WAYS).checked_next_power_of_two()?;
        let longest = (TIME >> 1) as u32;
        Some(Self {
            words: LineAligned::zeroed(words)?,
            mask: words / WAYS - 1,
            seed: Seed::random(),
            stays: [short.min(longest), long.min(longest)],
        })
    }

    /// Remembers a flow.
    pub fn note(&self, key: &Key, stay: Stay, now: u32) -> Noted {
        let (bucket, tag) = self.place(key);
        let word = tag | if stay == Stay::Long { LONG } else { 0 } | u64::from(now) & TIME;
        // Nearly always it is there.
        for slot in bucket {
            let old = slot.load(Ordering::Relaxed);
            if old & TAG == tag {
                if old != word {
                    slot.store(word, Ordering::Relaxed);
                }
                return if self.is_live(old, now) { Noted::Known } else { Noted::New };
            }
        }
        self.enter(bucket, word, now)
    }

    /// Makes a flow that isn't one a member.
    #[inline(never)]
    fn enter(&self, bucket: &[AtomicU64; WAYS], word: u64, now: u32) -> Noted {
        // Who finds its place taken by another worker looks once more: it may be for the same flow.
        for _ in 0..2 {
            let mut victim: Option<(&AtomicU64, u64, u64)> = None;
            for slot in bucket {
                let old = slot.load(Ordering::Relaxed);
                if old & TAG == word & TAG {
                    return Noted::Known;
                }
                let rank = if self.is_live(old, now) { age(old, now) } else { u64::MAX };
                if victim.is_none_or(|(_, _, best)| rank > best) {
                    victim = Some((slot, old, rank));
                }
            }
            let Some((slot, old, rank)) = victim else { return Noted::New };
            if slot.compare_exchange(old, word, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                return if rank == u64::MAX { Noted::New } else { Noted::Replaced };
            }
        }
        Noted::Replaced
    }

    /// Whether a flow is a member; it has been seen again then.
    #[inline]
    pub fn meets(&self, key: &Key, now: u32) -> bool {
        let (bucket, tag) = self.place(key);
        let mut found = false;
        for slot in bucket {
            let old = slot.load(Ordering::Relaxed);
            if old & TAG == tag && self.is_live(old, now) {
                found = true;
                // Once a second at most: the line is shared.
                if age(old, now) > 0 {
                    let word = old & !TIME | u64::from(now) & TIME;
                    let _ = slot.compare_exchange(old, word, Ordering::Relaxed, Ordering::Relaxed);
                }
            }
        }
        found
    }

    /// Forgets a flow. False: it wasn't a member.
    pub fn forget(&self, key: &Key) -> bool {
        let (bucket, tag) = self.place(key);
        let mut found = false;
        for slot in bucket {
            let old = slot.load(Ordering::Relaxed);
            // Two workers may have noted it at once.
            if old & TAG == tag {
                found |= slot.compare_exchange(old, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok();
            }
        }
        found
    }

    /// Members at `now`. Looks at all words.
    #[must_use]
    pub fn len(&self, now: u32) -> usize {
        let words = self.words.as_slice().iter();
        words.filter(|word| self.is_live(word.load(Ordering::Relaxed), now)).count()
    }

    #[inline(always)]
    fn place(&self, key: &Key) -> (&[AtomicU64; WAYS], u64) {
        let hash = self.seed.wide(key);
        let buckets: &[[AtomicU64; WAYS]] = self.words.as_slice().as_chunks().0;
        let tag = match hash & TAG {
            // What no word is in use has.
            0 => LONG << 1,
            tag => tag,
        };
        (&buckets[hash as usize & self.mask], tag)
    }

    #[inline(always)]
    fn is_live(&self, word: u64, now: u32) -> bool {
        let stay = self.stays[usize::from(word & LONG != 0)];
        word & TAG != 0 && age(word, now) <= u64::from(stay)
    }
}

/// Seconds since a word's member was seen; 0 where a worker whose round began a little later has seen it.
#[inline(always)]
fn age(word: u64, now: u32) -> u64 {
    let age = u64::from(now).wrapping_sub(word) & TIME;
    if age > TIME >> 1 { 0 } else { age }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn key(number: u32) -> Key {
        Key::v4(0, 6, (0x0a00_0001, 40_000), (number, 80)).0
    }

    fn set(flows: usize) -> Recent {
        match Recent::with_capacity(flows, 60, 3600) {
            Some(set) => set,
            None => panic!("no memory for {flows} flows"),
        }
    }

    #[test]
    fn members_stay_for_their_time_after_they_were_seen_last() {
        for start in [0, 5, TIME as u32 - 30, TIME as u32, u32::MAX - 100] {
            let (set, at) = (set(64), |seconds: u32| start.wrapping_add(seconds));
            assert!(!set.meets(&key(1), at(0)));
            assert_eq!(set.note(&key(1), Stay::Short, at(0)), Noted::New);
            assert_eq!(set.note(&key(2), Stay::Long, at(0)), Noted::New);
            assert_eq!(set.note(&key(1), Stay::Short, at(1)), Noted::Known);
            assert!(set.meets(&key(1), at(61)), "seen last at 1");
            assert!(set.meets(&key(1), at(121)), "and at 61");
            assert!(!set.meets(&key(1), at(182)));
            assert!(set.meets(&key(2), at(3600)));
            assert!(!set.meets(&key(2), at(7201)));
            assert!(!set.meets(&key(3), at(0)));
            assert_eq!(set.note(&key(1), Stay::Short, at(182)), Noted::New, "its time was over");
        }
    }

    #[test]
    fn another_worker_s_clock_may_be_a_little_behind() {
        let set = set(64);
        set.note(&key(1), Stay::Short, 100);
        assert!(set.meets(&key(1), 99));
        assert!(set.meets(&key(1), 160));
        assert!(!set.meets(&key(1), 221));
    }

    #[test]
    fn what_is_forgotten_is_no_member() {
        let set = set(64);
        set.note(&key(1), Stay::Long, 1);
        assert!(set.forget(&key(1)));
        assert!(!set.meets(&key(1), 1));
        assert!(!set.forget(&key(1)));
    }

    #[test]
    fn a_full_bucket_gives_up_the_one_that_was_silent_longest() {
        let set = set(WAYS);
        for number in 0..WAYS as u32 {
            assert_eq!(set.note(&key(number), Stay::Long, 10 + number), Noted::New);
        }
        assert!(set.meets(&key(0), 30));
        assert_eq!(set.note(&key(100), Stay::Long, 31), Noted::Replaced);
        assert!(!set.meets(&key(1), 31), "the oldest since 0 was seen");
        assert!(set.meets(&key(0), 31) && set.meets(&key(100), 31));
        // One whose time is over goes first, however lately another was seen.
        assert!(set.forget(&key(2)));
        assert_eq!(set.note(&key(101), Stay::Short, 31), Noted::New);
        assert_eq!(set.note(&key(102), Stay::Long, 92), Noted::New);
        assert!(!set.meets(&key(101), 92) && set.meets(&key(3), 92));
        assert_eq!(set.len(92), WAYS);
    }

    #[test]
    fn a_flood_takes_no_more_than_there_is_and_flows_are_told_apart() {
        let set = set(1024);
        for number in 0..100_000 {
            set.note(&key(number), Stay::Long, 1);
        }
        assert_eq!(set.len(1), 1024);
        let strangers = (200_000..1_200_000).filter(|number| set.meets(&key(*number), 1)).count();
        assert_eq!(strangers, 0, "each has one chance in 2^36");
    }

    #[test]
    fn workers_note_at_once_and_none_is_lost_where_there_is_room() {
        let set = Arc::new(set(1 << 16));
        let threads: Vec<_> = (0..4u32)
            .map(|thread| {
                let set = Arc::clone(&set);
                std::thread::spawn(move || {
                    for number in 0..2000 {
                        set.note(&key(thread / 2 * 2000 + number), Stay::Long, 1);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let kept = (0..4000).filter(|number| set.meets(&key(*number), 1)).count();
        assert_eq!(kept, 4000);
    }
}
