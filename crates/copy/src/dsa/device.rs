//! A work queue that several channels share.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};
use std::time::Duration;

use super::counters::Counters;
use super::{Accepted, Counts, Descriptor, Mode, Portal};

/// After so many transfers in a row that it didn't do, a device isn't asked any more.
const FAILURES: u32 = 512;

/// What a work queue can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How it takes descriptors.
    pub mode: Mode,
    /// Descriptors it holds.
    pub size: u32,
    /// Descriptors of a batch.
    pub max_batch: u32,
    /// Bytes of a transfer.
    pub max_transfer: u64,
    /// It waits for pages that aren't there.
    pub block_on_fault: bool,
}

/// What became of a descriptor that was to be submitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Offered {
    /// The device has it.
    Taken,
    /// The queue is full.
    Full,
    /// The device was given up.
    Closed,
}

/// A work queue in use.
#[derive(Debug)]
pub struct Device {
    name: String,
    limits: Limits,
    patience: Duration,
    /// `None` once it was given up.
    portal: RwLock<Option<Box<dyn Portal>>>,
    /// Descriptors of a dedicated queue that aren't complete: it would swallow one more than it holds.
    occupied: AtomicU32,
    /// Nothing is read or written by the device any more.
    closed: AtomicBool,
    reason: Mutex<Option<String>>,
    failures: AtomicU32,
    pub(super) counters: Counters,
}

impl Device {
    /// A queue behind a portal. A transfer that takes longer than `patience` means that the device is out of order.
    #[must_use]
    pub fn new(name: impl Into<String>, limits: Limits, patience: Duration, portal: Box<dyn Portal>) -> Self {
        Self {
            name: name.into(),
            limits,
            patience,
            portal: RwLock::new(Some(portal)),
            occupied: AtomicU32::new(0),
            closed: AtomicBool::new(false),
            reason: Mutex::default(),
            failures: AtomicU32::new(0),
            counters: Counters::default(),
        }
    }

    /// Its name: "wq0.1", or that of a model.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it can do.
    #[must_use]
    pub const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// What happened.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counters.read()
    }

    /// Why it was given up, if it was: everything is copied by the CPU since.
    #[must_use]
    pub fn given_up(&self) -> Option<String> {
        self.reason.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) const fn patience(&self) -> Duration {
        self.patience
    }

    /// Whether the device touches nothing any more.
    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Hands a descriptor over, if there is room.
    ///
    /// # Safety
    /// As [`Portal::submit`]; [`complete`](Self::complete) is due when its record has been read.
    #[allow(unsafe_code)]
    pub(super) unsafe fn offer(&self, descriptor: &Descriptor) -> Offered {
        let portal = self.portal.read().unwrap_or_else(PoisonError::into_inner);
        let Some(portal) = portal.as_ref() else { return Offered::Closed };
        if !self.occupy() {
            return Offered::Full;
        }
        // SAFETY: the caller's promise.
        match unsafe { portal.submit(descriptor) } {
            Accepted::Yes => Offered::Taken,
            Accepted::Full => {
                self.complete();
                Offered::Full
            }
        }
    }

    /// Takes one of the places of a dedicated queue; shared ones say themselves whether they are full.
    fn occupy(&self) -> bool {
        let one_more = |occupied| (occupied < self.limits.size).then_some(occupied + 1);
        self.limits.mode == Mode::Shared
            || self.occupied.fetch_update(Ordering::AcqRel, Ordering::Relaxed, one_more).is_ok()
    }

    /// A descriptor that was taken has its record.
    pub(super) fn complete(&self) {
        if self.limits.mode == Mode::Dedicated {
            self.occupied.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// The device did a transfer, or had an error or no answer for it: one of which nothing else comes is given up. Pages that aren't there
    /// don't count, or any peer could take the device from all others.
    pub(super) fn did(&self, well: bool) {
        if well {
            // As a rule there is nothing to be reset: no write to a line that others read.
            if self.failures.load(Ordering::Relaxed) > 0 {
                self.failures.store(0, Ordering::Relaxed);
            }
        } else if self.failures.fetch_add(1, Ordering::Relaxed) + 1 == FAILURES {
            self.give_up(format!("the last {FAILURES} transfers failed"));
        }
    }

    /// Gives the device up: nothing is submitted to it any more, and what it has not done it will not do.
    pub(super) fn give_up(&self, reason: String) {
        {
            let mut said = self.reason.lock().unwrap_or_else(PoisonError::into_inner);
            if said.is_some() {
                return;
            }
            *said = Some(reason);
        }
        let portal = self.portal.write().unwrap_or_else(PoisonError::into_inner).take();
        drop(portal);
        self.closed.store(true, Ordering::Release);
    }
}
