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
}

impl Placement {
    /// By the round trip of a cache line in nanoseconds; the limits lie between what is seen on EPYC (60, 105–140,
    /// 540–630).
    #[must_use]
    pub fn of(round_trip_ns: f64) -> Self {
        match round_trip_ns {
            ns if ns < 85.0 => Self::Sibling,
            ns if ns < 300.0 => Self::Near,
            _ => Self::Far,
        }
    }
}

#[repr(align(128))]
#[derive(Default)]
struct Line(AtomicU64);

/// Round trip of a cache line between cores `here` and `there`, in nanoseconds: the best of three. `None` where a core
/// can't be had.
#[must_use]
pub fn round_trip_ns(here: usize, there: usize) -> Option<f64> {
    const TRIPS: u64 = 20_000;
    let measure = move || -> Option<f64> {
        let lines = Arc::new((Line::default(), Line::default()));
        let theirs = Arc::clone(&lines);
        let echo = std::thread::spawn(move || {
            pin(there)?;
            for n in 1..=TRIPS {
                while theirs.0.0.load(Ordering::Acquire) != n {
                    core::hint::spin_loop();
                }
                theirs.1.0.store(n, Ordering::Release);
            }
            Some(())
        });
        let asker = std::thread::spawn(move || {
            pin(here)?;
            // The first trip waits for the other thread to start.
            lines.0.0.store(1, Ordering::Release);
            while lines.1.0.load(Ordering::Acquire) != 1 {
                std::thread::yield_now();
            }
            let start = Instant::now();
            for n in 2..=TRIPS {
                lines.0.0.store(n, Ordering::Release);
                while lines.1.0.load(Ordering::Acquire) != n {
                    core::hint::spin_loop();
                }
            }
            Some(start.elapsed().as_secs_f64() * 1e9 / (TRIPS - 1) as f64)
        });
        let result = asker.join().ok()??;
        echo.join().ok()??;
        Some(result)
    };
    if !available(here) || !available(there) || here == there {
        return None;
    }
    (0..3).filter_map(|_| measure()).min_by(f64::total_cmp)
}

fn available(core: usize) -> bool {
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
