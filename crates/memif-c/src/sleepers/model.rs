//! Several threads that sleep on one queue, checked by loom: none sleeps on while there is a packet for it, whichever way the peer's packets,
//! their sleeping, waking and looking fall together.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p quiver-memif-c --release --lib model`. [`Sleepers`] is the code itself. The queue, whose own
//! model is in crate `memif`, is what it needs of one: an index, the interrupt flag with the fences of both sides, an eventfd. What `poll`
//! waits for is a condition here, so that loom tells of a sleeper that nobody wakes: there are no naps.

use loom::sync::atomic::{AtomicU16, Ordering, fence};
use loom::sync::{Arc as Shared, Condvar, Mutex};
use loom::thread;

use super::{Arc, Signals, Sleepers, Wake, lock};

/// The eventfds, and who waits for them.
struct Kernel {
    /// The queue's, then one for each sleeper.
    signalled: Mutex<[bool; 3]>,
    changed: Condvar,
}

impl Kernel {
    fn signal(&self, event: usize) {
        lock(&self.signalled)[event] = true;
        self.changed.notify_all();
    }

    fn poll(&self, one: usize, other: usize) {
        let mut signalled = lock(&self.signalled);
        while !signalled[one] && !signalled[other] {
            signalled = self.changed.wait(signalled).unwrap();
        }
    }
}

/// A sleeper's own eventfd.
struct Bed(Shared<Kernel>, usize);

impl Wake for Bed {
    fn signal(&self) {
        self.0.signal(self.1);
    }
}

/// A queue to receive from.
struct Queue {
    /// Packets that there ever were.
    head: AtomicU16,
    /// 1: no signals, please.
    flags: AtomicU16,
    /// Packets that were received, by who has the queue.
    taken: Mutex<u16>,
    kernel: Shared<Kernel>,
}

impl Queue {
    /// The peer sends one.
    fn send(&self, number: u16) {
        self.head.store(number, Ordering::Release);
        fence(Ordering::SeqCst);
        if self.flags.load(Ordering::Relaxed) == 0 {
            self.kernel.signal(0);
        }
    }

    fn receive(&self) -> bool {
        let mut taken = lock(&self.taken);
        let there = self.head.load(Ordering::Acquire) != *taken;
        *taken += u16::from(there);
        there
    }

    /// Whether there is something, leaving signals asked for that somebody waits for.
    fn ready(&self, waited_for: bool) -> bool {
        let ready = self.arm();
        if !waited_for {
            self.disarm();
        }
        ready
    }
}

impl Signals for Queue {
    fn arm(&self) -> bool {
        let taken = lock(&self.taken);
        self.flags.store(0, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.head.load(Ordering::Acquire) != *taken
    }

    fn disarm(&self) {
        let _taken = lock(&self.taken);
        self.flags.store(1, Ordering::Relaxed);
    }

    fn take_signals(&self) -> bool {
        std::mem::take(&mut lock(&self.kernel.signalled)[0])
    }
}

struct Port {
    sleepers: Sleepers<Bed>,
    queue: Arc<Queue>,
}

impl Port {
    fn new() -> Shared<Self> {
        let kernel = Shared::new(Kernel { signalled: Mutex::new([false; 3]), changed: Condvar::new() });
        let (head, flags, taken) = (AtomicU16::new(0), AtomicU16::new(1), Mutex::new(0));
        Shared::new(Self {
            sleepers: Sleepers::default(),
            queue: Arc::new(Queue { head, flags, taken, kernel }),
        })
    }

    /// What `qm_ready` and the beginning of `wait` do.
    fn looks(&self) -> bool {
        self.sleepers.look(|waited_for| self.queue.ready(waited_for))
    }

    /// A thread that waits until it has received one packet, as `wait` does, with the eventfd of this number.
    fn one_packet(&self, number: usize) {
        loop {
            if self.looks() && self.queue.receive() {
                return;
            }
            let me = Arc::new(Bed(Shared::clone(&self.queue.kernel), number));
            lock(&self.queue.kernel.signalled)[number] = false;
            let (link, ready) = self.sleepers.enter(&me, || Some(Arc::clone(&self.queue)));
            if !ready {
                self.queue.kernel.poll(0, number);
            }
            self.sleepers.leave(&me, link.as_deref());
        }
    }
}

/// Whoever takes the signal back wakes the other.
#[test]
fn two_sleepers_get_a_packet_each() {
    loom::model(|| {
        let port = Port::new();
        let threads = [1, 2].map(|number| {
            let port = Shared::clone(&port);
            thread::spawn(move || port.one_packet(number))
        });
        (1..=2).for_each(|number| port.queue.send(number));
        for thread in threads {
            thread.join().unwrap();
        }
    });
}

/// Who looks, and goes, doesn't take the signals away that another sleeps for.
#[test]
fn a_sleeper_beside_one_that_looks_gets_its_packet() {
    loom::model(|| {
        let port = Port::new();
        let threads = [
            thread::spawn({
                let port = Shared::clone(&port);
                move || port.one_packet(1)
            }),
            thread::spawn({
                let port = Shared::clone(&port);
                move || {
                    let _ = (port.looks(), port.looks());
                }
            }),
        ];
        port.queue.send(1);
        for thread in threads {
            thread.join().unwrap();
        }
    });
}
