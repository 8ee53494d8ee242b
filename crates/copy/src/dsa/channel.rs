//! The engine of one transmit queue.

mod finish;

use std::cell::UnsafeCell;
use std::collections::VecDeque;
use std::fmt;
use std::ptr;
use std::sync::Arc;

use super::device::Offered;
use super::{Counts, Descriptor, Device, Flags, Mode, Record};
use crate::cpu::Cpu;
use crate::engine::{Engine, Transfer};

/// Transfers that a channel has on their way, at most; the CPU does what is more. As many as a ring of the usual size has descriptors: the
/// bodies of a vector of jumbo frames, each in several of them.
pub const CAPACITY: usize = 1024;
/// So many pushed transfers don't wait for the end of the vector: the device works on them while the worker writes the heads of others.
const BURST: usize = 64;
/// How often a descriptor is offered to a full queue.
const TRIES: u32 = 64;

/// Transfers that were submitted together.
#[derive(Debug)]
struct Job {
    /// The first.
    first: usize,
    count: usize,
    /// The opening of the queue by which the device has it; `None`: the CPU has done it already.
    at_device: Option<u32>,
}

/// Hands transfers to a work queue: single ones as they are, several as a batch.
///
/// Transfers have places in a ring, in order. Each has a descriptor and a completion record there; a batch is a run of descriptors, with a
/// record of its own at the place of its first.
pub struct Channel {
    device: Arc<Device>,
    cpu: Cpu,
    flags: Flags,
    descriptors: Box<[UnsafeCell<Descriptor>]>,
    records: Box<[Record]>,
    batch_records: Box<[Record]>,
    transfers: Box<[Transfer]>,
    /// Transfers pushed right behind this one that found no place, and that the CPU has done.
    followers: Box<[usize]>,
    /// Of the portal, for the next descriptor.
    slot: usize,
    /// Submitted, in order, not all done.
    jobs: VecDeque<Job>,
    /// Numbers of transfers; the place is the number modulo [`CAPACITY`].
    pushed: usize,
    submitted: usize,
    done: usize,
    /// Done with nothing ahead of them, and not yet reported.
    unreported: usize,
    counts: Counts,
}

// SAFETY: the transfers' addresses are good on any thread (`Engine::push`); the descriptors are only written through `&mut self`.
#[allow(unsafe_code)]
unsafe impl Send for Channel {}

impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Channel")
            .field("device", &self.device.name())
            .field("pending", &self.pending())
            .finish_non_exhaustive()
    }
}

impl Channel {
    /// A channel to a device.
    #[must_use]
    pub fn new(device: Arc<Device>, cpu: Cpu) -> Self {
        let bof = if device.limits().block_on_fault { Flags::BLOCK_ON_FAULT } else { Flags(0) };
        let nowhere = Transfer { to: ptr::null_mut(), from: ptr::null(), len: 0 };
        let slot = device.first_slot();
        let records = || (0..CAPACITY).map(|_| Record::default()).collect();
        Self {
            device,
            cpu,
            flags: bof.with(Flags::CACHE),
            descriptors: (0..CAPACITY).map(|_| UnsafeCell::new(Descriptor::none())).collect(),
            records: records(),
            batch_records: records(),
            transfers: vec![nowhere; CAPACITY].into(),
            followers: vec![0; CAPACITY].into(),
            slot,
            jobs: VecDeque::with_capacity(CAPACITY),
            pushed: 0,
            submitted: 0,
            done: 0,
            unreported: 0,
            counts: Counts::default(),
        }
    }

    /// The device behind it.
    #[must_use]
    pub const fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// The CPU does what is left of a transfer from `at` on, `len` bytes.
    fn fall_back(&mut self, transfer: Transfer, at: u32, len: u32) {
        let (to, from) = (transfer.to.wrapping_add(at as usize), transfer.from.wrapping_add(at as usize));
        // SAFETY: a part of a transfer that was pushed and not yet reported as done.
        #[allow(unsafe_code)]
        unsafe {
            self.cpu.copy(Transfer { to, from, len });
        }
        self.counts.fallbacks += 1;
        self.counts.fallback_bytes += u64::from(len);
    }

    /// Finishes what the device is done with, which counts for the next report: it gives back the places of a dedicated queue, as nothing
    /// else tells of them, and the channel's own.
    fn make_room(&mut self) {
        while let Some(count) = self.settle() {
            self.unreported += count;
        }
    }

