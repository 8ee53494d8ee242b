//! Times in which the loop did not come round.

use super::lane::Lane;

/// Times in which the loop did not run, or a turn of it took too long: nothing was sent and nothing taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stalled {
    /// Longest time from the begin of a turn to that of the next, in clock ticks.
    pub longest: u64,
    /// Sum of those that were longer than the bound, in clock ticks.
    pub total: u64,
    /// Packets that became due in those: they were late, or never sent, because of the generator.
    pub packets: u64,
}

/// Watches the turns of a loop.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stalls {
    /// Ticks that a turn may take.
    bound: u64,
    last: u64,
    pub(super) seen: Stalled,
}

impl Stalls {
    /// From tick `start` on; a turn may take `bound` ticks.
    pub(super) const fn new(bound: u64, start: u64) -> Self {
        Self { bound, last: start, seen: Stalled { longest: 0, total: 0, packets: 0 } }
    }

    /// A turn begins at tick `now`.
    #[inline(always)]
    pub(super) fn turn(&mut self, now: u64, lanes: &[Lane]) {
        let took = now.saturating_sub(self.last);
        if took > self.seen.longest {
            self.seen.longest = took;
        }
        if took > self.bound {
            let due = |lane: &Lane| lane.schedule.overdue(now, 0) - lane.schedule.overdue(self.last, 0);
            let packets = lanes.iter().map(due).sum();
            self.stalled(took, packets);
        }
        self.last = now;
    }

    #[cold]
    const fn stalled(&mut self, took: u64, packets: u64) {
        self.seen.total += took;
        self.seen.packets += packets;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_is_of_all_turns_and_the_sum_of_long_ones() {
        let mut stalls = Stalls::new(100, 1000);
        for now in [1010, 1110, 1311, 1312, 1512, 1500, 1550] {
            stalls.turn(now, &[]);
        }
        assert_eq!(stalls.seen, Stalled { longest: 201, total: 401, packets: 0 });
    }
}
