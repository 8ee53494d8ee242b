//! Counters: one writer each, read from outside at any time, never a shared cache line between workers.

use core::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// A counter with one writer.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds. Only the worker that owns the counter may: a load and a store, no locked instruction.
    #[inline(always)]
    pub fn add(&self, by: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
    }

    /// The value.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What each node costs, per worker. Times are in cycles of the time-stamp counter.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct NodeRuntime {
    /// Times that the node ran.
    pub calls: Counter,
    /// Runs with at least one packet.
    pub vectors: Counter,
    /// Packets that it worked on.
    pub packets: Counter,
    /// Cycles spent in it.
    pub clocks: Counter,
}

/// What an interface has carried, per worker. Bytes count from the link-layer header on, without FCS.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct IfCounters {
    /// Packets received.
    pub rx_packets: Counter,
    /// Bytes received.
    pub rx_bytes: Counter,
    /// Packets sent.
    pub tx_packets: Counter,
    /// Bytes sent.
    pub tx_bytes: Counter,
    /// Packets received by this interface and dropped.
    pub rx_drops: Counter,
    /// Packets that were to leave by this interface and could not (ring full, link down).
    pub tx_drops: Counter,
    /// Packets punted to the control thread.
    pub punts: Counter,
}

/// The worker's loop.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct LoopCounters {
    /// Rounds.
    pub rounds: Counter,
    /// Rounds that moved at least one packet.
    pub busy_rounds: Counter,
    /// Cycles in rounds that moved at least one packet.
    pub busy_clocks: Counter,
    /// Cycles in all rounds: the time asleep is not in it.
    pub awake_clocks: Counter,
    /// Times that it went to sleep.
    pub sleeps: Counter,
}

const CHUNK: usize = 256;
const CHUNKS: usize = 256;

/// All counters of one worker.
pub struct WorkerCounters {
    /// By node id.
    pub runtime: Box<[NodeRuntime]>,
    /// The loop itself.
    pub rounds: LoopCounters,
    drops: Box<[Counter]>,
    nodes: Box<[Counter]>,
    interfaces: Box<[OnceLock<Box<[IfCounters]>>]>,
}

impl fmt::Debug for WorkerCounters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerCounters").field("nodes", &self.runtime.len()).finish_non_exhaustive()
    }
}

fn fresh<T: Default>(n: usize) -> Box<[T]> {
    core::iter::repeat_with(T::default).take(n).collect()
}

impl WorkerCounters {
    /// Counters for that many nodes, drop reasons and declared counters.
    #[must_use]
    pub fn new(nodes: usize, drops: usize, counters: usize) -> Self {
        Self {
            runtime: fresh(nodes),
            rounds: LoopCounters::default(),
            drops: fresh(drops),
            nodes: fresh(counters),
            interfaces: fresh(CHUNKS),
        }
    }

    /// Drops for the reason with that graph-wide id.
    #[must_use]
    #[inline]
    pub fn drops(&self, reason: u16) -> &Counter {
        &self.drops[(reason as usize).min(self.drops.len() - 1)]
    }

    /// The declared counter with that graph-wide id.
    #[must_use]
    #[inline]
    pub fn node(&self, id: u16) -> &Counter {
        &self.nodes[(id as usize).min(self.nodes.len() - 1)]
    }

    /// Counters of an interface. They appear with their first use, in blocks.
    #[must_use]
    #[inline]
    pub fn interface(&self, interface: u16) -> &IfCounters {
        let at = interface as usize;
        &self.interfaces[at / CHUNK].get_or_init(|| fresh(CHUNK))[at % CHUNK]
    }
}
