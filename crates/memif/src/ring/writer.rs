//! Signalling an eventfd where the kernel doesn't do it for us (see `signal`): by `write`, in a thread that may wait.
//!
//! A peer that clears O_NONBLOCK and keeps the counter full holds up the one thread that signals it: no worker, and no other peer's
//! signals. A thread that is held up when its event goes is let go by taking the counter back, at once and with each writer that is made later;
//! a peer that fills it again every time keeps the thread. There are [`MOST_HELD`] such threads at most: then no new ones are made
//! until some are let go. What such a thread has open counts in its socket's quota all that time.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, Thread, park};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::write;

use super::event::{Open, clear};

/// Most threads that peers hold up without having a connection any more.
const MOST_HELD: usize = 64;

/// Bytes of a thread's stack: it makes two system calls.
const STACK: usize = 64 << 10;

/// Errands that were being run when their event went.
static HELD: Mutex<Vec<Arc<Errand>>> = Mutex::new(Vec::new());

/// A thread that signals one event.
#[derive(Debug)]
pub(super) struct Writer {
    errand: Arc<Errand>,
    thread: Thread,
}

/// What it is told and tells.
#[derive(Debug)]
struct Errand {
    event: Arc<Open>,
    /// To be signalled (once more).
    pending: AtomicBool,
    /// To end.
    closed: AtomicBool,
    /// In the system call, where a peer can keep it.
    writing: AtomicBool,
}

impl Writer {
    /// `None` if there can be no more threads.
    pub(super) fn new(event: &Arc<Open>) -> Option<Self> {
        if let_go() >= MOST_HELD {
            return None;
        }
        let [pending, closed, writing] = Default::default();
        let errand = Arc::new(Errand { event: Arc::clone(event), pending, closed, writing });
        let theirs = Arc::clone(&errand);
        let thread = Builder::new().name("memif-signal".into()).stack_size(STACK);
        let thread = thread.spawn(move || theirs.run()).ok()?.thread().clone();
        Some(Self { errand, thread })
    }

    /// Has the event signalled, soon. Doesn't wait; what isn't done yet isn't asked for twice.
    pub(super) fn signal(&self) {
        if !self.errand.pending.swap(true, Ordering::Release) {
            self.thread.unpark();
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Either it is seen to be closed, or that it is being written is seen here.
        self.errand.closed.store(true, Ordering::SeqCst);
        self.thread.unpark();
        if self.errand.writing.load(Ordering::SeqCst) {
            HELD.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&self.errand));
            let_go();
        }
    }
}

impl Errand {
    fn run(&self) {
        while !self.closed.load(Ordering::SeqCst) {
            if !self.pending.swap(false, Ordering::Acquire) {
                park();
                continue;
            }
            self.writing.store(true, Ordering::SeqCst);
            if !self.closed.load(Ordering::SeqCst) {
                signal_by_writing(self.event.as_fd());
            }
            self.writing.store(false, Ordering::SeqCst);
        }
    }
}

/// Lets those go that are held up for nothing; gives how many still are.
fn let_go() -> usize {
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    held.retain(|errand| {
        clear(errand.event.as_fd());
        errand.writing.load(Ordering::SeqCst)
    });
    held.len()
}

/// Waits if the peer clears the flag in between.
fn signal_by_writing(event: BorrowedFd<'_>) {
    if let Ok(flags) = fcntl_getfl(event) {
        if !flags.contains(OFlags::NONBLOCK) {
            let _ = fcntl_setfl(event, flags | OFlags::NONBLOCK);
        }
        // A full counter means that it has been signalled often enough.
        let _ = write(event, &1_u64.to_ne_bytes());
    }
}

