//! How much of a processor a doorbell thread may use, whatever its peer does.

use std::time::{Duration, Instant};

/// Of one processor, over time. Beyond it the thread waits between signals, so that more requests are one.
pub(super) const SHARE: f64 = 0.2;
/// What it may use at once.
const BURST: Duration = Duration::from_millis(20);
/// The shortest pause: about what a wake-up costs.
const SHORTEST: Duration = Duration::from_micros(50);

/// Time of a processor that is left.
#[derive(Debug)]
pub(super) struct Pace {
    left: f64,
    at: Instant,
}

impl Pace {
    pub(super) fn new(now: Instant) -> Self {
        Self { left: BURST.as_secs_f64(), at: now }
    }

    /// So much was used.
    pub(super) fn used(&mut self, now: Instant, used: Duration) {
        let gained = now.saturating_duration_since(self.at).as_secs_f64() * SHARE;
        self.left = (self.left + gained).min(BURST.as_secs_f64()) - used.as_secs_f64();
        self.at = now;
    }

    /// How long to wait before more is used.
    pub(super) fn pause(&self, now: Instant) -> Option<Duration> {
        let gained = now.saturating_duration_since(self.at).as_secs_f64() * SHARE;
        let missing = -(self.left + gained);
        (missing > 0.0).then(|| Duration::from_secs_f64(missing / SHARE).max(SHORTEST))
    }
}

/// Signals of the peer that were of no use. Some are usual: who has seen that the worker sleeps signals it, also if that wakes up just then.
/// Beyond that the next ones are looked at later, and later still as long as that goes on.
#[derive(Debug)]
pub(super) struct Flood {
    /// Useless signals that are looked at without delay.
    left: u32,
    /// Since when that many are left.
    since: Instant,
    pause: Duration,
}

/// So many at once, and one more in each of these intervals.
const USUAL: u32 = 32;
const INTERVAL: Duration = Duration::from_micros(100);
/// What the first one beyond that leads to.
const FIRST: Duration = Duration::from_micros(50);
/// What a peer may be late by that signals without end, whether or not we want that: for as long a worker that falls asleep isn't woken.
const LAST: Duration = Duration::from_micros(800);

impl Flood {
    pub(super) const fn new(now: Instant) -> Self {
        Self { left: USUAL, since: now, pause: FIRST }
    }

    /// A signal was of no use; gives how long not to look for the next.
    pub(super) fn useless(&mut self, now: Instant) -> Option<Duration> {
        let passed = now.saturating_duration_since(self.since).as_micros() / INTERVAL.as_micros();
        let gained = u32::try_from(passed).unwrap_or(USUAL);
        if gained > 0 {
            (self.left, self.since) = (self.left.saturating_add(gained).min(USUAL), now);
        }
        if self.left > 0 {
            self.left -= 1;
            if self.left == USUAL - 1 {
                self.pause = FIRST;
            }
            return None;
        }
        let pause = self.pause;
        self.pause = (2 * pause).min(LAST);
        // What was gained in a pause isn't there to be used up at once.
        self.since = now + pause;
        Some(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_a_processor_is_never_exceeded_for_long() {
        let begin = Instant::now();
        let (mut pace, mut now, mut used) = (Pace::new(begin), begin, Duration::ZERO);
        let cost = Duration::from_micros(3);
        while now - begin < Duration::from_secs(10) {
            (now, used) = (now + cost, used + cost);
            pace.used(now, cost);
            now += pace.pause(now).unwrap_or_default();
        }
        let share = used.as_secs_f64() / 10.0;
        assert!(share < SHARE * 1.02 && share > SHARE * 0.9, "{share}");
    }

    #[test]
    fn who_uses_little_never_waits() {
        let begin = Instant::now();
        let mut pace = Pace::new(begin);
        for n in 1..100_000_u32 {
            let now = begin + n * Duration::from_micros(20);
            pace.used(now, Duration::from_micros(3));
            assert_eq!(pace.pause(now), None);
        }
        // Nothing is saved up beyond the burst.
        let at = begin + Duration::from_secs(1000);
        pace.used(at, BURST);
        assert_eq!(pace.pause(at), None);
        pace.used(at, Duration::from_millis(1));
        assert_eq!(pace.pause(at).map(|pause| pause.as_millis()), Some(5));
    }

    /// How many are looked at without delay, and the pause after these.
    fn free(flood: &mut Flood, now: Instant) -> (u32, Duration) {
        (0..100).find_map(|free| Some((free, flood.useless(now)?))).unwrap()
    }

    #[test]
    fn who_signals_in_vain_is_heard_less_often_and_is_forgiven() {
        let begin = Instant::now();
        let (mut flood, mut now) = (Flood::new(begin), begin);
        let (usual, mut pause) = free(&mut flood, now);
        assert_eq!((usual, pause), (USUAL, FIRST));
        let mut pauses = Vec::new();
        for _ in 0..6 {
            now += pause;
            pause = flood.useless(now).unwrap();
            pauses.push(pause.as_micros());
        }
        assert_eq!(pauses, [100, 200, 400, 800, 800, 800]);
        // One for each interval in which there was none.
        now += pause + 3 * INTERVAL;
        assert_eq!(free(&mut flood, now), (3, LAST));
        now += Duration::from_millis(10);
        assert_eq!(free(&mut flood, now), (USUAL, FIRST));
    }
}
