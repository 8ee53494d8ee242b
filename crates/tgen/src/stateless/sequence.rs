//! What became of the packets of one lane: lost, duplicated, reordered.

use std::collections::VecDeque;

/// Gaps that are remembered. Older ones are given up: their packets stay lost, and one that comes after all counts as a
/// duplicate, so that what isn't known never hides a loss.
pub const GAPS: usize = 1 << 16;

/// Follows the sequence numbers of one lane, which begin at 0.
///
/// It keeps the next number expected and the gaps before it. In order, a packet costs one comparison and one addition.
#[derive(Clone, Debug, Default)]
pub struct Tracker {
    next: u64,
    gaps: VecDeque<Gap>,
    received: u64,
    duplicated: u64,
    reordered: u64,
}

/// Numbers from `first` to before `end` are missing.
#[derive(Clone, Copy, Debug)]
struct Gap {
    first: u64,
    end: u64,
}

impl Tracker {
    /// A packet has come; tells whether for the first time.
    #[inline(always)]
    pub fn receive(&mut self, sequence: u64) -> bool {
        if sequence == self.next {
            self.next += 1;
            self.received += 1;
            true
        } else {
            let before = self.received;
            self.out_of_order(sequence);
            self.received > before
        }
    }

    #[cold]
    #[inline(never)]
    fn out_of_order(&mut self, sequence: u64) {
        if sequence > self.next {
            if self.gaps.len() == GAPS {
                self.gaps.pop_front();
            }
            self.gaps.push_back(Gap { first: self.next, end: sequence });
            self.next = sequence.saturating_add(1);
            self.received += 1;
            return;
        }
        let at = self.gaps.partition_point(|gap| gap.end <= sequence);
        match self.gaps.get_mut(at).filter(|gap| gap.first <= sequence) {
            Some(gap) => {
                let Gap { first, end } = *gap;
                let (before, after) = (sequence > first, sequence + 1 < end);
                match (before, after) {
                    (true, true) => {
                        gap.end = sequence;
                        self.gaps.insert(at + 1, Gap { first: sequence + 1, end });
                        if self.gaps.len() > GAPS {
                            self.gaps.pop_front();
                        }
                    }
                    (true, false) => gap.end = sequence,
                    (false, true) => gap.first = sequence + 1,
                    (false, false) => drop(self.gaps.remove(at)),
                }
                self.received += 1;
                self.reordered += 1;
            }
            None => self.duplicated += 1,
        }
    }

    /// Different packets that came.
    #[must_use]
    pub const fn received(&self) -> u64 {
        self.received
    }

    /// Packets that came more than once: all but the first of each (RFC 5560).
    #[must_use]
    pub const fn duplicated(&self) -> u64 {
        self.duplicated
    }

    /// Packets that came after one with a greater number (RFC 4737, Type-P-Reordered).
    #[must_use]
    pub const fn reordered(&self) -> u64 {
        self.reordered
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn check(sequences: impl IntoIterator<Item = u64>) {
        let (mut tracker, mut seen) = (Tracker::default(), BTreeSet::new());
        let (mut duplicated, mut reordered) = (0, 0);
        for sequence in sequences {
            let late = seen.last().is_some_and(|last| sequence < *last);
            let first = seen.insert(sequence);
            assert_eq!(tracker.receive(sequence), first, "{sequence}");
            match first {
                true => reordered += u64::from(late),
                false => duplicated += 1,
            }
        }
        let told = (tracker.received(), tracker.duplicated(), tracker.reordered());
        assert_eq!(told, (seen.len() as u64, duplicated, reordered));
    }

    #[test]
    fn in_order_with_gaps_late_and_twice() {
        check(0..100);
        check([0, 1, 3, 2, 2, 5, 9, 7, 6, 8, 4, 4, 10]);
        check([5, 4, 3, 2, 1, 0]);
        check([7, 7, 7, 0, 0, 1]);
    }

    #[test]
    fn agrees_with_a_set_on_noise() {
        let mut state = 1u64;
        check((0..200_000).map(|n| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (n as u64).saturating_sub(state >> 59) + (state >> 40) % 7
        }));
    }

    #[test]
    fn gaps_that_are_split_stay_within_the_limit() {
        for split in [1, GAPS as u64 / 2] {
            let mut tracker = Tracker::default();
            // Gaps of three, as many as are remembered; one packet in the middle of one of them makes two of it.
            let last = 4 * GAPS as u64;
            for sequence in (0..=last).step_by(4) {
                tracker.receive(sequence);
            }
            assert_eq!(tracker.gaps.len(), GAPS);
            tracker.receive(4 * split - 2);
            assert_eq!((tracker.reordered(), tracker.gaps.len()), (1, GAPS), "the oldest is forgotten");
            for sequence in (last + 4..=last + 400).step_by(4) {
                tracker.receive(sequence);
            }
            assert_eq!(tracker.gaps.len(), GAPS);
            tracker.receive(last + 399);
            assert_eq!((tracker.reordered(), tracker.duplicated()), (2, 0));
        }
    }

    #[test]
    fn forgotten_gaps_stay_lost() {
        let mut tracker = Tracker::default();
        let last = 2 * (GAPS as u64 + 10);
        for sequence in (0..=last).step_by(2) {
            tracker.receive(sequence);
        }
        tracker.receive(1);
        assert_eq!((tracker.reordered(), tracker.duplicated()), (0, 1), "its gap is forgotten");
        tracker.receive(last - 1);
        assert_eq!((tracker.reordered(), tracker.duplicated()), (1, 1));
    }
}
