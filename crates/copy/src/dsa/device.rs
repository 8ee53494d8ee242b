//! A work queue that several channels share.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use super::counters::Counters;
use super::portal::SLOTS;
use super::probe::probe;
use super::standing::Standing;
use super::{Accepted, Counts, Descriptor, GivenUp, Mode, News, Pauses, Portal, Reason};

/// After so many transfers in a row that it didn't do, a device is given up.
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
    /// The device has it; the opening of the queue, which whoever asks for it later names.
    Taken(u32),
    /// The queue is full.
    Full,
    /// The device was given up.
    Closed,
}

/// Opens a portal.
type Opener = Box<dyn Fn() -> Result<Box<dyn Portal>, String> + Send + Sync>;

/// How a queue that was given up comes back.
struct Retry {
    pauses: Pauses,
    open: Opener,
}

impl fmt::Debug for Retry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Retry").field("pauses", &self.pauses).finish_non_exhaustive()
    }
}

/// A queue's way in.
#[derive(Debug)]
struct Gate {
    /// `None` while it is given up.
    portal: Option<Box<dyn Portal>>,
    /// How often it was opened again. What was submitted to an earlier opening was over when that was closed.
    opening: u32,
}

/// A work queue in use.
#[derive(Debug)]
pub struct Device {
    name: String,
    limits: Limits,
    patience: Duration,
    gate: RwLock<Gate>,
    /// Whether the gate has a portal: looked at for each vector.
    up: AtomicBool,
    /// Lower half: descriptors of a dedicated queue that aren't complete, as it would swallow one more than it holds. Upper half: the
    /// opening that they are of.
    occupied: AtomicU64,
    /// Of openings below this nothing is read or written any more.
    closed: AtomicU32,
    standing: Mutex<Standing>,
    retry: Option<Retry>,
    /// Held by who looks after it.
    tending: Mutex<()>,
    failures: AtomicU32,
    /// Channels that it has got, ever.
    channels: AtomicUsize,
    pub(super) counters: Counters,
}

impl Device {
    /// A queue behind a portal. A transfer that takes longer than `patience` means that the device is out of order, for now.
    #[must_use]
    pub fn new(name: impl Into<String>, limits: Limits, patience: Duration, portal: Box<dyn Portal>) -> Self {
        Self {
            name: name.into(),
            limits,
            patience,
            gate: RwLock::new(Gate { portal: Some(portal), opening: 0 }),
            up: AtomicBool::new(true),
            occupied: AtomicU64::new(0),
            closed: AtomicU32::new(0),
            standing: Mutex::new(Standing::new()),
            retry: None,
            tending: Mutex::default(),
            failures: AtomicU32::new(0),
            channels: AtomicUsize::new(0),
            counters: Counters::default(),
        }
    }

    /// Once it was given up it is opened again after a pause, by [`tend`](Self::tend). Without this it is given up for good.
    #[must_use]
    pub fn with_retry(
        mut self,
        pauses: Pauses,
        open: impl Fn() -> Result<Box<dyn Portal>, String> + Send + Sync + 'static,
    ) -> Self {
        self.retry = Some(Retry { pauses, open: Box::new(open) });
        self
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

    /// Whether it is given up: then everything is copied by the CPU.
    #[must_use]
    pub fn given_up(&self) -> Option<GivenUp> {
        self.standing().get(self.pauses())
    }

    /// Times that it was given up.
    #[must_use]
    pub fn times_given_up(&self) -> u64 {
        self.standing().times
    }

    fn standing(&self) -> MutexGuard<'_, Standing> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pauses(&self) -> Option<Pauses> {
        self.retry.as_ref().map(|retry| retry.pauses)
    }

    pub(super) const fn patience(&self) -> Duration {
        self.patience
    }

    /// Whether it takes descriptors: false while it is given up.
    pub(super) fn is_up(&self) -> bool {
        self.up.load(Ordering::Relaxed)
    }

    /// Whether the device touches nothing any more of what was submitted to this opening.
    pub(super) fn is_over(&self, opening: u32) -> bool {
        self.closed.load(Ordering::Acquire) > opening
    }

    /// The slot that a new channel begins with: half a portal from that of the one before, then a quarter, and so on.
    pub(super) fn first_slot(&self) -> usize {
        let number = self.channels.fetch_add(1, Ordering::Relaxed) % SLOTS;
        number.reverse_bits() >> (usize::BITS - SLOTS.trailing_zeros())
    }

