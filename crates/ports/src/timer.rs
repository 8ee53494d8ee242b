//! A clock that a sleeping worker can wait for: for queues whose packets come by time.

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A timer descriptor on the monotonic clock.
#[derive(Debug)]
pub(crate) struct Timer(OwnedFd);

impl Timer {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self(timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?))
    }

    /// Becomes readable at `at` (monotonic nanoseconds), or not at all. False where that can't be arranged.
    pub(crate) fn set(&self, at: Option<u64>) -> bool {
        // All zero means "never", so the earliest time is 1.
        let at = at.map_or(0, |at| at.max(1));
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let value = Timespec { tv_sec: (at / 1_000_000_000) as i64, tv_nsec: (at % 1_000_000_000) as _ };
        let spec = Itimerspec { it_interval: zero, it_value: value };
        timerfd_settime(&self.0, TimerfdTimerFlags::ABSTIME, &spec).is_ok()
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