    /// Hands a descriptor over, trying again for a while where the queue is full, perhaps with our own.
    ///
    /// # Safety
    /// As [`Device::offer`].
    #[allow(unsafe_code)]
    unsafe fn enqueue(&mut self, descriptor: &Descriptor) -> Offered {
        for attempt in 0..TRIES {
            if attempt > 0 {
                self.counts.retries += 1;
                std::hint::spin_loop();
            }
            if attempt > 0 || self.device.limits().mode == Mode::Dedicated {
                self.make_room();
            }
            self.slot = self.slot.wrapping_add(1);
            // SAFETY: the caller's promise.
            let offered = unsafe { self.device.offer(descriptor, self.slot) };
            if offered != Offered::Full {
                return offered;
            }
        }
        Offered::Full
    }

    /// Submits a run of transfers whose places don't wrap.
    fn submit_run(&mut self, first: usize, count: usize) {
        self.counts.transfers += count as u64;
        let place = first % CAPACITY;
        for at in place..place + count {
            let Transfer { to, from, len } = self.transfers[at];
            let record = &self.records[at];
            record.clear();
            let (from, to) = (from.expose_provenance() as u64, to.expose_provenance() as u64);
            let descriptor = Descriptor::mem_move(self.flags, from, to, len, record.address());
            // SAFETY: nobody reads a descriptor whose transfer isn't submitted, and we are its only writer.
            #[allow(unsafe_code)]
            unsafe {
                *self.descriptors[at].get() = descriptor;
            }
        }
        let list = &self.descriptors[place..place + count];
        let single = match list {
            // SAFETY: as above.
            #[allow(unsafe_code)]
            [one] => unsafe { *one.get() },
            _ => {
                let record = &self.batch_records[place];
                record.clear();
                let list = list.as_ptr().expose_provenance() as u64;
                Descriptor::batch(list, count as u32, record.address())
            }
        };
        // SAFETY: list and records are the channel's and aren't written again before the job is done; transfers are good until they are
        // reported as done, or the channel was dropped, which waits for both.
        #[allow(unsafe_code)]
        let offered = unsafe { self.enqueue(&single) };
        let at_device = if let Offered::Taken(opening) = offered { Some(opening) } else { None };
        if at_device.is_some() {
            self.counts.submitted += 1;
            self.counts.batches += u64::from(count > 1);
        } else {
            if offered == Offered::Full {
                self.counts.full += count as u64;
            }
            for at in place..place + count {
                self.fall_back(self.transfers[at], 0, self.transfers[at].len);
            }
        }
        self.jobs.push_back(Job { first, count, at_device });
    }
}

impl Engine for Channel {
    #[allow(unsafe_code)]
    unsafe fn push(&mut self, transfer: Transfer) {
        if self.pushed - self.done == CAPACITY {
            self.submit();
            self.make_room();
        }
        let no_room = self.pushed - self.done == CAPACITY;
        let fits = (1..=self.device.limits().max_transfer).contains(&u64::from(transfer.len));
        if no_room || !fits || !self.is_up() {
            self.counts.transfers += 1;
            self.counts.full += u64::from(no_room);
            self.fall_back(transfer, 0, transfer.len);
            match self.pushed - self.done {
                0 => self.unreported += 1,
                _ => self.followers[(self.pushed - 1) % CAPACITY] += 1,
            }
            return;
        }
        self.transfers[self.pushed % CAPACITY] = transfer;
        self.pushed += 1;
        if self.pushed - self.submitted == BURST {
            self.submit();
        }
    }

    fn submit(&mut self) {
        while self.submitted < self.pushed {
            let to_wrap = CAPACITY - self.submitted % CAPACITY;
            let batch = (self.device.limits().max_batch as usize).max(1);
            let count = (self.pushed - self.submitted).min(to_wrap).min(batch);
            self.submit_run(self.submitted, count);
            self.submitted += count;
        }
    }

    fn poll(&mut self) -> usize {
        let mut done = std::mem::take(&mut self.unreported);
        while let Some(count) = self.settle() {
            done += count;
        }
        self.device.counters.take(&mut self.counts);
        done
    }

    fn finish(&mut self) {
        self.submit();
        while !self.jobs.is_empty() {
            self.wait();
            while self.settle().is_some() {}
        }
        self.poll();
    }

    fn is_up(&self) -> bool {
        self.device.is_up()
    }

    fn pending(&self) -> usize {
        let followers = self.followers.iter().sum::<usize>();
        self.pushed - self.done + followers + self.unreported
    }
}

impl Drop for Channel {
    /// Nobody asks any more for what wasn't submitted. What was is waited for.
    fn drop(&mut self) {
        self.pushed = self.submitted;
        self.finish();
    }
}
