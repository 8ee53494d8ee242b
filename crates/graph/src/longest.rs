//! The longest of many times, since it was last forgotten: written by one thread, forgotten by another, without a lock.
//!
//! Clearing remembers where counters stood, which a maximum can't be told from. So each value carries the number of the span of time that it
//! was seen in, and forgetting begins the next span: what is of an earlier one counts for nothing, and whoever writes replaces it.

use std::sync::atomic::{AtomicU64, Ordering};

/// Bits of a value; above them stands the number of its span. 2⁴⁸ clocks are more than a day at 3 GHz.
const BITS: u32 = 48;
const MOST: u64 = (1 << BITS) - 1;

/// The longest time since it was forgotten, in cycles.
#[derive(Debug, Default)]
pub struct Longest {
    /// Span and value: the writer's.
    kept: AtomicU64,
    /// The present span, in the bits above a value, where 65 536 of them wrap around. Whoever forgets writes it.
    span: AtomicU64,
}

impl Longest {
    /// Takes another one. Only the worker that owns it may: two loads, and a store where it is the longest yet.
    #[inline(always)]
    pub fn take(&self, clocks: u64) {
        let seen = self.span.load(Ordering::Relaxed) | clocks.min(MOST);
        let kept = self.kept.load(Ordering::Relaxed);
        if seen > kept || (seen ^ kept) > MOST {
            self.kept.store(seen, Ordering::Relaxed);
        }
    }

    /// Forgets all so far. What is under way counts for what comes: it ends there.
    pub fn forget(&self) {
        self.span.fetch_add(MOST + 1, Ordering::Relaxed);
    }

    /// The longest since it was forgotten; 0 where there was none.
    #[must_use]
    pub fn get(&self) -> u64 {
        let kept = self.kept.load(Ordering::Relaxed);
        if (kept ^ self.span.load(Ordering::Relaxed)) > MOST { 0 } else { kept & MOST }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_is_kept_until_it_is_forgotten() {
        let longest = Longest::default();
        assert_eq!(longest.get(), 0);
        [7, 500, 20].into_iter().for_each(|clocks| longest.take(clocks));
        assert_eq!(longest.get(), 500);
        longest.forget();
        assert_eq!(longest.get(), 0, "before the next one");
        longest.take(3);
        assert_eq!(longest.get(), 3, "what is shorter than one that is forgotten counts");
    }

    #[test]
    fn numbers_of_spans_wrap_around() {
        let longest = Longest::default();
        longest.take(9);
        for round in 1..=70_000 {
            longest.forget();
            assert_eq!(longest.get(), 0);
            // Those that begin and end with nothing are passed over.
            if round % 3 == 0 {
                longest.take(5);
                longest.take(4);
                assert_eq!(longest.get(), 5, "span {round}");
            }
        }
    }

    #[test]
    fn what_is_longer_than_there_are_bits_is_as_long_as_can_be() {
        let longest = Longest::default();
        longest.forget();
        longest.take(MOST + 2);
        assert_eq!(longest.get(), MOST);
        longest.take(1);
        assert_eq!(longest.get(), MOST);
    }
}
