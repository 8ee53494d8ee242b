//! The ordering of indices, flags and slots, checked by loom over all interleavings and all values a weak
//! memory may show.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p memif --release --lib model`. Loom's `SeqCst` loads and
//! stores are weaker than the language's, but its `SeqCst` fences, which is what is used here, are not. What
//! it does not see: the descriptors' real layout, the peer's process, and x86's or Arm's instructions.

use std::sync::atomic::Ordering;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicU16, fence};
use loom::thread;

use super::{Cursor, Endpoint, Indices, Word};
use crate::ring::RingSize;

impl Word for AtomicU16 {
    fn load(&self, ordering: Ordering) -> u16 {
        Self::load(self, ordering)
    }

    fn store(&self, value: u16, ordering: Ordering) {
        Self::store(self, value, ordering);
    }

    fn fence(ordering: Ordering) {
        fence(ordering);
    }
}

/// A ring of two slots: small enough to be filled, emptied and filled again.
struct Ring {
    head: AtomicU16,
    tail: AtomicU16,
    flags: AtomicU16,
    slots: [UnsafeCell<u32>; 2],
    event: AtomicBool,
}

// SAFETY: the very thing that is checked here: slots are accessed by the side that the indices give them to.
unsafe impl Sync for Ring {}

impl Ring {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            head: AtomicU16::new(0),
            tail: AtomicU16::new(0),
            flags: AtomicU16::new(1),
            slots: [UnsafeCell::new(0), UnsafeCell::new(0)],
            event: AtomicBool::new(false),
        })
    }

    fn indices(&self) -> Indices<'_, AtomicU16> {
        Indices { head: &self.head, tail: &self.tail, flags: &self.flags }
    }

    fn slot(&self, index: u16) -> &UnsafeCell<u32> {
        &self.slots[usize::from(index & 1)]
    }
}

/// One side of the ring.
struct Side {
    ring: Arc<Ring>,
    endpoint: Endpoint,
    cursor: Cursor,
}

impl Side {
    fn new(ring: &Arc<Ring>, endpoint: Endpoint) -> Self {
        Self { ring: Arc::clone(ring), endpoint, cursor: Cursor::new(RingSize::TWO) }
    }

    /// Takes one slot, if there is one, uses it and gives it back.
    fn turn(&mut self, use_slot: impl FnOnce(&UnsafeCell<u32>)) -> bool {
        if self.endpoint.available(self.ring.indices(), &self.cursor).unwrap() == 0 {
            return false;
        }
        use_slot(self.ring.slot(self.cursor.next()));
        self.cursor.take(1);
        let released = self.cursor.release();
        self.endpoint.publish(self.ring.indices(), released);
        true
    }

    /// Wakes the consumer if it wants that.
    fn notify(&self) {
        if self.endpoint.wanted(self.ring.indices()) {
            self.ring.event.store(true, Ordering::Relaxed);
        }
    }
}

/// Three values through two slots, by these two ends. Loom fails if both touch a slot at once or if a value
/// isn't visible.
fn passes_values(producer: Endpoint, consumer: Endpoint, posted: u16) {
    loom::model(move || {
        let ring = Ring::new();
        // What a client that receives does first.
        ring.head.store(posted, Ordering::Relaxed);
        let mut producer = Side::new(&ring, producer);
        let thread = thread::spawn(move || {
            for value in 1..=3 {
                // SAFETY: the slot is this side's between `available` and `publish`; loom checks that.
                while !producer.turn(|slot| slot.with_mut(|p| unsafe { *p = value })) {
                    thread::yield_now();
                }
            }
        });
        let mut consumer = Side::new(&ring, consumer);
        for expected in 1..=3 {
            // SAFETY: as above.
            while !consumer.turn(|slot| slot.with(|p| assert_eq!(unsafe { *p }, expected))) {
                thread::yield_now();
            }
        }
        thread.join().unwrap();
    });
}

#[test]
fn values_pass_from_client_to_server() {
    passes_values(Endpoint::client_tx(RingSize::TWO), Endpoint::server(), 0);
}

#[test]
fn values_pass_from_server_to_client() {
    passes_values(Endpoint::server(), Endpoint::client_rx(RingSize::TWO), 2);
}

/// Whoever goes to sleep after `arm` found nothing is woken for what is published afterwards.
fn wakes(producer: Endpoint, consumer: Endpoint, posted: u16) {
    loom::model(move || {
        let ring = Ring::new();
        ring.head.store(posted, Ordering::Relaxed);
        let mut producer = Side::new(&ring, producer);
        let thread = thread::spawn(move || {
            assert!(producer.turn(|_| ()));
            producer.notify();
        });
        let consumer = Side::new(&ring, consumer);
        let sleeps = consumer.endpoint.arm(ring.indices(), &consumer.cursor).unwrap() == 0;
        thread.join().unwrap();
        assert!(!sleeps || ring.event.load(Ordering::Relaxed), "asleep with a packet in the ring");
    });
}

#[test]
fn no_wake_up_of_a_server_is_lost() {
    wakes(Endpoint::client_tx(RingSize::TWO), Endpoint::server(), 0);
}

#[test]
fn no_wake_up_of_a_client_is_lost() {
    wakes(Endpoint::server(), Endpoint::client_rx(RingSize::TWO), 2);
}

/// The adaptive cycle of a port and of a worker, over several sleeps: poll, ask for signals, look, sleep, ask for none, take the signal
/// back, look again. The event is an eventfd, whose system calls order more than the relaxed accesses here. A wake-up that is lost
/// leaves the consumer waiting for ever, which loom reports.
fn cycles(producer: Endpoint, consumer: Endpoint, posted: u16) {
    loom::model(move || {
        let ring = Ring::new();
        ring.head.store(posted, Ordering::Relaxed);
        let mut producer = Side::new(&ring, producer);
        let thread = thread::spawn(move || {
            for _ in 0..2 {
                assert!(producer.turn(|_| ()), "both fit");
                producer.notify();
            }
        });
        let mut consumer = Side::new(&ring, consumer);
        let mut got = 0;
        while got < 2 {
            if consumer.endpoint.arm(ring.indices(), &consumer.cursor).unwrap() == 0 {
                while !ring.event.load(Ordering::Relaxed) {
                    thread::yield_now();
                }
            }
            consumer.endpoint.disarm(ring.indices());
            ring.event.store(false, Ordering::Relaxed);
            while consumer.turn(|_| ()) {
                got += 1;
            }
        }
        thread.join().unwrap();
    });
}

#[test]
fn a_server_that_sleeps_and_polls_gets_everything() {
    cycles(Endpoint::client_tx(RingSize::TWO), Endpoint::server(), 0);
}

#[test]
fn a_client_that_sleeps_and_polls_gets_everything() {
    cycles(Endpoint::server(), Endpoint::client_rx(RingSize::TWO), 2);
}
