//! What a peer makes its signals cost, and for how long it is excluded for that.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What a call may cost without being counted: many times what an eventfd costs that a few threads wait for.
pub(crate) const FREE: Duration = Duration::from_micros(50);
/// What calls may cost besides, at once: more than a processor's interrupts add to one now and then.
pub(crate) const BURST: Duration = Duration::from_millis(15);
/// The same over time, of one processor.
const RATE: f64 = 0.05;
/// [`RATE`], for people.
pub(crate) const PERCENT: u32 = 5;
/// The same for what a call didn't cost when it was made once more: interrupts fall into calls, and what they have the kernel do for others may be long.
const DOUBT_BURST: Duration = Duration::from_millis(300);
const DOUBT_RATE: f64 = 0.2;
/// The first exclusion; each is twice as long as the one before, up to the last.
const FIRST: Duration = Duration::from_secs(1);
const LAST: Duration = Duration::from_secs(300);
/// After so long without another one, an exclusion is forgotten.
const FORGOTTEN: Duration = Duration::from_secs(600);

/// What the peers of one interface have cost, over all its connections: to come back changes nothing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Costs(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// Seconds of a processor beyond what is free, less what has been forgiven since.
    excess: f64,
    /// The same of what is in doubt.
    doubt: f64,
    /// As of then.
    at: Option<Instant>,
    exclusion: Option<Exclusion>,
}

#[derive(Debug, Clone, Copy)]
struct Exclusion {
    until: Instant,
    length: Duration,
}

/// A peer has cost too much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Overrun {
    /// What the last call cost.
    pub(crate) last: Duration,
    /// For how long none is let in.
    pub(crate) excluded: Duration,
}

impl Costs {
    /// A call has cost so much; gives whether that was too much. Told once: the connection is to end.
    pub(crate) fn charge(&self, now: Instant, cost: Duration) -> Option<Overrun> {
        // The usual case, without a lock.
        self.charge_again(now, cost, cost)
    }

    /// The same of a call that cost `again` when it was made once more at once: of what it cost the first time only, much more is allowed.
    pub(crate) fn charge_again(&self, now: Instant, cost: Duration, again: Duration) -> Option<Overrun> {
        let all = cost.checked_sub(FREE).filter(|excess| !excess.is_zero())?;
        let excess = all.min(again.saturating_sub(FREE));
        self.state().charge(now, cost, (excess, all - excess))
    }

    /// For how long no peer is let in.
    pub(crate) fn excluded(&self, now: Instant) -> Option<Duration> {
        let left = self.state().exclusion?.until.saturating_duration_since(now);
        (!left.is_zero()).then_some(left)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn charge(
        &mut self,
        now: Instant,
        cost: Duration,
        (excess, doubt): (Duration, Duration),
    ) -> Option<Overrun> {
        if self.exclusion.is_some_and(|one| now < one.until) {
            return None;
        }
        let passed = self.at.map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        let passed = passed.as_secs_f64();
        self.excess = (self.excess - passed * RATE).max(0.0) + excess.as_secs_f64();
        self.doubt = (self.doubt - passed * DOUBT_RATE).max(0.0) + doubt.as_secs_f64();
        self.at = Some(now);
        if self.excess <= BURST.as_secs_f64() && self.doubt <= DOUBT_BURST.as_secs_f64() {
            return None;
        }
        (self.excess, self.doubt) = (0.0, 0.0);
        let before = self.exclusion.filter(|one| now.saturating_duration_since(one.until) < FORGOTTEN);
        let excluded = before.map_or(FIRST, |one| (2 * one.length).min(LAST));
        self.exclusion = Some(Exclusion { until: now + excluded, length: excluded });
        Some(Overrun { last: cost, excluded })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn what_usual_signals_cost_is_never_too_much() {
        let (costs, begin) = (Costs::default(), Instant::now());
        for n in 0..1_000_000_u32 {
            assert_eq!(costs.charge(begin + n * Duration::from_micros(2), Duration::from_micros(10)), None);
        }
        // An interrupt now and then, whatever it does meanwhile: four of 10 ms in a second.
        for n in 0..100 {
            assert_eq!(costs.charge(begin + n * 250 * MS, 10 * MS), None, "{n}");
        }
    }

    #[test]
    fn what_a_call_did_not_cost_again_is_in_doubt() {
        let (costs, begin) = (Costs::default(), Instant::now());
        for n in 0..1000 {
            assert_eq!(costs.charge_again(begin + n * 50 * MS, 10 * MS, Duration::ZERO), None, "{n}");
        }
        assert!(costs.charge_again(begin + 50_000 * MS, 400 * MS, MS / 100).is_some());
        let costs = Costs::default();
        assert_eq!(costs.charge_again(begin, 14 * MS, 14 * MS), None);
        assert!(costs.charge_again(begin, 300 * MS, 10 * MS).is_some(), "24 ms came again");
    }

    #[test]
    fn one_call_or_many_are_too_much() {
        let begin = Instant::now();
        let told = Costs::default().charge(begin, 188 * MS).unwrap();
        assert_eq!(told, Overrun { last: 188 * MS, excluded: FIRST });
        let costs = Costs::default();
        assert_eq!(costs.charge(begin, 14 * MS), None);
        assert!(costs.charge(begin + 20 * MS, 14 * MS).is_some());
        // Each little enough: a thousand of 0.1 ms in a second are no more than five in a hundred.
        let share = |each: Duration| {
            let costs = Costs::default();
            (0..2000).any(|n| costs.charge(begin + n * MS, each).is_some())
        };
        assert!(!share(FREE + Duration::from_micros(45)));
        assert!(share(FREE + Duration::from_micros(65)));
    }

    #[test]
    fn exclusions_double_and_are_forgotten() {
        let (costs, mut now) = (Costs::default(), Instant::now());
        let mut lengths = Vec::new();
        for _ in 0..11 {
            let Overrun { excluded, .. } = costs.charge(now, 100 * MS).unwrap();
            assert_eq!(costs.excluded(now), Some(excluded));
            assert_eq!(costs.charge(now + MS, 100 * MS), None, "it is excluded, and being closed");
            assert_eq!(costs.excluded(now + MS), Some(excluded - MS));
            now += excluded;
            assert_eq!(costs.excluded(now), None);
            lengths.push(excluded.as_secs());
        }
        assert_eq!(lengths, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        assert_eq!(costs.charge(now + FORGOTTEN, 100 * MS).unwrap().excluded, FIRST);
    }
}
