//! Times in which the loop did not come round.

use super::lane::Lane;

/// Times in which the loop did not run, or a turn of it took too long: nothing was sent and nothing taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stalled {
    /// Longest time from the begin of a turn to that of the next while packets were sent, in clock ticks.
    pub longest: u64,
    /// Sum of those that were longer than the bound, as far as they lay in the time of sending, in clock ticks.
    pub total: u64,
    /// The same of the time after it.
    pub after: u64,
    /// Packets that became due in those: they were late, or never sent, because of the generator.
    pub packets: u64,
}

/// Watches the turns of a loop.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stalls {
    /// Ticks that a turn may take.
    bound: u64,
    last: u64,
    /// Tick at which sending ends.
    pub(super) end: u64,
    pub(super) seen: Stalled,
}

impl Stalls {
    /// From tick `start` on; a turn may take `bound` ticks, and sending ends at tick `end`.
    pub(super) const fn new(bound: u64, start: u64, end: u64) -> Self {
        Self { bound, last: start, end, seen: Stalled { longest: 0, total: 0, after: 0, packets: 0 } }
    }

    /// A turn begins at tick `now`.
    #[inline(always)]
    pub(super) fn turn(&mut self, now: u64, lanes: &[Lane]) {
        let took = now.saturating_sub(self.last);
        if took > self.seen.longest {
            self.longer(now);
        }
        if took > self.bound {
            let due = |lane: &Lane| lane.schedule.overdue(now, 0) - lane.schedule.overdue(self.last, 0);
            let packets = lanes.iter().map(due).sum();
            self.stalled(now, packets);
        }
        self.last = now;
    }

    /// Ticks of a turn that ends at tick `now` in which packets were sent.
    fn within(&self, now: u64) -> u64 {
        now.min(self.end).saturating_sub(self.last)
    }

    #[cold]
    fn longer(&mut self, now: u64) {
        self.seen.longest = self.seen.longest.max(self.within(now));
    }

    #[cold]
    fn stalled(&mut self, now: u64, packets: u64) {
        let within = self.within(now);
        self.seen.total += within;
        self.seen.after += now - self.last - within;
        self.seen.packets += packets;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_is_of_all_turns_and_the_sum_of_long_ones() {
        let mut stalls = Stalls::new(100, 1000, u64::MAX);
        for now in [1010, 1110, 1311, 1312, 1512, 1500, 1550] {
            stalls.turn(now, &[]);
        }
        assert_eq!(stalls.seen, Stalled { longest: 201, total: 401, after: 0, packets: 0 });
    }

    #[test]
    fn what_lies_behind_the_end_of_sending_is_told_apart() {
        let mut stalls = Stalls::new(100, 1000, 1500);
        for now in [1200, 1900, 1950, 2950] {
            stalls.turn(now, &[]);
        }
        // 200, 300 of 700, and the rest of that with 1000 more.
        assert_eq!(stalls.seen, Stalled { longest: 300, total: 500, after: 1400, packets: 0 });
    }
}
