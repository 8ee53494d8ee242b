//! What is known of a port's output threads, read from outside.

use core::fmt;
use graph::port::PortFault;
use memory::clock::nanoseconds;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Longest time that closing a port waits for its threads. One that the kernel holds up for longer ends by itself later.
const PATIENCE: Duration = Duration::from_secs(2);

/// A write that takes so long is worth telling of.
const LONG: Duration = Duration::from_millis(100);

/// A port whose frames are dropped for a while, because its pod takes too much processor time to receive them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suspension {
    /// Processor time of the frame that was the last straw.
    pub cost: Duration,
    /// For how long.
    pub pause: Duration,
}

impl fmt::Display for Suspension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (pause, cost) = (self.pause.as_secs_f64(), self.cost.as_secs_f64() * 1e3);
        write!(
            f,
            "{pause:.1} s: the receive path behind the device took {cost:.1} ms of processor time for one packet"
        )
    }
}

/// What a port's output threads did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutputState {
    /// How often the port was suspended.
    pub suspensions: u64,
    /// The last suspension.
    pub last: Option<Suspension>,
    /// Whether it is suspended now.
    pub suspended: bool,
    /// The thread that the kernel has kept in one write for longest, where that is long.
    pub held_up: Option<HeldUp>,
}

/// A thread that is still in a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldUp {
    /// The kernel's number of the thread.
    pub thread: i32,
    /// When the write began, since the start of the monotonic clock.
    pub since: Duration,
    /// For how long that is.
    pub lasts: Duration,
}

/// What a thread writes.
#[derive(Debug, Default)]
struct Busy {
    /// The kernel's number of the thread; 0: it hasn't begun.
    thread: AtomicI32,
    /// When the write in progress began, in nanoseconds of the monotonic clock; 0: none.
    since: AtomicU64,
}

#[derive(Debug, Default)]
struct Log {
    suspensions: u64,
    last: Option<Suspension>,
    until: Duration,
    fault: Option<PortFault>,
    /// Threads that have not ended.
    running: usize,
    /// Queues that workers have.
    queues: usize,
}

/// Shared by the threads of a port, its queues and its control side.
#[derive(Default)]
pub(super) struct Shared {
    log: Mutex<Log>,
    ended: Condvar,
    /// Whether there is a fault to be reported: queues look here, not at the lock.
    faulty: AtomicBool,
    /// By thread.
    busy: Box<[Busy]>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Shared")
    }
}

impl Shared {
    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn begins(&self) {
        self.log().running += 1;
    }

    pub(super) fn queue_made(&self) {
        self.log().queues += 1;
    }

    pub(super) fn queue_dropped(&self) {
        self.log().queues -= 1;
    }

    pub(super) fn ends(&self) {
        self.log().running -= 1;
        self.ended.notify_all();
    }

    pub(super) fn suspended(&self, suspension: Suspension, now: Duration) {
        let mut log = self.log();
        log.suspensions += 1;
        log.last = Some(suspension);
        log.until = now + suspension.pause;
    }

    /// The device can't be written to any more.
    pub(super) fn failed(&self, fault: PortFault) {
        self.log().fault.get_or_insert(fault);
        self.faulty.store(true, Ordering::Release);
    }

    /// Why, once.
    pub(super) fn fault(&self) -> Option<PortFault> {
        if !self.faulty.load(Ordering::Relaxed) || !self.faulty.swap(false, Ordering::Acquire) {
            return None;
        }
        self.log().fault.take()
    }

    /// Thread number `at` of the port is this one of the kernel's.
    pub(super) fn thread_is(&self, at: usize, thread: i32) {
        if let Some(busy) = self.busy.get(at) {
            busy.thread.store(thread, Ordering::Relaxed);
        }
    }

    /// Thread number `at` begins to write; 0: it has written.
    pub(super) fn writes(&self, at: usize, since: u64) {
        if let Some(busy) = self.busy.get(at) {
            busy.since.store(since, Ordering::Relaxed);
        }
    }

    fn held_up(&self) -> Option<HeldUp> {
        let now = nanoseconds();
        let held = self.busy.iter().filter_map(|busy| {
            let since = Some(busy.since.load(Ordering::Relaxed)).filter(|since| *since > 0)?;
            let lasts = Duration::from_nanos(now.saturating_sub(since));
            let thread = busy.thread.load(Ordering::Relaxed);
            Some(HeldUp { thread, since: Duration::from_nanos(since), lasts })
        });
        held.max_by_key(|held| held.lasts).filter(|held| held.lasts >= LONG)
    }
}

/// A port's output threads, seen from the control side.
#[derive(Clone, Debug)]
pub struct OutputThreads(pub(super) Arc<Shared>);

impl OutputThreads {
    pub(super) fn new(count: usize) -> Self {
        Self(Arc::new(Shared { busy: (0..count).map(|_| Busy::default()).collect(), ..Shared::default() }))
    }

    /// What they did so far.
    #[must_use]
    pub fn state(&self) -> OutputState {
        let log = self.0.log();
        let suspended = Duration::from_nanos(nanoseconds()) < log.until;
        let held_up = self.0.held_up();
        OutputState { suspensions: log.suspensions, last: log.last, suspended, held_up }
    }

    /// Waits until they have ended, because all queues are gone. False if one is still held up by the kernel, or a worker that stands still has its queue.
    pub(crate) fn wait(&self) -> bool {
        if self.0.log().queues > 0 {
            return false;
        }
        let running = |log: &mut Log| log.running > 0;
        let waited = self.0.ended.wait_timeout_while(self.0.log(), PATIENCE, running);
        waited.unwrap_or_else(PoisonError::into_inner).0.running == 0
    }
}
