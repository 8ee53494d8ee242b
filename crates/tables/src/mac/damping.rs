//! Damping of moves: an address that two members use doesn't follow whichever sent last.
//!
//! One move is instant. An address that is taken from the same member more than [`ALLOWED`] times, with less than [`QUIET`]
//! ticks between two attempts, is **held**: it stays where it is as long as it is heard there at least once in [`QUIET`] ticks,
//! until nobody else has used it for as long. It returns to the member that it was first taken from (its *home*) at once.
//! RFC 7432 section 15.1 has the same for duplicate addresses between sites.
//!
//! ```text
//! history = home : 16 | contender : 16 | since : 16 | attempts : 8 | held : 1 | told : 1
//! ```
//!
//! Each slot of the table has its history, so that a flood of moves displaces nobody's. Nothing but a move touches it.

use std::fmt;
use std::sync::atomic::Ordering;

use super::slot::AtomicU64;
use super::table::{MacTable, entry, slots_of};
use super::word::{MacEntry, MacKey, Value};

/// Moves away from its home that an address is allowed.
const ALLOWED: u64 = 2;
/// Ticks without an attempt after which an address is held no longer; and ticks of silence after which a held address may leave.
const QUIET: u16 = 60;
/// Ticks for which an address that has moved remembers its home.
const MEMORY: u16 = 300;
/// How often a change is tried again when another worker was faster.
const TRIES: usize = 8;

const CONTENDER: u32 = 16;
const SINCE: u32 = 32;
const ATTEMPTS: u32 = 48;
const HELD: u64 = 1 << 56;
const TOLD: u64 = 1 << 57;

/// What is remembered of an address that has moved; 0: it hasn't.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct History(u64);

impl fmt::Debug for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (home, contender) = (self.home(), self.contender());
        write!(f, "home {home} contender {contender} attempts {} held {}", self.attempts(), self.is_held())
    }
}

impl History {
    const NONE: Self = Self(0);

    fn new(home: u16, contender: u16, since: u16, attempts: u64, held: bool) -> Self {
        let parts = u64::from(home) | u64::from(contender) << CONTENDER | u64::from(since) << SINCE;
        Self(parts | attempts << ATTEMPTS | if held { HELD } else { 0 })
    }

    fn home(self) -> u16 {
        self.0 as u16
    }

    fn contender(self) -> u16 {
        (self.0 >> CONTENDER) as u16
    }

    /// Ticks since the last attempt.
    fn age(self, now: u16) -> u16 {
        ticks(now, (self.0 >> SINCE) as u16)
    }

    fn attempts(self) -> u64 {
        self.0 >> ATTEMPTS & 0xff
    }

    fn is_held(self) -> bool {
        self.0 & HELD != 0
    }

    fn is_told(self) -> bool {
        self.0 & TOLD != 0
    }

    /// Whether an address last heard at `from` at tick `heard` may move to `to` now, and the history with that attempt.
    fn attempt(self, from: u16, heard: u16, to: u16, now: u16) -> (bool, Self) {
        let known = self != Self::NONE && self.age(now) <= MEMORY;
        if known && to == self.home() {
            return (true, self);
        }
        let recent = known && self.age(now) <= QUIET;
        let home = if known { self.home() } else { from };
        let before = if recent { self.attempts() } else { 0 };
        let held = before >= ALLOWED;
        let attempts = if held { before } else { before + 1 };
        let told = if held { self.0 & TOLD } else { 0 };
        let allowed = !held || ticks(now, heard) > QUIET;
        (allowed, Self(Self::new(home, to, now, attempts, held).0 | told))
    }
}

/// Ticks from `then` to `now`; 0 where `then` is ahead.
fn ticks(now: u16, then: u16) -> u16 {
    (now.wrapping_sub(then) as i16).max(0) as u16
}

/// A held address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// The address, and where it stays.
    pub entry: MacEntry,
    /// The interface that tried to take it last.
    pub contender: u32,
    /// It is held from now on; else no longer.
    pub begins: bool,
}