    /// Hands a descriptor over, if there is room.
    ///
    /// # Safety
    /// As [`Portal::submit`]; [`complete`](Self::complete) is due when its record has been read.
    #[allow(unsafe_code)]
    pub(super) unsafe fn offer(&self, descriptor: &Descriptor, slot: usize) -> Offered {
        let gate = self.gate.read().unwrap_or_else(PoisonError::into_inner);
        let Some(portal) = gate.portal.as_ref() else { return Offered::Closed };
        if !self.occupy() {
            return Offered::Full;
        }
        // SAFETY: the caller's promise.
        match unsafe { portal.submit(descriptor, slot) } {
            Accepted::Yes => Offered::Taken(gate.opening),
            Accepted::Full => {
                self.complete(gate.opening);
                Offered::Full
            }
        }
    }

    /// Takes one of the places of a dedicated queue; shared ones say themselves whether they are full. Behind the gate.
    fn occupy(&self) -> bool {
        let one_more = |occupied| ((occupied as u32) < self.limits.size).then_some(occupied + 1);
        self.limits.mode == Mode::Shared
            || self.occupied.fetch_update(Ordering::AcqRel, Ordering::Relaxed, one_more).is_ok()
    }

    /// A descriptor that was taken by this opening has its record, or will never have it.
    pub(super) fn complete(&self, opening: u32) {
        if self.limits.mode == Mode::Dedicated {
            // An earlier one's places went with it.
            let one_less = |occupied: u64| (occupied >> 32 == u64::from(opening)).then(|| occupied - 1);
            let _ = self.occupied.fetch_update(Ordering::AcqRel, Ordering::Relaxed, one_less);
        }
    }

    /// The device did a transfer, or had an error or no answer for it: one of which nothing else comes is given up. Pages that aren't there
    /// don't count, or any peer could take the device from all others.
    pub(super) fn did(&self, well: bool, opening: u32) {
        if well {
            // As a rule there is nothing to be reset: no write to a line that others read.
            if self.failures.load(Ordering::Relaxed) > 0 {
                self.failures.store(0, Ordering::Relaxed);
            }
        } else if self.failures.fetch_add(1, Ordering::Relaxed) + 1 >= FAILURES {
            self.give_up(opening, Reason::Failures(FAILURES));
        }
    }

    /// Gives the device up, unless this opening was closed already: nothing is submitted to it any more, and when this returns or
    /// [`is_over`](Self::is_over), it won't do what it hasn't done. Only the driver can say so, by closing: a copy of our own over bytes that
    /// the device may still write would be no copy.
    pub(super) fn give_up(&self, opening: u32, reason: Reason) {
        let portal = {
            let mut gate = self.gate.write().unwrap_or_else(PoisonError::into_inner);
            if gate.opening != opening || !self.standing().give_up(reason, self.pauses()) {
                return;
            }
            self.up.store(false, Ordering::Relaxed);
            gate.portal.take()
        };
        // Not behind the gate: it takes as long as the device takes for what it has.
        drop(portal);
        self.closed.store(opening + 1, Ordering::Release);
    }

    /// Looks after it: opens it again if it was given up and its pause is over, and it answers. Tells what there is to be told. Waits for
    /// the device and the driver, so not for a worker.
    pub fn tend(&self) -> Option<News> {
        let _alone = self.tending.lock().unwrap_or_else(PoisonError::into_inner);
        let due = self.standing().due();
        if let Some(retry) = self.retry.as_ref().filter(|_| due) {
            self.try_again(retry);
        }
        self.standing().news(self.pauses())
    }

    fn try_again(&self, retry: &Retry) {
        let opening = self.gate.read().unwrap_or_else(PoisonError::into_inner).opening;
        if !self.is_over(opening) {
            // It is still being closed.
            return;
        }
        match (retry.open)().and_then(|portal| probe(portal, self.patience)) {
            Ok(portal) => {
                let mut gate = self.gate.write().unwrap_or_else(PoisonError::into_inner);
                *gate = Gate { portal: Some(portal), opening: opening + 1 };
                self.occupied.store(u64::from(opening + 1) << 32, Ordering::Release);
                self.failures.store(0, Ordering::Relaxed);
                self.standing().returned();
                self.up.store(true, Ordering::Relaxed);
            }
            Err(why) => self.standing().failed(why, retry.pauses),
        }
    }
}
