//! Waking a worker that sleeps.

use crate::sync::{AtomicU64, Ordering, fence};
use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// What wakes a worker when a train has come.
#[derive(Debug)]
pub(super) struct Bell {
    armed: Armed,
    wake: OwnedFd,
}

impl Bell {
    /// One that nobody listens to yet.
    ///
    /// # Errors
    /// What the system says: no descriptor is left.
    pub(super) fn new() -> rustix::io::Result<Self> {
        let wake = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Self { armed: Armed::new(), wake })
    }

    /// Listens from now on. The worker must look at its trains once more after this, and before it sleeps.
    pub(super) fn arm(&self) {
        self.armed.set();
    }

    /// The worker is awake.
    pub(super) fn disarm(&self) {
        self.armed.clear();
        let mut count = [0; 8];
        // Fails where nobody has rung.
        let _ = rustix::io::read(&self.wake, &mut count);
    }

    /// Wakes the worker if it sleeps. After a train was sent.
    pub(super) fn ring(&self) {
        if self.armed.is_set() {
            // Fails only where the counter is full: then the worker is being woken already.
            let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
        }
    }

    /// What is to be waited for.
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

/// Whether a worker sleeps, or is about to: either its sender sees that, or it sees what was sent before.
#[derive(Debug)]
struct Armed(AtomicU64);

impl Armed {
    fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    fn set(&self) {
        self.0.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    fn clear(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    fn is_set(&self) -> bool {
        fence(Ordering::SeqCst);
        self.0.load(Ordering::Relaxed) == 1
    }
}

#[cfg(all(test, loom))]
mod tests {
    use super::*;
    use loom::sync::Arc;

    #[test]
    fn loom_a_worker_that_goes_to_sleep_is_woken_or_sees_the_train() {
        loom::model(|| {
            let (armed, trains) = (Arc::new(Armed::new()), Arc::new(AtomicU64::new(0)));
            let sender = {
                let (armed, trains) = (Arc::clone(&armed), Arc::clone(&trains));
                loom::thread::spawn(move || {
                    trains.store(1, Ordering::Release);
                    armed.is_set()
                })
            };
            armed.set();
            let seen = trains.load(Ordering::Acquire) == 1;
            let rung = sender.join().is_ok_and(|rung| rung);
            assert!(seen || rung);
        });
    }
}
