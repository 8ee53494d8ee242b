//! What a port's output may cost: a bound on the processor time of frames that are expensive to deliver.
//!
//! An ordinary frame takes the kernel a few microseconds, and the thread may write such frames all the time. A frame that takes longer than [`EXPENSIVE`] is
//! charged to a token bucket, [`SHARE`] of a core. While the bucket is empty, frames for the port are dropped. A pod whose frames take
//! longer than [`HEAVY`] holds up a core for that long, because the kernel isn't preempted there: the port is suspended for a back-off that grows.
//!
//! Costs are the thread's processor time, so neither preemption nor a busy host counts against a pod.

use std::time::Duration;

/// Processor time from which a frame is expensive.
pub(super) const EXPENSIVE: Duration = Duration::from_micros(100);
/// Processor time from which a frame is heavy.
pub(super) const HEAVY: Duration = Duration::from_millis(1);
/// Heavy frames are evidence together when no more than this lies between them: one alone may be bad luck.
const TOGETHER: Duration = Duration::from_secs(10);
/// Part of a core that expensive frames may take: one in so many.
const SHARE: u32 = 10;
/// What the bucket holds.
const BURST: Duration = Duration::from_millis(20);
/// First and longest suspension after heavy frames; each is [`GROWTH`] times as long as the one before.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);
const GROWTH: u32 = 4;
/// Time without heavy frames after which the next suspension is a first one.
const FORGIVEN: Duration = Duration::from_secs(60);

/// Account of one port.
#[derive(Debug)]
pub(super) struct Pace {
    /// What expensive frames may still take.
    left: Duration,
    /// What they took beyond that.
    debt: Duration,
    /// Times are since the start of the monotonic clock.
    refilled: Duration,
    last_heavy: Option<Duration>,
    /// The next suspension after heavy frames.
    next: Duration,
    until: Option<Duration>,
}

impl Pace {
    pub(super) const fn new(now: Duration) -> Self {
        Self { left: BURST, debt: Duration::ZERO, refilled: now, last_heavy: None, next: FIRST, until: None }
    }

    /// Whether frames are dropped at this time.
    pub(super) fn is_suspended(&mut self, now: Duration) -> bool {
        self.until = self.until.filter(|until| now < *until);
        self.until.is_some()
    }

    /// A frame took so much processor time. Returns for how long the port is suspended because of it.
    pub(super) fn charge(&mut self, cost: Duration, now: Duration) -> Option<Duration> {
        if cost < EXPENSIVE {
            return None;
        }
        self.refill(now);
        let covered = self.left.min(cost);
        self.left -= covered;
        self.debt += cost - covered;
        let mut pause = self.debt * SHARE;
        if cost >= HEAVY {
            let before = self.last_heavy.replace(now).map(|before| now.saturating_sub(before));
            if before.is_some_and(|before| before <= TOGETHER + self.next) {
                pause = pause.max(self.next);
                self.next = (self.next * GROWTH).min(LONGEST);
            } else if before.is_some_and(|before| before >= FORGIVEN + self.next) {
                self.next = FIRST;
            }
        }
        if pause.is_zero() {
            return None;
        }
        // The suspension pays the debt.
        (self.until, self.debt) = (Some(now + pause), Duration::ZERO);
        self.refilled = now + pause;
        Some(pause)
    }

    fn refill(&mut self, now: Duration) {
        let since = now.saturating_sub(self.refilled);
        self.refilled = self.refilled.max(now);
        self.left = (self.left + since / SHARE).min(BURST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn ordinary_frames_are_never_charged() {
        let start = Duration::from_secs(1000);
        let mut pace = Pace::new(start);
        for n in 0..1_000_000 {
            assert_eq!(pace.charge(Duration::from_micros(99), start + Duration::from_micros(100 * n)), None);
        }
        assert!(!pace.is_suspended(start));
    }

    #[test]
    fn expensive_frames_get_a_tenth_of_a_core() {
        let start = Duration::from_secs(1000);
        let (mut pace, mut now, mut spent) = (Pace::new(start), start, Duration::ZERO);
        let cost = Duration::from_micros(500);
        while now < start + Duration::from_secs(10) {
            if pace.is_suspended(now) {
                now += MS / 10;
                continue;
            }
            now += cost;
            spent += cost;
            pace.charge(cost, now);
        }
        let share = spent.as_secs_f64() / 10.0;
        assert!((0.09..0.12).contains(&share), "{share}");
    }

    #[test]
    fn one_heavy_frame_is_forgiven_and_the_second_suspends_for_longer_and_longer() {
        let start = Duration::from_secs(1000);
        let mut pace = Pace::new(start);
        assert_eq!(pace.charge(2 * MS, start), None);
        let mut now = start + MS;
        let mut pauses = Vec::new();
        for _ in 0..5 {
            let pause = pace.charge(2 * MS, now).expect("suspended");
            assert!(pace.is_suspended(now) && !pace.is_suspended(now + pause));
            pauses.push(pause.as_secs());
            now += pause + MS;
            // The first frame after the suspension is evidence again.
        }
        assert_eq!(pauses, [1, 4, 16, 60, 60]);
    }

    #[test]
    fn a_frame_that_takes_a_second_suspends_at_once() {
        let start = Duration::from_secs(1000);
        let pause = Pace::new(start).charge(Duration::from_secs(1), start).expect("suspended");
        assert!(pause > Duration::from_secs(9), "{pause:?}");
    }

    #[test]
    fn what_was_long_ago_is_forgiven() {
        let start = Duration::from_secs(1000);
        let mut pace = Pace::new(start);
        pace.charge(2 * MS, start);
        assert_eq!(pace.charge(2 * MS, start + MS), Some(FIRST));
        let later = start + Duration::from_secs(300);
        assert_eq!(pace.charge(2 * MS, later), None);
        assert_eq!(pace.charge(2 * MS, later + MS), Some(FIRST));
    }
}
