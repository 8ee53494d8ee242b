//! What `session-stats` has noted of a tenant's sessions, summed up as they end.
//!
//! Sessions that are there aren't in it: to add to sums of all workers for each packet would cost each packet a line that they share.

use super::session_stats::SideStats;
use std::sync::atomic::{AtomicU64, Ordering};

/// Sums of all workers, by side: initiators, and who answers them.
#[derive(Debug, Default)]
pub struct Noted([Sums; 2]);

#[derive(Debug, Default)]
struct Sums {
    timed: AtomicU64,
    rtt: AtomicU64,
    repeated: AtomicU64,
    zero_windows: AtomicU64,
}

/// The sums of one side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SideSums {
    /// Sessions whose round trip to that side was measured.
    pub timed: u64,
    /// Those round trips, each as it was at the end, in microseconds.
    pub rtt: u64,
    /// Segments that it has sent again, or that came late.
    pub repeated: u64,
    /// Segments by which it has closed its window.
    pub zero_windows: u64,
}

impl Noted {
    /// A session ends.
    pub(super) fn add(&self, sides: [SideStats; 2]) {
        for (sums, side) in self.0.iter().zip(sides) {
            let Sums { timed, rtt, repeated, zero_windows } = sums;
            let figures = [
                (timed, u64::from(side.rtt > 0)),
                (rtt, side.rtt.into()),
                (repeated, side.repeated.into()),
                (zero_windows, side.zero_windows.into()),
            ];
            for (sum, figure) in figures {
                if figure > 0 {
                    sum.fetch_add(figure, Ordering::Relaxed);
                }
            }
        }
    }

    /// The sums: of initiators, and of who answers them.
    #[must_use]
    pub fn sums(&self) -> [SideSums; 2] {
        self.0.each_ref().map(|sums| {
            let [timed, rtt, repeated, zero_windows] =
                [&sums.timed, &sums.rtt, &sums.repeated, &sums.zero_windows]
                    .map(|sum| sum.load(Ordering::Relaxed));
            SideSums { timed, rtt, repeated, zero_windows }
        })
    }
}