#[cfg(test)]
#[cfg(not(any(miri, loom)))]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::{Duration, Instant};

    use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
    use rustix::io::Errno;

    use super::super::sandbox::without;
    use super::super::{Event, signals_by_kernel};
    use super::*;
    use crate::control::{Amount, Member, Quota, Scope};

    /// Only what is broken takes so long.
    const PATIENCE: Duration = Duration::from_secs(60);

    /// See [`without`].
    fn without_io_setup(test: &str) -> bool {
        let here = without(libc::SYS_io_setup, Errno::PERM, &format!("writer::tests::{test}"));
        if here {
            assert_eq!(signals_by_kernel(), Err(Errno::PERM));
        }
        here
    }

    fn readable(event: BorrowedFd<'_>) -> bool {
        let timeout = Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: 0 };
        poll(&mut [PollFd::from_borrowed_fd(event, PollFlags::IN)], Some(&timeout)).unwrap() == 1
    }

    #[test]
    fn who_waits_is_woken_without_asynchronous_io() {
        if !without_io_setup("who_waits_is_woken_without_asynchronous_io") {
            return;
        }
        let theirs = eventfd(0, EventfdFlags::NONBLOCK).unwrap();
        let event = Event::from_peer(theirs.try_clone().unwrap(), None).unwrap();
        for _ in 0..1000 {
            event.signal();
            assert!(readable(theirs.as_fd()), "the signal is lost");
            assert!(clear(theirs.as_fd()));
        }
    }

    /// The peer keeps its counter full and clears the flag all the time.
    #[test]
    fn hostile_clearing_holds_up_no_worker() {
        if !without_io_setup("hostile_clearing_holds_up_no_worker") {
            return;
        }
        let theirs = eventfd(0, EventfdFlags::NONBLOCK).unwrap();
        let fill = || write(&theirs, &(u64::MAX - 1).to_ne_bytes());
        let event = Event::from_peer(theirs.try_clone().unwrap(), None).unwrap();
        let stop = AtomicBool::new(false);
        fill().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    fcntl_setfl(&theirs, OFlags::empty()).unwrap();
                }
            });
            // Not in the scope: it would be waited for.
            let (done, finished) = channel();
            std::thread::spawn(move || {
                (0..200_000).for_each(|_| event.signal());
                let _ = done.send(event);
            });
            let event = finished.recv_timeout(PATIENCE);
            stop.store(true, Ordering::Relaxed);
            let event = event.expect("the worker waits for its peer");
            // It may come back to its senses: what was to be written is.
            clear(theirs.as_fd());
            event.signal();
            assert!(readable(theirs.as_fd()));
            // Once more: held up for good, and it goes.
            fcntl_setfl(&theirs, OFlags::NONBLOCK).unwrap();
            clear(theirs.as_fd());
            let _ = fill();
            drop(event);
        });
        until("the thread is held up for nothing", || let_go() == 0);
    }

    fn until(otherwise: &str, mut done: impl FnMut() -> bool) {
        let started = Instant::now();
        while !done() {
            assert!(started.elapsed() < PATIENCE, "{otherwise}");
            std::thread::yield_now();
        }
    }

    /// What is open counts, also where its ring is gone.
    #[test]
    fn hostile_eventfd_that_a_held_up_thread_has_open_counts() {
        if !without_io_setup("hostile_eventfd_that_a_held_up_thread_has_open_counts") {
            return;
        }
        let quota = Arc::new(Quota::new(Scope::Socket, Amount::MAX));
        let member = Arc::new(Member::new(&quota, Amount::MAX));
        // Until the thread is in the midst of it as its event goes: it is kept then until it is asked for.
        until("no thread is ever held up", || {
            let theirs = eventfd(0, EventfdFlags::NONBLOCK).unwrap();
            let lease = member.ring().unwrap();
            let event = Event::from_peer(theirs.try_clone().unwrap(), Some(lease)).unwrap();
            let stop = AtomicBool::new(false);
            let kept = std::thread::scope(|scope| {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        fcntl_setfl(&theirs, OFlags::NONBLOCK).unwrap();
                        let _ = write(&theirs, &(u64::MAX - 1).to_ne_bytes());
                        (0..100).for_each(|_| fcntl_setfl(&theirs, OFlags::empty()).unwrap());
                    }
                });
                (0..10_000).for_each(|_| event.signal());
                drop(event);
                stop.store(true, Ordering::Relaxed);
                HELD.lock().unwrap().len()
            });
            assert!(quota.in_use().descriptors >= kept, "what is open isn't counted");
            until("the thread is held up for nothing", || let_go() == 0);
            until("what is closed is counted", || quota.in_use().descriptors == 0);
            kept > 0
        });
    }
}
