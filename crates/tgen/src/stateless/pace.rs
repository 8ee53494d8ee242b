//! When packets are due.

/// The packets of one lane that are due by now, on a clock that the caller reads: so tests need no time.
///
/// What is due follows from the time since the start alone, not from the last packet, so that no error adds up: whoever was
/// kept from sending catches up, and over a second exactly the rate is sent if the link takes it. Whoever is not to catch up asks
/// what is [`overdue`](Self::overdue).
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Packets per tick, in units of 2^-64; `None`: no limit but the link's.
    per_tick: Option<u64>,
    start: u64,
    /// Packets after which nothing more is due.
    limit: u64,
}

impl Pace {
    /// `rate` packets per second (`None`: as many as can be) on a clock of `frequency` ticks per second, from `start` on,
    /// `limit` packets in all. Rates above one packet per tick are no limit.
    #[must_use]
    pub fn new(rate: Option<f64>, frequency: f64, start: u64, limit: u64) -> Self {
        let per_tick = rate.map(|rate| rate / frequency).filter(|per_tick| *per_tick < 1.0);
        // 2^64; the product stays below it.
        Self { per_tick: per_tick.map(|p| (p * 18_446_744_073_709_551_616.0) as u64), start, limit }
    }

    /// The same, `limit` packets in all.
    #[must_use]
    pub const fn limited_to(self, limit: u64) -> Self {
        Self { limit, ..self }
    }

    /// Packets due since the start at tick `now`.
    #[inline(always)]
    #[must_use]
    pub const fn due(&self, now: u64) -> u64 {
        let due = match self.per_tick {
            None => return self.limit,
            Some(per_tick) => {
                // The first packet is due at once, like that of a schedule which begins at 0.
                let elapsed = now.saturating_sub(self.start);
                ((elapsed as u128 * per_tick as u128) >> 64) as u64 + 1
            }
        };
        if due < self.limit { due } else { self.limit }
    }

    /// Packets whose time was more than `bound` ticks before tick `now`; none without a rate.
    #[inline(always)]
    #[must_use]
    pub const fn overdue(&self, now: u64, bound: u64) -> u64 {
        match now.checked_sub(bound) {
            Some(then) if then > self.start && self.is_limited() => self.due(then - 1),
            _ => 0,
        }
    }

    /// Whether the rate has a limit.
    #[must_use]
    pub const fn is_limited(&self) -> bool {
        self.per_tick.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HZ: f64 = 2_596_000_000.0;

    #[test]
    fn each_second_has_its_packets_whatever_happens_in_between() {
        for rate in [1.0, 9_000.0, 123_457.0, 14_880_952.0, 59_523_809.0] {
            let pace = Pace::new(Some(rate), HZ, 77, u64::MAX);
            let mut last = 0;
            for second in 1..=600u64 {
                let due = pace.due(77 + second * HZ as u64);
                assert!((due as f64 - 1.0 - rate * second as f64).abs() <= 1.0 + rate * second as f64 * 1e-9);
                assert!(((due - last) as f64 - rate).abs() <= 2.0, "{rate} in second {second}");
                last = due;
            }
        }
    }

    #[test]
    fn packets_are_evenly_spaced() {
        let pace = Pace::new(Some(1e6), 1e9, 0, u64::MAX);
        let times: Vec<u64> = (0..100_000)
            .step_by(10)
            .scan(0, |sent, now| {
                let due = pace.due(now);
                let n = due - *sent;
                *sent = due;
                Some((n, now))
            })
            .filter(|(n, _)| *n > 0)
            .map(|(n, now)| {
                assert_eq!(n, 1);
                now
            })
            .collect();
        assert!(times.windows(2).all(|pair| (990..=1010).contains(&(pair[1] - pair[0]))));
    }

    #[test]
    fn no_rate_and_rates_beyond_the_clock_have_no_limit_but_the_count() {
        assert_eq!(Pace::new(None, HZ, 5, 1000).due(5), 1000);
        assert_eq!(Pace::new(Some(1e10), HZ, 5, u64::MAX).due(5), u64::MAX);
        assert_eq!(Pace::new(Some(1e6), HZ, 0, 10).due(u64::MAX), 10);
    }

    #[test]
    fn overdue_is_what_was_due_the_bound_ago() {
        let pace = Pace::new(Some(1e6), 1e9, 5000, 10);
        // Packet n is due at 5000 + 1000 n.
        let overdue: Vec<u64> =
            [0, 5000, 5200, 5201, 6200, 6202, 7202, u64::MAX].map(|now| pace.overdue(now, 200)).into();
        assert_eq!(overdue, [0, 0, 0, 1, 1, 2, 3, 10]);
        assert_eq!(Pace::new(None, 1e9, 0, 10).overdue(u64::MAX, 0), 0, "without a rate nothing has a time");
    }

    #[test]
    fn a_clock_that_steps_back_is_no_harm() {
        assert_eq!(Pace::new(Some(1e6), HZ, 1000, u64::MAX).due(10), 1);
    }
}
