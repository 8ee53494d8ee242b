//! Counters: one writer each, read from outside at any time, never a shared cache line between workers.

pub use crate::longest::Longest;
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
    /// Of those: packets that the device never takes, too long or malformed.
    pub tx_errors: Counter,
    /// Of the received ones: frames to a multicast address.
    pub rx_multicast: Counter,
    /// Of the received ones: frames to all stations.
    pub rx_broadcast: Counter,
    /// Of the sent ones: frames to a multicast address.
    pub tx_multicast: Counter,
    /// Of the sent ones: frames to all stations.
    pub tx_broadcast: Counter,
    /// Packets punted to the control thread.
    pub punts: Counter,
}

impl IfCounters {
    /// Counts a sent frame that may be for several stations, by the destination that it begins with.
    #[cold]
    pub fn sent_to_group(&self, frame: &[u8]) {
        match frame {
            [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, ..] => self.tx_broadcast.add(1),
            [first, ..] if first & 1 != 0 => self.tx_multicast.add(1),
            _ => {}
        }
    }
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
    /// Times that it woke up: one less than `sleeps` while it is asleep.
    pub wakes: Counter,
    /// Cycles of the longest round.
    pub longest: Longest,
    /// Where the round is.
    pub at: At,
}

/// Where a worker's round is at the moment: written by it at each node, read by whoever wants to know where it stands still.
#[derive(Debug, Default)]
pub struct At {
    /// Node id and 1, or 0.
    node: AtomicU64,
    /// Interface and 1, or 0; [`SENDS`] is added while the call is for its transmit queue.
    port: AtomicU64,
}

const SENDS: u64 = 1 << 32;

/// A call into a queue of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortCall {
    /// The interface.
    pub interface: u16,
    /// It is for its transmit queue, which reads the bodies of other interfaces' packets.
    pub sends: bool,
}

impl At {
    /// The node with that graph-wide id begins.
    #[inline(always)]
    pub fn node(&self, id: usize) {
        self.node.store(id as u64 + 1, Ordering::Relaxed);
    }

    /// No node does: the round ends (transmit queues are flushed), commands are taken, or the worker sleeps.
    #[inline(always)]
    pub fn between(&self) {
        self.node.store(0, Ordering::Relaxed);
    }

    /// A receive queue of the interface is called.
    #[inline(always)]
    pub fn receives(&self, interface: u16) {
        self.port.store(u64::from(interface) + 1, Ordering::Relaxed);
    }

    /// A transmit queue of the interface is called.
    #[inline(always)]
    pub fn sends(&self, interface: u16) {
        self.port.store((u64::from(interface) + 1) | SENDS, Ordering::Relaxed);
    }

    /// The call has returned.
    #[inline(always)]
    pub fn returned(&self) {
        self.port.store(0, Ordering::Relaxed);
    }

    /// The call into a port's queue that is in progress.
    #[must_use]
    pub fn port(&self) -> Option<PortCall> {
        let port = self.port.load(Ordering::Relaxed);
        let interface = u16::try_from((port & !SENDS).checked_sub(1)?).ok()?;
        Some(PortCall { interface, sends: port & SENDS != 0 })
    }

    /// The node that has begun last in this round; `None` between nodes.
    #[must_use]
    pub fn get(&self) -> Option<usize> {
        self.node.load(Ordering::Relaxed).checked_sub(1).map(|id| id as usize)
    }
}

impl LoopCounters {
    /// What grows with each round and each sleep: where it stays as it is, the worker stands still. A worker that sleeps wakes up once a second at least.
    #[must_use]
    pub fn progress(&self) -> [u64; 3] {
        [self.rounds.get(), self.sleeps.get(), self.wakes.get()]
    }

    /// Whether the worker waits for interrupts at this moment; else it polls.
    #[must_use]
    pub fn asleep(&self) -> bool {
        self.sleeps.get() != self.wakes.get()
    }
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
    interfaces: Chunks<IfCounters>,
    /// By interface, then by reason. An interface's list appears with its first drop.
    drops_of: Chunks<OnceLock<Box<[Counter]>>>,
}

/// Something per interface: appears with its first use, in blocks.
type Chunks<T> = Box<[OnceLock<Box<[T]>>]>;

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
            drops_of: fresh(CHUNKS),
        }
    }

    /// Drops for the reason with that graph-wide id.
    #[must_use]
    #[inline]
    pub fn drops(&self, reason: u16) -> &Counter {
        &self.drops[(reason as usize).min(self.drops.len() - 1)]
    }

    /// Counts a packet that came in by `interface` and is dropped for the reason with that graph-wide id. The first
    /// drop of an interface allocates (8 bytes for each reason there is).
    #[inline]
    pub fn dropped(&self, interface: u16, reason: u16) {
        self.drops(reason).add(1);
        self.interface(interface).rx_drops.add(1);
        let at = interface as usize;
        let lists = self.drops_of[at / CHUNK].get_or_init(|| fresh(CHUNK));
        let list = lists[at % CHUNK].get_or_init(|| fresh(self.drops.len()));
        list[(reason as usize).min(list.len() - 1)].add(1);
    }

    /// Drops of packets that came in by an interface, by graph-wide id of the reason. Empty where there were none.
    pub fn drops_of(&self, interface: u16) -> impl Iterator<Item = u64> + '_ {
        let at = interface as usize;
        let list = self.drops_of[at / CHUNK].get().and_then(|lists| lists[at % CHUNK].get());
        list.into_iter().flatten().map(Counter::get)
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