impl MacTable {
    /// Whether the key in `slot`, which has `value`, may move to interface `to`. A refusal is noted.
    pub(super) fn may_move(&self, slot: usize, value: Value, to: u32, now: u16) -> bool {
        let (Ok(from), Ok(to)) = (u16::try_from(value.interface()), u16::try_from(to)) else { return true };
        for _ in 0..TRIES {
            let before = self.history(slot);
            let (allowed, after) = before.attempt(from, value.stamp(), to, now);
            if allowed {
                return true;
            }
            if self.change_history(slot, before, after) {
                return false;
            }
        }
        false
    }

    /// Notes that the key in `slot` has moved from `value`'s interface to `to`.
    pub(super) fn has_moved(&self, slot: usize, value: Value, to: u32, now: u16) {
        let (Ok(from), Ok(to)) = (u16::try_from(value.interface()), u16::try_from(to)) else { return };
        for _ in 0..TRIES {
            let before = self.history(slot);
            let (_, after) = before.attempt(from, value.stamp(), to, now);
            if self.change_history(slot, before, after) {
                return;
            }
        }
    }

    /// The slot is another key's from now on.
    pub(super) fn forget_history(&self, slot: usize) {
        let Some(word) = self.histories.as_slice().get(slot) else { return };
        if word.load(Ordering::Relaxed) != 0 && word.swap(0, Ordering::Relaxed) != 0 {
            self.moved.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn history(&self, slot: usize) -> History {
        self.histories
            .as_slice()
            .get(slot)
            .map_or(History::NONE, |word| History(word.load(Ordering::Relaxed)))
    }

    fn change_history(&self, slot: usize, before: History, after: History) -> bool {
        if before == after {
            return true;
        }
        let Some(word): Option<&AtomicU64> = self.histories.as_slice().get(slot) else { return true };
        let changed = word.compare_exchange(before.0, after.0, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if changed && before == History::NONE {
            self.moved.fetch_add(1, Ordering::Relaxed);
        } else if changed && after == History::NONE {
            self.moved.fetch_sub(1, Ordering::Relaxed);
        }
        changed
    }

    /// The interface that is kept from taking `key` at tick `now`, where it is held.
    #[must_use]
    pub fn contender(&self, key: MacKey, now: u16) -> Option<u32> {
        if self.moved.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let history = self.history(self.find(key)?.slot);
        (history.is_held() && history.age(now) <= QUIET).then(|| history.contender().into())
    }

    /// Which addresses are held since the last call, and which no longer, in the next `buckets` buckets after those of the call
    /// before. Histories that are over are forgotten. To be called so often that the whole table is reviewed every few ticks.
    #[must_use]
    pub fn review_moves(&self, now: u16, buckets: usize) -> Vec<Held> {
        if self.moved.load(Ordering::Relaxed) == 0 {
            return Vec::new();
        }
        let begin = self.reviewed.fetch_add(buckets, Ordering::Relaxed);
        let step = (0..buckets.min(self.buckets())).map(|at| begin.wrapping_add(at) % self.buckets());
        step.flat_map(slots_of).filter_map(|slot| self.review(slot, now)).collect()
    }

    fn review(&self, slot: usize, now: u16) -> Option<Held> {
        let before = self.history(slot);
        if before == History::NONE {
            return None;
        }
        let Some((key, value)) = self.slot(slot).read() else {
            self.forget_history(slot);
            return None;
        };
        let held = before.is_held() && before.age(now) <= QUIET;
        let after = match held {
            true => History(before.0 | TOLD),
            false if before.age(now) > MEMORY => History::NONE,
            false => History(before.0 & !(HELD | TOLD)),
        };
        let news = held != before.is_told();
        let changed = self.change_history(slot, before, after);
        let contender = before.contender().into();
        (changed && news).then(|| Held { entry: entry(key, value), contender, begins: held })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOME: u16 = 1;
    const THIEF: u16 = 2;

    /// Attempts to take an address from its home, which takes it back each time: how many succeed.
    fn thefts(history: &mut History, times: std::ops::Range<u16>) -> usize {
        times
            .filter(|now| {
                let (allowed, after) = history.attempt(HOME, *now, THIEF, *now);
                *history = after;
                if allowed {
                    let (back, after) = history.attempt(THIEF, *now, HOME, *now);
                    assert!(back, "home is always open");
                    *history = after;
                }
                allowed
            })
            .count()
    }

    #[test]
    fn a_few_moves_are_instant_and_then_the_address_stays() {
        let mut history = History::NONE;
        assert_eq!(thefts(&mut history, 10..1000), ALLOWED as usize);
        assert!(history.is_held() && history.age(1000) <= 1);
    }

    #[test]
    fn an_address_that_is_left_alone_may_move_again() {
        let mut history = History::NONE;
        thefts(&mut history, 10..100);
        assert_eq!(thefts(&mut history, 99 + QUIET..100 + QUIET), 0, "not yet");
        let last = 99 + QUIET;
        assert_eq!(thefts(&mut history, last + QUIET + 1..last + QUIET + 50), ALLOWED as usize);
    }

    #[test]
    fn a_held_address_leaves_a_home_that_is_silent() {
        let mut history = History::NONE;
        thefts(&mut history, 10..100);
        let (allowed, after) = history.attempt(HOME, 99, THIEF, 99 + QUIET);
        assert!(!allowed);
        let (allowed, after) = after.attempt(HOME, 99, THIEF, 100 + QUIET);
        assert!(allowed && after.is_held());
        let (allowed, after) = after.attempt(THIEF, 160, HOME, 161);
        assert!(allowed, "and returns");
        assert!(!after.attempt(HOME, 161, THIEF, 161).0, "for good");
    }

    #[test]
    fn a_new_home_is_taken_on_after_a_while() {
        let (_, history) = History::NONE.attempt(HOME, 10, THIEF, 10);
        assert_eq!(history.home(), HOME);
        let (_, history) = history.attempt(THIEF, 9 + MEMORY, 3, 11 + MEMORY);
        assert_eq!(history.home(), THIEF, "where it has been since");
    }

    #[test]
    fn ticks_go_round() {
        let mut history = History::NONE;
        assert_eq!(thefts(&mut history, 65_500..65_535), ALLOWED as usize);
        assert_eq!(thefts(&mut history, 0..50), 0);
    }

    #[test]
    fn what_is_held_is_told_once_and_so_is_its_end() {
        let table = MacTable::with_capacity(100).unwrap();
        let key = MacKey::new(1, [2, 0, 0, 0, 0, 1]);
        let everything = |now| table.review_moves(now, table.buckets());
        table.learn(key, 1, 5);
        assert_eq!((everything(5), table.contender(key, 5)), (vec![], None));
        for _ in 0..10 {
            table.learn(key, 2, 5);
            table.learn(key, 1, 5);
        }
        assert_eq!((table.lookup(key), table.contender(key, 5)), (Some(1), Some(2)));
        let told = everything(5);
        assert!(matches!(told[..], [Held { contender: 2, begins: true, entry }] if entry.key == key));
        assert_eq!(everything(6), [], "once");
        assert_eq!((everything(5 + QUIET), table.contender(key, 5 + QUIET)), (vec![], Some(2)));
        assert_eq!(table.contender(key, 6 + QUIET), None);
        assert!(matches!(everything(6 + QUIET)[..], [Held { begins: false, .. }]));
        assert_eq!((everything(7 + QUIET), table.moved.load(Ordering::Relaxed)), (vec![], 1));
        assert_eq!((everything(6 + MEMORY), table.moved.load(Ordering::Relaxed)), (vec![], 0));
    }

    #[test]
    fn a_removed_address_leaves_no_history() {
        let table = MacTable::with_capacity(4).unwrap();
        let key = |number| MacKey::new(1, [2, 0, 0, 0, 0, number]);
        for _ in 0..10 {
            table.learn(key(1), 2, 5);
            table.learn(key(1), 1, 5);
        }
        assert!(table.contender(key(1), 5).is_some() && table.remove(key(1)));
        assert_eq!(table.moved.load(Ordering::Relaxed), 0);
        for number in 1..8 {
            table.learn(key(number), 1, 5);
            assert_eq!(table.contender(key(number), 5), None);
        }
    }
}
