//! What stands for a buffer that has gone on, checked by loom: whichever way two workers' exchanges and releases fall together, every
//! buffer is in one slot in the end.
//!
//! Run as the model of [`indices`](super::super::indices). A worker's packet goes out by a ring that both send to, under that queue's lock.

use loom::sync::{Arc, Mutex};
use loom::thread;
use memory::region::HugePages;

use super::{NONE, Ordering, Pool, PoolSlots};

/// One packet of a worker's receive ring: sent by exchange if its buffer is untouched (else it would be copied), and then released.
fn pass(rx: &PoolSlots, tx: &Mutex<PoolSlots>) {
    let buffer = rx.slot(0).load(Ordering::Relaxed);
    if let Some(buffer) = rx.buffer_of(rx.begin(buffer)) {
        tx.lock().unwrap().exchange(0, buffer);
    }
    rx.renew(0);
}

fn in_slots(slots: &[&PoolSlots]) -> Vec<u32> {
    let mut buffers: Vec<_> = slots.iter().map(|slots| slots.slot(0).load(Ordering::Relaxed)).collect();
    buffers.sort_unstable();
    buffers
}

/// Two workers, and as many packets of each: the second packet of one may lie in the buffer that the other has just sent.
fn workers(packets: [usize; 2]) {
    loom::model(move || {
        let pool = Pool::new("model", 3, 64, HugePages::Never).unwrap();
        let slots = || pool.slots(0, 1).unwrap();
        let tx = Arc::new(Mutex::new(slots()));
        let workers = packets.map(|packets| {
            let (tx, rx) = (Arc::clone(&tx), slots());
            thread::spawn(move || {
                for _ in 0..packets {
                    pass(&rx, &tx);
                }
                rx
            })
        });
        let [a, b] = workers.map(|worker| worker.join().unwrap());
        // What was noted and not met yet is met when the slot is given back the next time.
        a.renew(0);
        b.renew(0);
        tx.lock().unwrap().renew(0);
        assert_eq!(in_slots(&[&a, &b, &tx.lock().unwrap()]), [0, 1, 2]);
        assert!(pool.instead.iter().all(|noted| noted.load(Ordering::Relaxed) == NONE));
    });
}

#[test]
fn model_of_two_workers_that_send_by_one_ring() {
    workers([1, 1]);
}

#[test]
fn model_of_a_buffer_that_goes_round() {
    workers([2, 1]);
}
