//! When a lane's packets are due.

use super::pace::Pace;

/// When packets are due.
#[derive(Debug)]
pub(super) enum Schedule {
    Pace(Pace),
    /// Ticks after the start, of each packet of a recording; ticks of the whole.
    Times {
        start: u64,
        ticks: Vec<u64>,
        period: u64,
        pass: u64,
        at: usize,
        limit: u64,
    },
}

impl Schedule {
    /// Packets due by `now`, in all.
    #[inline(always)]
    pub(super) fn due(&mut self, now: u64) -> u64 {
        match self {
            Self::Pace(pace) => pace.due(now),
            Self::Times { start, ticks, period, pass, at, limit } => {
                let elapsed = now.saturating_sub(*start);
                while ticks.get(*at).is_some_and(|tick| *tick + *pass * *period <= elapsed) {
                    *at += 1;
                    if *at == ticks.len() {
                        (*at, *pass) = (0, *pass + 1);
                    }
                }
                (*pass * ticks.len() as u64 + *at as u64).min(*limit)
            }
        }
    }

    /// Nothing more is due after so many packets.
    pub(super) const fn limit_to(&mut self, packets: u64) {
        match self {
            Self::Pace(pace) => *pace = pace.limited_to(packets),
            Self::Times { limit, .. } => *limit = packets,
        }
    }

    /// Packets whose time was more than `bound` ticks before `now`. Those of a recording are never missed.
    #[inline(always)]
    pub(super) const fn overdue(&self, now: u64, bound: u64) -> u64 {
        match self {
            Self::Pace(pace) => pace.overdue(now, bound),
            Self::Times { .. } => 0,
        }
    }

    /// Whether anything but the link limits it.
    pub(super) const fn is_limited(&self) -> bool {
        match self {
            Self::Pace(pace) => pace.is_limited(),
            Self::Times { .. } => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(ticks: &[u64], limit: u64) -> Schedule {
        Schedule::Times { start: 1000, ticks: ticks.to_vec(), period: 100, pass: 0, at: 0, limit }
    }

    #[test]
    fn recorded_times_are_kept_and_repeated() {
        let mut schedule = times(&[0, 10, 10, 70], u64::MAX);
        let due: Vec<u64> =
            [999, 1000, 1009, 1010, 1069, 1070, 1099, 1100, 1110, 1200].map(|now| schedule.due(now)).into();
        assert_eq!(due, [1, 1, 1, 3, 3, 4, 4, 5, 7, 9]);
    }

    #[test]
    fn whoever_comes_late_gets_all_that_is_due() {
        assert_eq!(times(&[0, 10, 20], u64::MAX).due(1000 + 100 * 1000), 3 * 1000 + 1);
        assert_eq!(times(&[0, 10, 20], 7).due(1000 + 100 * 1000), 7);
    }
}
