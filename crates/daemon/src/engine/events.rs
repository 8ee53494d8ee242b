//! What workers tell the engine's thread.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use graph::worker::{Event, EventSender};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

/// Events that may wait; more are dropped with a reason by whoever sends them.
const CAPACITY: usize = 4096;

/// The engine's end.
#[derive(Debug)]
pub(super) struct Events {
    queue: Receiver<Event>,
    waiting: Arc<AtomicUsize>,
    bell: Arc<Bell>,
}

/// Wakes the engine's thread.
#[derive(Debug)]
pub(super) struct Bell {
    fd: OwnedFd,
    rung: AtomicBool,
}

impl Bell {
    /// One that nobody has rung yet.
    ///
    /// # Errors
    /// [`Errno`] when the process is out of descriptors.
    pub(super) fn new() -> Result<Self, Errno> {
        let fd = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Self { fd, rung: AtomicBool::new(false) })
    }

    /// Wakes, once until it is heard.
    pub(super) fn ring(&self) {
        if !self.rung.swap(true, Ordering::AcqRel) {
            // Fails only where the counter is full: then it is being heard anyway.
            let _ = rustix::io::write(&self.fd, &1u64.to_ne_bytes());
        }
    }

    /// What becomes readable.
    pub(super) fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    /// Makes it quiet again. What was sent before is in the queue.
    pub(super) fn hear(&self) {
        let _ = rustix::io::read(&self.fd, &mut [0; 8]);
        self.rung.store(false, Ordering::Release);
    }
}

impl Events {
    /// Both ends.
    ///
    /// # Errors
    /// [`Errno`] when the process is out of descriptors.
    pub(super) fn new() -> Result<(Self, EventSender), Errno> {
        let bell = Arc::new(Bell::new()?);
        let (sender, queue): (SyncSender<Event>, _) = sync_channel(CAPACITY);
        let waiting = Arc::new(AtomicUsize::new(0));
        let (theirs, count) = (Arc::clone(&bell), Arc::clone(&waiting));
        let send = move |event| {
            let sent = sender.try_send(event).is_ok();
            if sent {
                count.fetch_add(1, Ordering::Release);
            }
            theirs.ring();
            sent
        };
        Ok((Self { queue, waiting, bell }, EventSender::new(send)))
    }

    /// What wakes the engine's thread.
    pub(super) fn bell(&self) -> &Arc<Bell> {
        &self.bell
    }

    /// The next event, if there is one.
    pub(super) fn next(&self) -> Option<Event> {
        let event = self.queue.try_recv().ok()?;
        self.waiting.fetch_sub(1, Ordering::AcqRel);
        Some(event)
    }

    /// Whether there are more.
    pub(super) fn more(&self) -> bool {
        self.waiting.load(Ordering::Acquire) > 0
    }
}
