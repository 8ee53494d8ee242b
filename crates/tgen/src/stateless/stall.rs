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

/// Nanoseconds that a byte which is sent or received may take: many times what it does, were it a page's first.
pub(super) const WORK_NS_PER_BYTE: f64 = 1.0;

/// Watches the turns of a loop.
///
/// A turn may be long because it has long frames to write and read: that is work, and no stall. What it took the thread's CPU clock
/// tells, which stands while the thread doesn't run; but it runs in interrupts, and may where the host takes the core away, so
/// that no more is believed than a turn's bytes can take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stalls {
    /// Ticks that a turn may take.
    bound: u64,
    /// Ticks that a byte may take, sent or received.
    per_byte: f64,
    last: u64,
    /// When the CPU clock was last read, and what it said, in ticks.
    read: (u64, u64),
    /// Tick at which sending ends.
    pub(super) end: u64,
    pub(super) seen: Stalled,
}

impl Stalls {
    /// From tick `start` on, where the CPU clock stands at `ran` ticks; a turn may take `bound` ticks and `per_byte` for each byte, and
    /// sending ends at tick `end`.
    pub(super) const fn new(bound: u64, per_byte: f64, (start, ran): (u64, u64), end: u64) -> Self {
        let seen = Stalled { longest: 0, total: 0, after: 0, packets: 0 };
        Self { bound, per_byte, last: start, read: (start, ran), end, seen }
    }

    /// A turn begins at tick `now`; that before sent and received so many bytes. `ran` reads the CPU clock, in ticks: only after a
    /// long turn is that asked.
    #[inline(always)]
    pub(super) fn turn(&mut self, now: u64, lanes: &[Lane], bytes: u64, ran: impl FnOnce() -> u64) {
        let took = now.saturating_sub(self.last);
        if took > self.seen.longest {
            self.longer(now);
        }
        if took > self.bound {
            let ran = ran();
            let asleep = now.saturating_sub(self.read.0).saturating_sub(ran.saturating_sub(self.read.1));
            let worked = took.saturating_sub(asleep).min((bytes as f64 * self.per_byte) as u64);
            self.read = (now, ran);
            self.stalled(now, took - worked, lanes);
        }
        self.last = now;
    }

    /// The CPU clock stands at `ran` ticks at tick `now`, where a turn begins: short pauses until then are forgotten.
    pub(super) const fn awake(&mut self, now: u64, ran: u64) {
        self.read = (now, ran);
    }

    /// Ticks of a turn that ends at tick `now` in which packets were sent.
    fn within(&self, now: u64) -> u64 {
        now.min(self.end).saturating_sub(self.last)
    }

    #[cold]
    fn longer(&mut self, now: u64) {
        self.seen.longest = self.seen.longest.max(self.within(now));
    }

    /// A turn that ends at tick `now` was no work for so many ticks, which count as its last ones.
    #[cold]
    fn stalled(&mut self, now: u64, ticks: u64, lanes: &[Lane]) {
        if ticks <= self.bound {
            return;
        }
        let within = self.within(now).min(ticks);
        self.seen.total += within;
        self.seen.after += ticks - within;
        let due = |lane: &Lane| lane.schedule.overdue(now, 0) - lane.schedule.overdue(now - ticks, 0);
        self.seen.packets += lanes.iter().map(due).sum::<u64>();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread that never runs: all of a turn is a stall.
    const ASLEEP: fn() -> u64 = || 0;

    #[test]
    fn the_longest_is_of_all_turns_and_the_sum_of_long_ones() {
        let mut stalls = Stalls::new(100, 1.0, (1000, 0), u64::MAX);
        for now in [1010, 1110, 1311, 1312, 1512, 1500, 1550] {
            stalls.turn(now, &[], 500, ASLEEP);
        }
        assert_eq!(stalls.seen, Stalled { longest: 201, total: 401, after: 0, packets: 0 });
    }

    #[test]
    fn what_lies_behind_the_end_of_sending_is_told_apart() {
        let mut stalls = Stalls::new(100, 1.0, (1000, 0), 1500);
        for now in [1200, 1900, 1950, 2950] {
            stalls.turn(now, &[], 500, ASLEEP);
        }
        // 200, 300 of 700, and the rest of that with 1000 more.
        assert_eq!(stalls.seen, Stalled { longest: 300, total: 500, after: 1400, packets: 0 });
    }

    #[test]
    fn work_is_no_stall() {
        let total = |ran: u64, bytes: u64| {
            let mut stalls = Stalls::new(100, 0.5, (1000, 70), u64::MAX);
            stalls.turn(2000, &[], bytes, || 70 + ran);
            (stalls.seen.total, stalls.seen.longest)
        };
        assert_eq!(total(1000, 4000), (0, 1000), "it ran, and had that to do");
        assert_eq!(total(920, 4000), (0, 1000), "what is left of it is below the bound");
        assert_eq!(total(600, 4000), (400, 1000), "it did not run in the rest");
        assert_eq!(
            total(1000, 400),
            (800, 1000),
            "so few bytes don't take it so long: an interrupt, or the host"
        );
        assert_eq!(total(1000, 0), (1000, 1000), "it had nothing to do");
    }

    #[test]
    fn short_pauses_of_before_are_none_of_a_turn() {
        let mut stalls = Stalls::new(100, 1.0, (1000, 0), u64::MAX);
        stalls.turn(1090, &[], 0, || unreachable!("a short turn asks no clock"));
        stalls.awake(1090, 10);
        stalls.turn(1290, &[], 1000, || 210);
        assert_eq!(stalls.seen.total, 0);
    }
}
