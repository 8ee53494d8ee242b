//! What becomes of transfers that were submitted.

use std::time::{Duration, Instant};

use super::super::{Reason, Status};
use super::{CAPACITY, Channel, Job};

/// Between two looks at the clock while one waits.
const SPINS: u32 = 64;
/// After so many, others are let to the core: a model's thread perhaps.
const PATIENT_SPINS: u32 = 2048;
/// What passes between two looks counts for no more than this: a process that is stopped isn't waiting.
const LONGEST_GAP: Duration = Duration::from_millis(1);

impl Channel {
    /// Finishes the first job if the device is done with it. Gives how many transfers, with those that follow them.
    pub(super) fn settle(&mut self) -> Option<usize> {
        let &Job { first, count, at_device } = self.jobs.front()?;
        let place = first % CAPACITY;
        if let Some(opening) = at_device {
            let record = if count == 1 { &self.records[place] } else { &self.batch_records[place] };
            // In this order: a record that was written before the device was closed is seen.
            let over = self.device.is_over(opening);
            if record.read().status == Status::None && !over {
                return None;
            }
            self.device.complete(opening);
            for at in place..place + count {
                self.settle_transfer(at, opening);
            }
        }
        self.jobs.pop_front();
        self.done += count;
        Some(count + self.followers[place..place + count].iter_mut().map(std::mem::take).sum::<usize>())
    }

    /// Finishes a transfer with which the device is done.
    fn settle_transfer(&mut self, at: usize, opening: u32) {
        let outcome = self.records[at].read();
        let transfer = self.transfers[at];
        let len = transfer.len;
        match outcome.status {
            Status::Success => {
                self.counts.completed += 1;
                self.counts.bytes += u64::from(len);
                self.device.did(true, opening);
            }
            // A peer's doing, which says nothing of the device: others go on with it.
            Status::PageFault => {
                let completed = outcome.completed.min(len);
                self.counts.faults += 1;
                self.counts.bytes += u64::from(completed);
                self.fall_back(transfer, if outcome.backwards { 0 } else { completed }, len - completed);
            }
            Status::Untranslated => {
                self.counts.faults += 1;
                self.fall_back(transfer, 0, len);
            }
            status => {
                // `None`: of a batch that was not read to its end, or the device was given up.
                self.counts.errors += u64::from(status != Status::None);
                self.fall_back(transfer, 0, len);
                // What was on its way when the device was given up says nothing of its next opening.
                if !self.device.is_over(opening) {
                    self.device.did(false, opening);
                }
            }
        }
    }

    /// Waits for the first job.
    pub(super) fn wait(&mut self) {
        let (mut waited, mut last) = (Duration::ZERO, Instant::now());
        for spins in 1_u32.. {
            let Some((job, opening)) = self.jobs.front().and_then(|job| Some((job, job.at_device?))) else {
                return;
            };
            if self.is_over(job, opening) {
                return;
            }
            let patient = spins > PATIENT_SPINS;
            if patient || spins.is_multiple_of(SPINS) {
                let now = Instant::now();
                waited += now.duration_since(last).min(LONGEST_GAP);
                last = now;
                if waited > self.device.patience() {
                    self.device.give_up(opening, Reason::NoAnswer(self.device.patience()));
                }
            }
            if patient { std::thread::yield_now() } else { std::hint::spin_loop() }
        }
    }

    fn is_over(&self, job: &Job, opening: u32) -> bool {
        let place = job.first % CAPACITY;
        let record = if job.count == 1 { &self.records[place] } else { &self.batch_records[place] };
        self.device.is_over(opening) || record.read().status != Status::None
    }
}
