//! What a port's output may cost: a bound on the processor time of frames that are expensive to deliver.
//!
//! An ordinary frame takes the kernel a few microseconds, and the thread may write such frames all the time. A frame that takes longer than [`EXPENSIVE`] is
//! charged to a token bucket, [`SHARE`] of a core. While the bucket is empty, frames for the port are dropped. A pod whose frames take
//! longer than [`HEAVY`] holds up a core for that long, because the kernel isn't preempted there: the port is suspended for a back-off that grows.
//!
//! Costs are the thread's processor time, so neither preemption nor a busy host counts against a pod. Interrupts that fall into a frame do, and what they have the
//! kernel do for others. They fall into few frames of many: an expensive frame behind [`FEW`] that weren't is in doubt, and as long as it is shorter than [`CERTAIN`], it is only
//! charged to a second bucket, half of a core.

use std::time::Duration;

/// Processor time from which a frame is expensive.
pub(super) const EXPENSIVE: Duration = Duration::from_micros(100);
/// Processor time from which a frame is heavy.
pub(super) const HEAVY: Duration = Duration::from_millis(1);
/// An expensive frame behind so many others is in doubt: interrupts come a thousand times a second at most, and a frame takes some microseconds.
const FEW: u32 = 32;
/// Processor time from which there is no doubt. The kernel works for 8 ms at most in one interrupt, unless somebody makes it.
const CERTAIN: Duration = Duration::from_millis(20);
/// Heavy frames are evidence together when no more than this lies between them: one alone may be bad luck.
const TOGETHER: Duration = Duration::from_secs(10);
/// Part of a core that expensive frames may take: one in so many.
const SHARE: u32 = 10;
/// What the bucket holds.
const BURST: Duration = Duration::from_millis(20);
/// The same for frames that are in doubt.
const DOUBT_SHARE: u32 = 2;
const DOUBT_BURST: Duration = Duration::from_millis(200);
/// First and longest suspension after heavy frames; each is [`GROWTH`] times as long as the one before.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);
const GROWTH: u32 = 4;
/// Time without heavy frames after which the next suspension is a first one.
const FORGIVEN: Duration = Duration::from_secs(60);

/// Processor time that frames of a kind may take.
#[derive(Debug)]
struct Bucket {
    /// Part of a core: one in so many.
    share: u32,
    burst: Duration,
    /// What they may still take.
    left: Duration,
    /// Times are since the start of the monotonic clock.
    refilled: Duration,
}

impl Bucket {
    const fn new(share: u32, burst: Duration, now: Duration) -> Self {
        Self { share, burst, left: burst, refilled: now }
    }

    /// Takes out what a frame took. Returns after what time the rest will have come in, which it counts as paid.
    fn charge(&mut self, cost: Duration, now: Duration) -> Duration {
        let since = now.saturating_sub(self.refilled);
        self.refilled = self.refilled.max(now);
        self.left = (self.left + since / self.share).min(self.burst);
        let covered = self.left.min(cost);
        self.left -= covered;
        (cost - covered) * self.share
    }

    /// Nothing comes in before this time: it pays a debt.
    fn pays_until(&mut self, until: Duration) {
        self.refilled = until;
    }
}

/// Account of one port.
#[derive(Debug)]
pub(super) struct Pace {
    expensive: Bucket,
    doubtful: Bucket,
    /// Frames since the last expensive one.
    cheap: u32,
    last_heavy: Option<Duration>,
    /// The next suspension after heavy frames.
    next: Duration,
    until: Option<Duration>,
}

impl Pace {
    pub(super) const fn new(now: Duration) -> Self {
        let (expensive, doubtful) =
            (Bucket::new(SHARE, BURST, now), Bucket::new(DOUBT_SHARE, DOUBT_BURST, now));
        Self { expensive, doubtful, cheap: 0, last_heavy: None, next: FIRST, until: None }
    }

    /// Whether frames are dropped at this time.
    pub(super) fn is_suspended(&mut self, now: Duration) -> bool {
        self.until = self.until.filter(|until| now < *until);
        self.until.is_some()
    }

    /// A frame wasn't expensive.
    pub(super) const fn cheap(&mut self) {
        self.cheap = self.cheap.saturating_add(1);
    }

    /// A frame took so much processor time. Returns for how long the port is suspended because of it.
    pub(super) fn charge(&mut self, cost: Duration, now: Duration) -> Option<Duration> {
        if cost < EXPENSIVE {
            self.cheap();
            return None;
        }
        let in_doubt = core::mem::take(&mut self.cheap) >= FEW && cost < CERTAIN;
        let bucket = if in_doubt { &mut self.doubtful } else { &mut self.expensive };
        let debt = bucket.charge(cost, now);
        let mut pause = debt;
        if cost >= HEAVY && !in_doubt {
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
        bucket.pays_until(now + pause);
        self.until = Some(now + pause);
        Some(pause)
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

    /// What interrupts add to one frame in a thousand of a busy port is not the pod's.
    #[test]
    fn few_expensive_frames_among_many_are_in_doubt() {
        let start = Duration::from_secs(1000);
        let (mut pace, mut now) = (Pace::new(start), start);
        for _ in 0..10_000 {
            (0..250).for_each(|_| pace.cheap());
            now += 10 * MS;
            assert_eq!(pace.charge(4 * MS, now), None);
        }
        // More than half of a core is too much nevertheless, and so is one frame that no interrupt explains.
        let mut spent = Duration::ZERO;
        while pace.charge(4 * MS, now).is_none() {
            (0..FEW).for_each(|_| pace.cheap());
            (now, spent) = (now + 4 * MS, spent + 4 * MS);
        }
        assert!((300..500).contains(&spent.as_millis()), "{spent:?}");
        let later = now + Duration::from_secs(100);
        (0..250).for_each(|_| pace.cheap());
        assert_eq!(pace.charge(21 * MS, later), Some(10 * MS));
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
