//! The portal: a queue of descriptors.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use super::chance::Chance;
use super::device::Device;
use super::options::ModelOptions;
use crate::dsa::{Accepted, Descriptor, Mode, Portal, SLOTS};

/// What the model has seen.
#[derive(Debug, Default)]
pub struct Watch {
    /// Descriptors that were taken.
    pub taken: AtomicU64,
    /// Of those, with which it is done: what it had to report, it has.
    pub done: AtomicU64,
    /// Slots of the portal that were written to, a bit each.
    pub slots: AtomicU64,
    /// Transfers that it has begun.
    pub begun: AtomicU64,
    /// Transfers that have waited for a page.
    pub waits: AtomicU64,
    /// Transfers of a batch that were done while one ahead of them was waiting.
    pub overtaken: AtomicU64,
    /// Descriptors written to a dedicated queue that was full: a device loses them without a word.
    pub overflows: AtomicU64,
    /// Descriptors whose errors can't even be reported, since they have no valid completion record.
    pub unreportable: AtomicU64,
}

#[derive(Debug)]
pub(super) struct Entries {
    pub list: VecDeque<Descriptor>,
    pub stop: bool,
    chance: Chance,
}

#[derive(Debug)]
pub(super) struct Queue {
    entries: Mutex<Entries>,
    /// Rung when there is something to do.
    bell: Condvar,
    pub options: ModelOptions,
    pub watch: Arc<Watch>,
}

impl Queue {
    pub fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there is a descriptor or it is over.
    pub fn wait(&self) -> MutexGuard<'_, Entries> {
        let idle = |entries: &mut Entries| entries.list.is_empty() && !entries.stop;
        self.bell.wait_while(self.entries(), idle).unwrap_or_else(PoisonError::into_inner)
    }
}

/// The model's portal. Dropping it ends the thread: it copies nothing after that.
#[derive(Debug)]
pub struct Model {
    queue: Arc<Queue>,
    thread: Option<JoinHandle<()>>,
}

impl Model {
    /// Starts a model.
    ///
    /// # Errors
    /// What the system says where it gives no thread, or doesn't let it look at memory as a device does (`/proc/self/mem`).
    pub fn start(options: ModelOptions) -> io::Result<Self> {
        Self::opened(options, Arc::default())
    }

    /// Opens the queue of a device again that has seen this: one that is dead stays so.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn opened(options: ModelOptions, watch: Arc<Watch>) -> io::Result<Self> {
        let entries =
            Entries { list: VecDeque::new(), stop: false, chance: Chance::new(options.seed ^ 0xf00d) };
        let queue = Queue { entries: Mutex::new(entries), bell: Condvar::new(), options, watch };
        let queue = Arc::new(queue);
        let device = Device::new(Arc::clone(&queue))?;
        let thread = std::thread::Builder::new().name("dsa-model".into()).spawn(move || device.run())?;
        Ok(Self { queue, thread: Some(thread) })
    }

    /// What it has seen, to be looked at from outside.
    #[must_use]
    pub fn watch(&self) -> Arc<Watch> {
        Arc::clone(&self.queue.watch)
    }
}

impl Portal for Model {
    #[allow(unsafe_code)]
    unsafe fn submit(&self, descriptor: &Descriptor, slot: usize) -> Accepted {
        self.queue.watch.slots.fetch_or(1 << (slot % SLOTS), Ordering::Relaxed);
        let ModelOptions { limits, troubles, .. } = self.queue.options;
        let mut entries = self.queue.entries();
        let full = entries.list.len() >= limits.size as usize;
        match limits.mode {
            Mode::Shared if full || entries.chance.percent(troubles.full) => return Accepted::Full,
            Mode::Dedicated if full => {
                self.queue.watch.overflows.fetch_add(1, Ordering::Relaxed);
                return Accepted::Yes;
            }
            _ => {}
        }
        entries.list.push_back(*descriptor);
        drop(entries);
        self.queue.watch.taken.fetch_add(1, Ordering::Relaxed);
        self.queue.bell.notify_one();
        Accepted::Yes
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        self.queue.entries().stop = true;
        self.queue.bell.notify_one();
        if let Some(thread) = self.thread.take() {
            // One that panicked has said so on standard error, and copies nothing either.
            let _ = thread.join();
        }
    }
}
