//! What other threads tell the one that serves the sockets.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{Errno, read, write};

/// Says that there is something to be done. No peer ever gets it.
#[derive(Debug, Clone)]
pub(super) struct Bell(Arc<OwnedFd>);

impl Bell {
    /// # Errors
    /// If the process is out of descriptors.
    pub(super) fn new() -> Result<Self, Errno> {
        Ok(Self(Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?)))
    }

    /// Readable from when it is rung until it is [heard](Self::hear).
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    pub(super) fn ring(&self) {
        // A counter that is full has been rung.
        let _ = write(&self.0, &1_u64.to_ne_bytes());
    }

    /// Before whatever it may have been rung for is looked at.
    pub(super) fn hear(&self) {
        let _ = read(&self.0, &mut [0; 8]);
    }
}

/// A list that any thread adds to, which rings a bell.
#[derive(Debug)]
pub(super) struct Outcomes<T> {
    bell: Bell,
    list: Arc<Mutex<Vec<T>>>,
}

impl<T> Clone for Outcomes<T> {
    fn clone(&self) -> Self {
        Self { bell: self.bell.clone(), list: Arc::clone(&self.list) }
    }
}

impl<T> Outcomes<T> {
    pub(super) fn new(bell: &Bell) -> Self {
        Self { bell: bell.clone(), list: Arc::default() }
    }

    /// One more.
    pub(super) fn add(&self, outcome: T) {
        self.list.lock().unwrap_or_else(PoisonError::into_inner).push(outcome);
        self.bell.ring();
    }

    /// What there is by now.
    pub(super) fn take(&self) -> Vec<T> {
        std::mem::take(&mut self.list.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
