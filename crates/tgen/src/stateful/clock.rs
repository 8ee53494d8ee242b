//! Time as the state machines see it: an argument.

/// A moment, counted from the beginning of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Milliseconds; timers. Begins at 1, so that 0 can mean "none".
    pub tick: u32,
    /// Units of [`Now::STAMP_NS`]; latencies. Wraps after 68 s.
    pub stamp: u32,
    /// Units of [`Now::TIMER_NS`]; initial sequence numbers.
    pub timer: u32,
}

impl Now {
    /// Nanoseconds of a stamp's unit.
    pub const STAMP_NS: u64 = 16;
    /// Nanoseconds of a unit of the timer that initial sequence numbers follow (RFC 9293 section 3.4.1).
    pub const TIMER_NS: u64 = 4_000;

    /// The moment `ns` nanoseconds after the beginning.
    #[inline]
    #[must_use]
    pub const fn at(ns: u64) -> Self {
        Self {
            tick: (ns / 1_000_000) as u32 + 1,
            stamp: (ns / Self::STAMP_NS) as u32,
            timer: (ns / Self::TIMER_NS) as u32,
        }
    }

    /// Nanoseconds since `stamp`.
    #[inline(always)]
    #[must_use]
    pub const fn since(self, stamp: u32) -> u64 {
        self.stamp.wrapping_sub(stamp) as u64 * Self::STAMP_NS
    }
}
