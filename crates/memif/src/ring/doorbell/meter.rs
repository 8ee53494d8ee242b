//! What calls cost, without asking for it each time.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use super::costs::FREE;

/// How old the last answer of the processor's clock may be.
const FRESH: Duration = Duration::from_millis(10);

/// Time of a processor that this thread has used. Not what passes meanwhile: nobody answers for the time in which others run.
pub(crate) fn used() -> Duration {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(used.tv_sec.unsigned_abs(), used.tv_nsec as u32)
}

/// Measures calls of the thread that has made it.
///
/// To ask the processor's clock takes longer than a signal; the clock on the wall is at hand. A call that was short by that has cost little.
/// Of one that wasn't, the processor's clock tells what was used since it was asked last, and the other one for how long the thread
/// was awake apart from the call: the call has cost the difference at least, and hardly more. So nobody is charged for the time in which
/// others had the processor.
#[derive(Debug)]
pub(super) struct Meter {
    /// What had been used when that was asked for last, and when that was.
    used: Duration,
    at: Instant,
    /// For how long the thread was awake since then, long calls apart.
    awake: Duration,
    /// Since when it is, if that isn't in `awake` yet.
    since: Instant,
}

impl Meter {
    pub(super) fn new() -> Self {
        let now = Instant::now();
        Self { used: used(), at: now, awake: Duration::ZERO, since: now }
    }

    /// The thread has woken up.
    pub(super) fn wakes(&mut self) {
        self.since = Instant::now();
    }

    /// A call that was begun `before` is done. What it has cost, if that is worth telling.
    pub(super) fn call(&mut self, before: Instant, now: Instant) -> Option<Duration> {
        if now.saturating_duration_since(before) <= FREE {
            return None;
        }
        self.awake += before.saturating_duration_since(self.since);
        let all = self.ask(now);
        Some(all.1.saturating_sub(all.0))
    }

    /// The thread is about to sleep. What it has used since this was told last, now and then.
    pub(super) fn sleeps(&mut self, now: Instant) -> Option<Duration> {
        self.awake += now.saturating_duration_since(self.since);
        self.since = now;
        (now.saturating_duration_since(self.at) > FRESH).then(|| self.ask(now).1)
    }

    /// For how long the thread was awake, and what it has used.
    fn ask(&mut self, now: Instant) -> (Duration, Duration) {
        let before = std::mem::replace(&mut self.used, used());
        let awake = std::mem::take(&mut self.awake);
        (self.at, self.since) = (now, now);
        (awake, self.used.saturating_sub(before))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(time: Duration) {
        let begin = used();
        while used() - begin < time {
            std::hint::spin_loop();
        }
    }

    #[test]
    fn what_a_call_uses_is_its_cost_and_what_others_use_is_not() {
        let mut meter = Meter::new();
        let mut call = |body: &dyn Fn()| {
            let before = Instant::now();
            body();
            meter.call(before, Instant::now())
        };
        let ms = Duration::from_millis;
        let cost = call(&|| work(ms(200))).unwrap();
        assert!(cost >= ms(100), "{cost:?}");
        // As if it had no processor.
        let cost = call(&|| std::thread::sleep(ms(50))).unwrap();
        assert!(cost < ms(20), "{cost:?}");
        // What the thread did before isn't the call's.
        let mut meter = Meter::new();
        work(ms(30));
        let before = Instant::now();
        std::thread::sleep(ms(5));
        let cost = meter.call(before, Instant::now()).unwrap();
        assert!(cost < ms(20), "{cost:?}");
        let mut meter = Meter::new();
        work(ms(30));
        let used = meter.sleeps(Instant::now()).unwrap();
        assert!(used >= ms(30), "{used:?}");
    }
}
