//! How far apart two cores are at this moment.
//!
//! Virtual cores may be hyper-threads of one core, share a last-level cache or not, and the host may change that at any
//! time. A cache line that goes there and back tells; figures of different placements must not be compared.

use serde::Serialize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// What the round trip says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Placement {
    /// Hyper-threads of one core.
    Sibling,
    /// The same last-level cache.
    Near,
    /// Different last-level caches.
    Far,
    /// Another before than after.
    Moved,
    /// No two cores are so far apart: somebody else was on one of them.
    Disturbed,
}

impl Placement {
    /// By the round trips of a cache line in nanoseconds before and after a run; the limits, which `quiver-bench` has, too, lie
    /// between what is seen on EPYC (60, 105–140, 540–630).
    #[must_use]
    pub fn of((before, after): (f64, f64)) -> Self {
        match (Self::at(before), Self::at(after)) {
            (before, after) if before == after => before,
            (Self::Disturbed, _) | (_, Self::Disturbed) => Self::Disturbed,
            _ => Self::Moved,
        }
    }

    /// At a moment.
    fn at(round_trip_ns: f64) -> Self {
        match round_trip_ns {
            ns if ns < 85.0 => Self::Sibling,
            ns if ns < 300.0 => Self::Near,
            ns if ns < 2000.0 => Self::Far,
            _ => Self::Disturbed,
        }
    }
}

impl core::fmt::Display for Placement {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Sibling => "sibling",
            Self::Near => "near",
            Self::Far => "far",
            Self::Moved => "moved",
            Self::Disturbed => "disturbed",
        })
    }
}

/// The lines that are sent to and fro, each way: where a line's home is in the chip decides how long it takes, so
/// that one line alone would tell of itself.
const LINES: usize = 64;

#[repr(align(128))]
#[derive(Default)]
struct Line(AtomicU64);

/// Trips that are timed together, and how often: short, so that a core's owner, who may be at work there, disturbs only
/// some of them.
const BATCH: usize = 512;
const BATCHES: usize = 64;

/// Round trip of a cache line between cores `here` and `there`, in nanoseconds, over lines in different places: what is
/// usual. `None` where a core can't be had.
#[must_use]
pub fn round_trip_ns(here: usize, there: usize) -> Option<f64> {
    const TRIPS: usize = 1 + BATCH * BATCHES;
    let measure = move || -> Option<f64> {
        let lines: Arc<[(Line, Line); LINES]> = Arc::new(std::array::from_fn(|_| Default::default()));
        let theirs = Arc::clone(&lines);
        let (ready, pinned) = std::sync::mpsc::sync_channel(1);
        // They spin without a pause: some CPUs' pause takes longer than the trip.
        let echo = std::thread::spawn(move || {
            pin(there)?;
            ready.send(()).ok()?;
            for (n, (ping, pong)) in (1..=TRIPS).zip(theirs.iter().cycle()) {
                while ping.0.load(Ordering::Acquire) != n as u64 {}
                pong.0.store(n as u64, Ordering::Release);
            }
            Some(())
        });
        let asker = std::thread::spawn(move || {
            pin(here)?;
            pinned.recv().ok()?;
            let mut trips = (1..=TRIPS).zip(lines.iter().cycle());
            let mut trip = || {
                let (n, (ping, pong)) = trips.next()?;
                ping.0.store(n as u64, Ordering::Release);
                while pong.0.load(Ordering::Acquire) != n as u64 {}
                Some(())
            };
            // The first trip waits for the other thread to start.
            trip()?;
            let mut batches = [0.0; BATCHES];
            for batch in &mut batches {
                let start = Instant::now();
                for _ in 0..BATCH {
                    trip()?;
                }
                *batch = start.elapsed().as_secs_f64() * 1e9 / BATCH as f64;
            }
            batches.sort_by(f64::total_cmp);
            batches.get(BATCHES / 2).copied()
        });
        let result = asker.join().ok()??;
        echo.join().ok()??;
        Some(result)
    };
    if !is_there(here) || !is_there(there) || here == there {
        return None;
    }
    measure()
}

/// Whether the machine has a core of that number.
#[must_use]
pub fn is_there(core: usize) -> bool {
    std::fs::metadata(format!("/sys/devices/system/cpu/cpu{core}")).is_ok()
}

/// Runs this thread on `core` only. `None` where that can't be had.
pub fn pin(core: usize) -> Option<()> {
    let mut set = rustix::thread::CpuSet::new();
    if core >= rustix::thread::CpuSet::MAX_CPU {
        return None;
    }
    set.set(core);
    rustix::thread::sched_setaffinity(None, &set).ok()
}

#[cfg(test)]
mod tests {
    use super::Placement;

    #[test]
    fn a_placement_is_that_of_before_and_after() {
        let cases = [
            (60.0, 84.9, "sibling"),
            (105.0, 299.0, "near"),
            (540.0, 1999.0, "far"),
            (60.0, 120.0, "moved"),
            (600.0, 120.0, "moved"),
            (2000.0, 9e6, "disturbed"),
            (120.0, 2000.0, "disturbed"),
        ];
        for (before, after, expected) in cases {
            assert_eq!(Placement::of((before, after)).to_string(), expected);
        }
    }
}
