//! No wake-up is lost, checked by loom over all interleavings and all values that a weak memory may show.

use std::sync::atomic::Ordering;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, fence};
use loom::thread;

use super::{Arm, News, Request, Sleeper};

/// An eventfd: who writes to it is seen by who is woken by it.
#[derive(Debug)]
struct Counter(AtomicU32);

impl Counter {
    fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    fn write(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }

    /// Whether anybody who sleeps on it is woken.
    fn is_readable(&self) -> bool {
        self.0.load(Ordering::Acquire) > 0
    }

    fn read(&self) -> u32 {
        self.0.swap(0, Ordering::AcqRel)
    }
}

/// A worker that publishes twice, and a peer that sleeps once the thread does: it has been signalled for all that was published.
#[test]
fn every_request_is_answered() {
    struct Link {
        index: AtomicU16,
        request: Request,
        thread: Sleeper,
        bell: Counter,
    }
    loom::model(|| {
        let link = Arc::new(Link {
            index: AtomicU16::new(0),
            request: Request::new(),
            thread: Sleeper::new(),
            bell: Counter::new(),
        });
        let theirs = Arc::clone(&link);
        let doorbell = thread::spawn(move || {
            let mut told = 0;
            // As often as there may be work, and once more.
            for _ in 0..3 {
                if theirs.request.take() {
                    // The peer, woken by the signal, looks at the ring.
                    told = theirs.index.load(Ordering::Acquire);
                }
                if theirs.thread.begin(|| theirs.request.is_raised()) {
                    if theirs.bell.read() == 0 {
                        return Some(told);
                    }
                    theirs.thread.end();
                }
            }
            // Still awake.
            None
        });
        for index in 1..=2 {
            link.index.store(index, Ordering::Release);
            // As `Endpoint::wanted` has it.
            fence(Ordering::SeqCst);
            if link.request.raise(&link.thread) {
                link.bell.write();
            }
        }
        if let Some(told) = doorbell.join().unwrap() {
            // It has told of everything before it fell asleep, or is being woken and will find the request.
            let will = link.request.is_raised() && link.bell.is_readable();
            assert!(told == 2 || will, "told {told}");
        }
    });
}

/// A peer publishes and signals; a worker falls asleep: it sees what was published, or it is woken.
#[test]
fn every_sleeper_is_woken() {
    struct Ring {
        index: AtomicU16,
        flags: AtomicBool,
        arm: Arm,
        event: Counter,
    }
    loom::model(|| {
        let ring = Arc::new(Ring {
            index: AtomicU16::new(0),
            flags: AtomicBool::new(true),
            arm: Arm::new(),
            event: Counter::new(),
        });
        let theirs = Arc::clone(&ring);
        let peer = thread::spawn(move || {
            for index in 1..=2 {
                theirs.index.store(index, Ordering::Release);
                fence(Ordering::SeqCst);
                // Not masked: the peer signals, and the thread is woken by that.
                if !theirs.flags.load(Ordering::Relaxed) {
                    let index = || theirs.index.load(Ordering::Acquire);
                    if theirs.arm.news(index) == News::Wake {
                        theirs.event.write();
                    }
                }
            }
        });
        let (mut seen, mut owed) = (0, 0);
        // It falls asleep twice, and is awake in between.
        for _ in 0..2 {
            owed += u32::from(ring.arm.set(seen));
            ring.flags.store(false, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            let index = ring.index.load(Ordering::Acquire);
            if index == seen && !ring.event.is_readable() {
                // Asleep for good, as far as we can tell.
                break;
            }
            seen = index;
            owed += u32::from(ring.arm.clear());
            ring.flags.store(true, Ordering::Relaxed);
            if owed > 0 {
                owed -= ring.event.read();
            }
        }
        peer.join().unwrap();
        let index = ring.index.load(Ordering::Acquire);
        let awake = ring.flags.load(Ordering::Relaxed);
        assert!(awake || index == seen || ring.event.is_readable(), "{index} {seen}");
    });
}
