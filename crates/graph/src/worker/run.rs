//! The worker's loop.

use super::handle::Command;
use super::rest::Watch;
use super::sleep::{self, Alarm};
use crate::engine::Graph;
use crate::publish::Reader;
use memory::clock::{cycles, nanoseconds};
use rustix::event::{EventfdFlags, eventfd};
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Commands for a worker, and what wakes it.
#[derive(Debug)]
pub(super) struct Mailbox {
    commands: Mutex<VecDeque<CommandBox>>,
    /// Set when there are commands: the worker looks here each round, not at the lock.
    waiting: AtomicBool,
    stop: AtomicBool,
    /// The worker has heard of it.
    stopped: AtomicBool,
    wake: OwnedFd,
}

struct CommandBox(Command);

impl core::fmt::Debug for CommandBox {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Command")
    }
}

impl Mailbox {
    pub(super) fn new() -> Result<Self, rustix::io::Errno> {
        Ok(Self {
            commands: Mutex::default(),
            waiting: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            wake: eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?,
        })
    }

    pub(super) fn post(&self, command: Command) {
        self.commands.lock().unwrap_or_else(PoisonError::into_inner).push_back(CommandBox(command));
        self.waiting.store(true, Ordering::Release);
        self.wake();
    }

    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.wake();
    }

    pub(super) fn has_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    pub(super) fn wake(&self) {
        // Fails only where the counter is full: then the worker is being woken already.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    fn drained(&self) {
        let mut count = [0; 8];
        // Fails where nothing was posted: the wake-up was for a packet.
        let _ = rustix::io::read(&self.wake, &mut count);
    }
}

/// Runs until told to stop.
pub(super) fn run(mut graph: Graph, mut reader: Reader, mailbox: &Mailbox) {
    let counters = std::sync::Arc::clone(graph.counters());
    let mut last = cycles();
    let mut quiet_since = nanoseconds();
    let (mut alarm, mut watch) = (Alarm::default(), Watch::of(&mut graph));
    // Queues are told that we are awake once the packet that woke us is on its way: telling a hundred takes as long as many packets do.
    let mut armed = false;
    while !mailbox.stop.load(Ordering::Acquire) {
        // In this order: who sees that the worker has passed here knows that it has taken all commands posted before.
        reader.quiesce();
        if mailbox.waiting.load(Ordering::Acquire) {
            take_commands(&mut graph, mailbox);
        }
        let begin = nanoseconds();
        let result = graph.round(reader.tables(), begin);
        if core::mem::take(&mut armed) {
            sleep::disarm(&mut graph);
        }
        watch.round(&mut graph, begin, result.received);
        let now = cycles();
        let spent = now.wrapping_sub(last);
        last = now;
        counters.rounds.rounds.add(1);
        counters.rounds.awake_clocks.add(spent);
        counters.rounds.longest.take(spent);
        if result.received > 0 {
            counters.rounds.busy_rounds.add(1);
            counters.rounds.busy_clocks.add(spent);
            quiet_since = begin;
            continue;
        }
        // A core may carry both this worker and a peer: give the sibling hyper-thread room while there is nothing to do.
        core::hint::spin_loop();
        if sleep::may_sleep(&mut graph, begin.saturating_sub(quiet_since)) && sleep::arm(&mut graph) {
            counters.rounds.sleeps.add(1);
            armed = true;
            let woken = reader.offline_while(|| alarm.wait(&mut graph, &mailbox.wake));
            counters.rounds.wakes.add(1);
            if woken.mail {
                mailbox.drained();
            }
            last = cycles();
            // Where only the time was up, one look is enough.
            if woken.event {
                quiet_since = nanoseconds();
            }
        }
    }
    mailbox.stopped.store(true, Ordering::Release);
}

fn take_commands(graph: &mut Graph, mailbox: &Mailbox) {
    mailbox.waiting.store(false, Ordering::Release);
    loop {
        let command = mailbox.commands.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        match command {
            Some(command) => (command.0)(graph),
            None => return,
        }
    }
}

/// Has the calling thread run on `core` only.
///
/// # Errors
/// What the system says: there is no such core, or this process may not use it.
pub(super) fn pin(core: usize) -> rustix::io::Result<()> {
    if core >= rustix::thread::CpuSet::MAX_CPU {
        return Err(rustix::io::Errno::INVAL);
    }
    let mut set = rustix::thread::CpuSet::new();
    set.set(core);
    rustix::thread::sched_setaffinity(None, &set)
}
