//! What a worker and the doorbell thread of a link tell each other, without a system call as long as both are awake.
//!
//! * A [`Request`] of a queue to send by: the worker wants the peer to be signalled.
//! * An [`Arm`] of a queue to receive from: the worker sleeps, having seen the ring up to some index.
//! * The [`Sleeper`]: whether the thread sleeps, so that somebody has to wake it.
//!
//! Each of the three is a store, a full fence and a look at the other side's word, on both sides: one of them sees the other. `model` has
//! loom check that no wake-up is lost.

use std::sync::atomic::Ordering;

#[cfg(all(test, loom))]
use loom::sync::atomic::{AtomicBool, AtomicU32, fence};
#[cfg(not(all(test, loom)))]
use std::sync::atomic::{AtomicBool, AtomicU32, fence};

/// Whether the thread sleeps.
#[derive(Debug)]
pub(super) struct Sleeper(AtomicBool);

impl Sleeper {
    pub(super) fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// The thread is about to sleep. False if there is `work`, which was given to it before it could be seen to sleep.
    pub(super) fn begin(&self, work: impl FnOnce() -> bool) -> bool {
        self.0.store(true, Ordering::Relaxed);
        // Pairs with the fence in `must_wake`.
        fence(Ordering::SeqCst);
        let sleeps = !work();
        if !sleeps {
            self.end();
        }
        sleeps
    }

    /// The thread is awake.
    pub(super) fn end(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    /// After work was given to the thread: whether the caller has to wake it. One caller a sleep has.
    pub(super) fn must_wake(&self) -> bool {
        fence(Ordering::SeqCst);
        // Not a swap: where the thread is awake by now, nothing must be stored that could hide its next sleep.
        let wakes = || self.0.compare_exchange(true, false, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        self.0.load(Ordering::Relaxed) && wakes()
    }
}

/// Whether the worker wants the peer of a queue to be signalled. Wanted again before that was done, it is done once.
//
// In a cache line of its own: other workers have the next ones.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Request(AtomicBool);

impl Request {
    pub(super) fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// Asks for a signal; whether the caller has to wake the thread. What the caller published is behind a full fence already.
    #[inline]
    pub(super) fn raise(&self, thread: &Sleeper) -> bool {
        // The thread hasn't taken it yet: the signal that it gives then comes after what we published.
        if self.0.load(Ordering::Relaxed) {
            return false;
        }
        self.0.store(true, Ordering::Relaxed);
        thread.must_wake()
    }

    /// Whether there is one.
    pub(super) fn is_raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// The thread, which signals if there was one.
    pub(super) fn take(&self) -> bool {
        let taken = || self.0.compare_exchange(true, false, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        let taken = self.is_raised() && taken();
        if taken {
            // Pairs with the fence before `raise`: who finds the request raised still, has published before the signal.
            fence(Ordering::SeqCst);
        }
        taken
    }
}

/// Whether the worker sleeps, and up to which index it has seen the ring.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Arm(AtomicU32);

/// It is awake.
const AWAKE: u32 = 0;
/// The thread wakes it.
const WOKEN: u32 = 1 << 17;
/// It sleeps; the rest is the index.
const ARMED: u32 = 1 << 16;

/// What the thread is to do about news of the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum News {
    /// To wake the worker, once.
    Wake,
    /// Nothing: the worker is on its way.
    Known,
    /// Nothing: the worker is awake, or nothing has changed since it fell asleep.
    Useless,
}

impl Arm {
    pub(super) fn new() -> Self {
        Self(AtomicU32::new(AWAKE))
    }

    /// The worker has seen the ring up to `index` and is about to sleep, after a full fence and another look. Whether the thread has woken
    /// it since it was last asked.
    pub(super) fn set(&self, index: u16) -> bool {
        self.0.swap(ARMED | u32::from(index), Ordering::Relaxed) == WOKEN
    }

    /// The worker is awake. Whether the thread has woken it since it was last asked.
    pub(super) fn clear(&self) -> bool {
        self.0.swap(AWAKE, Ordering::Relaxed) == WOKEN
    }

    /// Whether the thread has woken the worker since it was last asked; if not, nothing changes.
    pub(super) fn was_woken(&self) -> bool {
        self.0.load(Ordering::Relaxed) == WOKEN && self.clear()
    }

    /// The thread has heard from the peer; `index` reads how far the peer has come.
    pub(super) fn news(&self, index: impl Fn() -> u16) -> News {
        loop {
            let index = u32::from(index());
            // Pairs with the fence that follows `set`: either the worker sees that index, or we see that it sleeps.
            fence(Ordering::SeqCst);
            let arm = self.0.load(Ordering::Relaxed);
            if arm == WOKEN {
                return News::Known;
            }
            if arm & ARMED == 0 || arm == ARMED | index {
                return News::Useless;
            }
            let taken = self.0.compare_exchange(arm, WOKEN, Ordering::Relaxed, Ordering::Relaxed);
            if taken.is_ok() {
                return News::Wake;
            }
        }
    }
}

#[cfg(all(test, loom))]
mod model;
