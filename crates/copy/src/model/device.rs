//! The thread: what a descriptor does.

use std::io;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::chance::Chance;
use super::memory::Memory;
use super::queue::Queue;
use crate::dsa::{Descriptor, Flags, Opcode, Record};

/// Status bytes (`DSA_COMP_*`).
mod status {
    pub const SUCCESS: u8 = 0x01;
    pub const PAGE_FAULT: u8 = 0x03;
    pub const PAGE_REQUEST_REFUSED: u8 = 0x04;
    pub const BATCH_FAIL: u8 = 0x05;
    pub const BATCH_PAGE_FAULT: u8 = 0x06;
    pub const BAD_OPCODE: u8 = 0x10;
    pub const INVALID_FLAGS: u8 = 0x11;
    pub const TRANSFER_SIZE: u8 = 0x13;
    pub const DESCRIPTOR_COUNT: u8 = 0x14;
    pub const LIST_ALIGNMENT: u8 = 0x18;
    pub const HARDWARE: u8 = 0x20;
    /// Added where the fault was on writing.
    pub const ON_WRITE: u8 = 0x80;
}

/// What of a descriptor's flags the model knows.
const KNOWN_FLAGS: u32 =
    Flags::FENCE.0 | Flags::BLOCK_ON_FAULT.0 | Flags::RECORD_VALID.0 | Flags::RECORD.0 | Flags::CACHE.0;

#[derive(Debug)]
pub(super) struct Device {
    queue: Arc<Queue>,
    chance: Chance,
    memory: Memory,
}

/// How a descriptor ended.
struct End {
    status: u8,
    backwards: bool,
    completed: u32,
    fault: u64,
}

/// How far a transfer has come.
enum Step {
    Over(End),
    Waits(Wait),
}

/// A transfer that waits for a page: the rest of it is to be done when that is there.
struct Wait {
    due: Instant,
    backwards: bool,
    /// Bytes that were done before.
    completed: u32,
    fault: u64,
    on_write: u8,
    refused: bool,
}

impl End {
    const fn new(status: u8) -> Self {
        Self { status, backwards: false, completed: 0, fault: 0 }
    }
}

impl Device {
    pub fn new(queue: Arc<Queue>) -> io::Result<Self> {
        let chance = Chance::new(queue.options.seed);
        Ok(Self { queue, chance, memory: Memory::open()? })
    }

    /// Works until it is over.
    pub fn run(mut self) {
        let queue = Arc::clone(&self.queue);
        loop {
            let mut entries = queue.wait();
            if entries.stop {
                return;
            }
            let ahead = if queue.options.troubles.reorder { entries.list.len().min(4) } else { 1 };
            let next = entries.list.remove(self.chance.below(ahead as u32) as usize);
            drop(entries);
            if let Some(descriptor) = next {
                self.execute(&descriptor);
            }
        }
    }

    fn dead(&self) -> bool {
        let begun = self.queue.watch.begun.load(Ordering::Relaxed);
        self.queue.options.troubles.dies_after.is_some_and(|transfers| begun >= transfers)
    }

    /// Does what a descriptor from the queue says.
    fn execute(&mut self, descriptor: &Descriptor) {
        if self.chance.percent(self.queue.options.troubles.delays) {
            std::thread::sleep(Duration::from_micros(self.chance.below(200).into()));
        }
        let end = match descriptor.opcode() {
            opcode if opcode == Opcode::Batch as u8 => self.batch(descriptor),
            _ => self.transfer(descriptor),
        };
        self.report(descriptor, end);
        self.queue.watch.done.fetch_add(1, Ordering::Release);
    }

    /// Writes the record of a descriptor, if it has one.
    fn report(&self, descriptor: &Descriptor, end: Option<End>) {
        let Some(End { status, backwards, completed, fault }) = end else { return };
        let flags = descriptor.flags();
        if !flags.has(Flags::RECORD_VALID)
            || descriptor.completion == 0
            || !descriptor.completion.is_multiple_of(32)
        {
            self.queue.watch.unreportable.fetch_add(1, Ordering::Relaxed);
            return;
        }
        if status == status::SUCCESS && !flags.has(Flags::RECORD) {
            return;
        }
        let record = ptr::with_exposed_provenance::<Record>(descriptor.completion as usize);
        // SAFETY: whoever submitted it promised that the record is there until it was written (`Portal::submit`), and it is aligned.
        #[allow(unsafe_code)]
        let record = unsafe { &*record };
        record.write(crate::dsa::record_words(status, backwards, completed, fault));
    }

