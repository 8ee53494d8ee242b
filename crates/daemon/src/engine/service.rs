//! The engine's own thread: links, punted packets, faults, timers.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use graph::worker::Event;
use rustix::event::{Timespec, epoll};

use super::core::Core;
use super::events::Events;
use super::start::Shared;

/// How often timers are looked at: the resolution of neighbour and ageing timers.
const TICK: Duration = Duration::from_millis(100);
/// Events dealt with before others may have the lock.
const BATCH: usize = 512;

/// Runs until the engine is dropped.
pub(super) fn run(shared: &Shared, events: &Events) {
    let mut ready = Vec::with_capacity(64);
    let mut tick = Instant::now();
    while !shared.stop.load(Ordering::Acquire) {
        let deadline = {
            let core = shared.core();
            let busy = core.busy();
            let until = if busy { Instant::now() + Duration::from_millis(1) } else { tick };
            core.memifs.next_deadline().map_or(until, |deadline| deadline.min(until))
        };
        let wait = deadline.saturating_duration_since(Instant::now());
        let wait = Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: i64::from(wait.subsec_nanos()) };
        ready.clear();
        if let Err(error) =
            epoll::wait(&*shared.epoll, rustix::buffer::spare_capacity(&mut ready), Some(&wait))
            && error != rustix::io::Errno::INTR
        {
            tracing::error!(%error, "waiting for events failed");
            std::thread::sleep(TICK);
        }
        shared.bell.hear();
        let mut core = shared.core();
        let now = Instant::now();
        for change in core.memifs.process(now) {
            core.link_changed(change);
        }
        for _ in 0..BATCH {
            let Some(event) = events.next() else { break };
            core.event(event);
        }
        if now >= tick {
            core.tick();
            core.memifs.report(now);
            tick = now + TICK;
        }
        core.settle();
        core.send_frames();
        core.release();
        core.pool.bury();
        core.publisher.reclaim();
        drop(core);
        if events.more() {
            shared.bell.ring();
        }
    }
}

impl Core {
    /// Deals with what a worker told.
    fn event(&mut self, event: Event) {
        match event {
            Event::RxFault { interface, fault, .. } | Event::TxFault { interface, fault } => {
                self.memifs.fault(interface, &fault.reason);
                // What the queue was goes, whatever kind of port it is: a device that is gone doesn't come back by itself.
                self.detach(interface);
            }
            Event::Punt { worker, kind, packet } => self.punt(worker, kind, packet),
        }
    }
}
