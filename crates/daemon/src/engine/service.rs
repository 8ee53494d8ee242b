//! The engine's own thread: punted packets, faults, timers.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender};
use std::time::{Duration, Instant};

use graph::worker::Event;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::core::Core;
use super::events::Events;
use super::penalty::STALL;
use super::start::Shared;
use crate::model::spec::PortSpec;
use crate::model::{Flaw, Key};

/// How often timers are looked at: the resolution of neighbour and ageing timers.
const TICK: Duration = Duration::from_millis(100);
/// Events dealt with before others may have the lock.
const BATCH: usize = 512;

/// Drops queues that workers have let go of, when it is told to, until there is nobody to tell it. Memory whose peer is gone is freed by whoever
/// drops it last, tens of milliseconds a GiB, and this thread keeps nobody waiting.
pub(super) fn bury(shared: &Shared, told: &Receiver<()>) {
    while told.recv().is_ok() {
        shared.pool.bury();
    }
}

/// Runs until the engine is dropped; `digs` has [`bury`] done.
pub(super) fn run(shared: &Shared, events: &Events, digs: &SyncSender<()>) {
    let mut tick = Instant::now();
    while !shared.stop.load(Ordering::Acquire) {
        let deadline = {
            let core = shared.core();
            let busy = core.busy();
            if busy { Instant::now() + Duration::from_millis(1) } else { tick }
        };
        let wait = deadline.saturating_duration_since(Instant::now());
        let wait = Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: i64::from(wait.subsec_nanos()) };
        let mut bell = [PollFd::new(shared.bell.fd(), PollFlags::IN)];
        if let Err(error) = poll(&mut bell, Some(&wait))
            && error != rustix::io::Errno::INTR
        {
            tracing::error!(%error, "waiting for events failed");
            std::thread::sleep(TICK);
        }
        shared.bell.hear();
        let mut core = shared.core();
        let now = Instant::now();
        for _ in 0..BATCH {
            let Some(event) = events.next() else { break };
            core.event(event);
        }
        if now >= tick {
            core.tick();
            tick = now + TICK;
        }
        core.settle();
        core.send_frames();
        core.release();
        core.publisher.reclaim();
        drop(core);
        // One that is still at it comes to the rest, too.
        let _ = digs.try_send(());
        if events.more() {
            shared.bell.ring();
        }
    }
}

impl Core {
    /// Deals with what a worker told.
    pub(super) fn event(&mut self, event: Event) {
        match event {
            Event::RxFault { interface, attachment, fault, .. }
            | Event::TxFault { interface, attachment, fault } => {
                let inventory = self.directory.get();
                let Some(entry) = inventory.registry.get(interface) else { return };
                if entry.attachment != Some(attachment) {
                    // Of queues that are on their way back: what has come in their place isn't to suffer for it.
                    tracing::debug!(interface = %entry.spec.name, reason = fault.reason, "a fault of queues that have gone");
                    return;
                }
                if matches!(entry.spec.port, PortSpec::Memif(_)) && fault.kind != STALL {
                    self.memifs.fault(interface, attachment, fault);
                } else {
                    // A device that is gone doesn't come back by itself, nor a port that was taken away: it has to be opened again.
                    let key = Key::Interface(entry.spec.name.clone());
                    self.lose(key, Flaw::new("", fault.reason));
                }
                drop(inventory);
                self.detach(interface);
            }
            Event::Punt { worker, kind, origin, packet } => self.punt((worker, origin), kind, packet),
        }
    }
}
