//! The cycle counter as a clock.

use memory::clock::cycles;
use std::time::{Duration, Instant};

/// Least time between two looks at both clocks: an error of 100 ns in it is 2 millionths.
const BASE: Duration = Duration::from_millis(50);

/// How fast the cycle counter runs, found by comparing it with the system's clock.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    started: Instant,
    at: u64,
}

impl Clock {
    /// Looks at both clocks for the first time: as early as possible.
    #[must_use]
    pub fn start() -> Self {
        Self { started: Instant::now(), at: cycles() }
    }

    /// Ticks of the cycle counter per second. Sleeps if the first look was a moment ago.
    #[must_use]
    pub fn frequency(&self) -> f64 {
        std::thread::sleep(BASE.saturating_sub(self.started.elapsed()));
        // The best of a few: nothing came between the two readings.
        let pairs = (0..16).map(|_| {
            let before = cycles();
            let elapsed = self.started.elapsed();
            let after = cycles();
            (after.wrapping_sub(before), before.wrapping_add(after.wrapping_sub(before) / 2), elapsed)
        });
        let (_, at, elapsed) = pairs.min_by_key(|pair| pair.0).unwrap_or((0, self.at, BASE));
        at.wrapping_sub(self.at) as f64 / elapsed.as_secs_f64()
    }
}