    /// Does the descriptors of a list, each with its record. What waits for a page keeps no other waiting, unless that is fenced. `None`: no
    /// answer.
    fn batch(&mut self, batch: &Descriptor) -> Option<End> {
        let troubles = self.queue.options.troubles;
        if !batch.source.is_multiple_of(64) {
            return Some(End::new(status::LIST_ALIGNMENT));
        }
        if batch.size < 2 || batch.size > self.queue.options.limits.max_batch {
            return Some(End::new(status::DESCRIPTOR_COUNT));
        }
        let list = ptr::with_exposed_provenance::<Descriptor>(batch.source as usize);
        // SAFETY: as promised to `Portal::submit`, the list is there, as long as the batch says, until the batch's record is written.
        #[allow(unsafe_code)]
        let mut list = (0..batch.size as usize).map(|at| unsafe { list.add(at).read() }).collect::<Vec<_>>();
        let short = self.chance.percent(troubles.short_batches);
        if short {
            list.truncate(self.chance.below(batch.size) as usize);
        }
        // What is fenced waits for all before it: nothing of such a list may be done out of turn.
        if troubles.reorder && !list.iter().any(|descriptor| descriptor.flags().has(Flags::FENCE)) {
            for at in (1..list.len()).rev() {
                list.swap(at, self.chance.below(at as u32 + 1) as usize);
            }
        }
        let (mut all_well, mut waiting) = (true, Vec::new());
        for descriptor in &list {
            if descriptor.flags().has(Flags::FENCE) {
                all_well &= self.resume(&mut waiting);
            }
            match self.begin(descriptor)? {
                Step::Over(end) => {
                    self.queue.watch.overtaken.fetch_add(u64::from(!waiting.is_empty()), Ordering::Relaxed);
                    all_well &= end.status == status::SUCCESS;
                    self.report(descriptor, Some(end));
                }
                Step::Waits(wait) => waiting.push((*descriptor, wait)),
            }
        }
        all_well &= self.resume(&mut waiting);
        let status = match (short, all_well) {
            (true, _) => status::BATCH_PAGE_FAULT,
            (false, true) => status::SUCCESS,
            (false, false) => status::BATCH_FAIL,
        };
        let fault = batch.source + 64 * list.len() as u64;
        Some(End { completed: list.len() as u32, fault, ..End::new(status) })
    }

    /// Goes on with what has waited for pages; whether all went well.
    fn resume(&mut self, waiting: &mut Vec<(Descriptor, Wait)>) -> bool {
        let mut all_well = true;
        for (descriptor, wait) in waiting.drain(..) {
            let end = self.go_on(&descriptor, wait);
            all_well &= end.status == status::SUCCESS;
            self.report(&descriptor, Some(end));
        }
        all_well
    }

    /// Copies, or goes wrong. `None`: no answer.
    fn transfer(&mut self, descriptor: &Descriptor) -> Option<End> {
        Some(match self.begin(descriptor)? {
            Step::Over(end) => end,
            Step::Waits(wait) => self.go_on(descriptor, wait),
        })
    }

    /// Copies up to where a page isn't there, or goes wrong. `None`: no answer.
    fn begin(&mut self, descriptor: &Descriptor) -> Option<Step> {
        if self.dead() {
            return None;
        }
        self.queue.watch.begun.fetch_add(1, Ordering::Relaxed);
        let (troubles, limits) = (self.queue.options.troubles, self.queue.options.limits);
        let &Descriptor { source, destination, size, .. } = descriptor;
        let over = |status| Some(Step::Over(End::new(status)));
        if descriptor.opcode() != Opcode::MemMove as u8 {
            return over(status::BAD_OPCODE);
        }
        if descriptor.flags().0 & !KNOWN_FLAGS != 0 {
            return over(status::INVALID_FLAGS);
        }
        if size == 0 || u64::from(size) > limits.max_transfer {
            return over(status::TRANSFER_SIZE);
        }
        if self.chance.percent(troubles.errors) {
            // An error says nothing of what was done: so, something wrong.
            self.memory.spoil(destination, self.chance.below(size + 1));
            return over(status::HARDWARE);
        }
        let faults = self.chance.percent(troubles.page_faults);
        let (backwards, goes) =
            if faults { (self.chance.percent(25), self.chance.below(size)) } else { (false, size) };
        let skip = if backwards { size - goes } else { 0 };
        let (from, to) = (source + u64::from(skip), destination + u64::from(skip));
        let met = self.memory.copy(from, to, goes);
        let (completed, on_write, really) = match met {
            Ok(()) if !faults => {
                return Some(Step::Over(End { completed: size, ..End::new(status::SUCCESS) }));
            }
            Ok(()) => (goes, self.chance.percent(50), false),
            // It came upon a page that really isn't there.
            Err(fault) if !backwards => (fault.completed, fault.on_write, true),
            Err(fault) => (0, fault.on_write, true),
        };
        let at = if on_write { destination } else { source };
        let fault = at + u64::from(if backwards { skip.saturating_sub(1) } else { completed });
        let on_write = if on_write { status::ON_WRITE } else { 0 };
        if descriptor.flags().has(Flags::BLOCK_ON_FAULT) {
            let refused = really || self.chance.percent(troubles.refused_pages);
            let due = Duration::from_micros(self.chance.below(troubles.page_wait.saturating_add(1)).into());
            let due = Instant::now() + due;
            return Some(Step::Waits(Wait { due, backwards, completed, fault, on_write, refused }));
        }
        let status = status::PAGE_FAULT | on_write;
        Some(Step::Over(End { status, backwards, completed, fault }))
    }

    /// The page that it has asked for has come, or there is none: of how far it had come nothing is said then.
    fn go_on(&mut self, descriptor: &Descriptor, wait: Wait) -> End {
        self.queue.watch.waits.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(wait.due.saturating_duration_since(Instant::now()));
        let Wait { backwards, completed, fault, on_write, refused, .. } = wait;
        let &Descriptor { source, destination, size, .. } = descriptor;
        let skip = if backwards { 0 } else { completed };
        let rest = size - completed;
        if refused || self.memory.copy(source + u64::from(skip), destination + u64::from(skip), rest).is_err()
        {
            return End { fault, ..End::new(status::PAGE_REQUEST_REFUSED | on_write) };
        }
        End { completed: size, ..End::new(status::SUCCESS) }
    }
}
