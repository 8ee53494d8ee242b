//! What handing bodies to a work queue costs the worker: clocks a body, of the time-stamp counter, without what the device takes.
//!
//! `cargo run --release -p quiver-copy --example engine_clocks`

#![allow(unsafe_code, reason = "it plays the device, which writes completion records")]

use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use memory::clock::cycles;
use quiver_copy::dsa::{Accepted, Channel, Descriptor, Device, Limits, Mode, Opcode, Portal};
use quiver_copy::{Cpu, Engine, Transfer};

/// Bodies of a vector.
const BODIES: usize = 64;
/// Vectors that are looked at; the median counts.
const VECTORS: usize = 20_001;

/// A queue that takes descriptors, and says that they are done when it is told to.
#[derive(Debug, Clone, Default)]
struct Shelf(Arc<Mutex<Vec<Descriptor>>>);

impl Portal for Shelf {
    unsafe fn submit(&self, descriptor: &Descriptor, _: usize) -> Accepted {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(*descriptor);
        Accepted::Yes
    }
}

impl Shelf {
    /// Writes all records, first those of the descriptors of batches.
    fn done(&self) {
        for descriptor in self.0.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            if descriptor.opcode() == Opcode::Batch as u8 {
                let list = ptr::with_exposed_provenance::<Descriptor>(descriptor.source as usize);
                // SAFETY: the list is there until the batch's record is written.
                (0..descriptor.size as usize).for_each(|at| record(unsafe { &*list.add(at) }));
            }
            record(&descriptor);
        }
    }
}

/// Says that a descriptor is done.
fn record(descriptor: &Descriptor) {
    let status = ptr::with_exposed_provenance::<AtomicU64>(descriptor.completion as usize);
    // SAFETY: the record is there until it was written, and has the status in its first word.
    unsafe { &*status }.store(1, Ordering::Release);
}

fn main() {
    let limits = Limits {
        mode: Mode::Dedicated,
        size: 16,
        max_batch: 1024,
        max_transfer: 2 << 20,
        block_on_fault: false,
    };
    println!("{:>6}  {:>14}  {:>8}", "bodies", "hand over", "finish");
    for bodies in [1, 4, 16, BODIES] {
        let shelf = Shelf::default();
        let device = Device::new("shelf", limits, Duration::from_secs(1), Box::new(shelf.clone()));
        let mut channel = Channel::new(Arc::new(device), Cpu::default());
        let (mut over, mut finish) = (Vec::new(), Vec::new());
        let (from, mut to) = (vec![0_u8; 2048], vec![0_u8; 2048]);
        for _ in 0..VECTORS {
            let transfer = Transfer { to: to.as_mut_ptr(), from: from.as_ptr(), len: 2048 };
            let begin = cycles();
            for _ in 0..bodies {
                // SAFETY: both outlive the channel's `finish`, and nothing is copied.
                unsafe { channel.push(transfer) };
            }
            channel.submit();
            over.push(cycles() - begin);
            shelf.done();
            let begin = cycles();
            assert_eq!(channel.poll(), bodies);
            finish.push(cycles() - begin);
        }
        let median = |clocks: &mut Vec<u64>| {
            clocks.sort_unstable();
            clocks[VECTORS / 2] as f64 / bodies as f64
        };
        println!("{bodies:>6}  {:>14.1}  {:>8.1}", median(&mut over), median(&mut finish));
        channel.finish();
    }
}
