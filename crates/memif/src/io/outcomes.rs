//! What other threads tell the one that serves the sockets.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{Errno, read, write};

/// A list that any thread adds to, and a descriptor that says that there is something in it.
#[derive(Debug)]
pub(super) struct Outcomes<T>(Arc<Inner<T>>);

#[derive(Debug)]
struct Inner<T> {
    /// Readable when there is something. No peer ever gets it.
    bell: OwnedFd,
    list: Mutex<Vec<T>>,
}

impl<T> Clone for Outcomes<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Outcomes<T> {
    /// # Errors
    /// If the process is out of descriptors.
    pub(super) fn new() -> Result<Self, Errno> {
        let bell = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Self(Arc::new(Inner { bell, list: Mutex::default() })))
    }

    /// Readable when there is something to [`take`](Self::take).
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.0.bell.as_fd()
    }

    /// One more.
    pub(super) fn add(&self, outcome: T) {
        self.0.list.lock().unwrap_or_else(PoisonError::into_inner).push(outcome);
        // A counter that is full has been signalled.
        let _ = write(&self.0.bell, &1_u64.to_ne_bytes());
    }

    /// What there is by now.
    pub(super) fn take(&self) -> Vec<T> {
        let _ = read(&self.0.bell, &mut [0; 8]);
        std::mem::take(&mut self.0.list.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
