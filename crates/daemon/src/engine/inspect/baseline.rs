//! Counters since they were cleared. Workers' counters only grow: clearing remembers where they stood.

use std::collections::HashMap;
use std::time::Instant;

use graph::counters::IfCounters;
use graph::port::IfIndex;

use super::super::core::Core;
use super::super::workers::Pool;

/// Sums of an interface's counters over all workers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in super::super) struct Traffic {
    pub(super) rx_packets: u64,
    pub(super) rx_bytes: u64,
    pub(super) tx_packets: u64,
    pub(super) tx_bytes: u64,
    pub(super) rx_drops: u64,
    pub(super) tx_drops: u64,
}

/// What a node or a worker's loop did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in super::super) struct Work {
    pub(super) calls: u64,
    pub(super) vectors: u64,
    pub(super) packets: u64,
    pub(super) clocks: u64,
}

/// Where a worker's loop stood.
#[derive(Debug, Clone, Copy, Default)]
pub(in super::super) struct Rounds {
    pub(super) rounds: u64,
    pub(super) busy_rounds: u64,
    pub(super) busy_clocks: u64,
    pub(super) sleeps: u64,
}

/// Where all counters stood when they were cleared.
#[derive(Debug)]
pub(in super::super) struct Baseline {
    interfaces: HashMap<IfIndex, Traffic>,
    /// By worker, then by node.
    nodes: Vec<Vec<Work>>,
    rounds: Vec<Rounds>,
    drops: Vec<u64>,
    /// When workers' counters were cleared.
    pub(super) since: Instant,
    /// Where the loops stood at the last look, and when: what the load is computed from.
    pub(super) last_look: Option<(Instant, Vec<u64>)>,
}

impl Default for Baseline {
    fn default() -> Self {
        Self {
            interfaces: HashMap::new(),
            nodes: Vec::new(),
            rounds: Vec::new(),
            drops: Vec::new(),
            since: Instant::now(),
            last_look: None,
        }
    }
}

fn since(now: u64, then: u64) -> u64 {
    now.wrapping_sub(then)
}

/// An interface's counters as they stand.
fn traffic(pool: &Pool, index: IfIndex) -> Traffic {
    pool.workers().iter().map(|worker| worker.counters().interface(index)).fold(
        Traffic::default(),
        |sum, counters: &IfCounters| Traffic {
            rx_packets: sum.rx_packets + counters.rx_packets.get(),
            rx_bytes: sum.rx_bytes + counters.rx_bytes.get(),
            tx_packets: sum.tx_packets + counters.tx_packets.get(),
            tx_bytes: sum.tx_bytes + counters.tx_bytes.get(),
            rx_drops: sum.rx_drops + counters.rx_drops.get(),
            tx_drops: sum.tx_drops + counters.tx_drops.get(),
        },
    )
}

fn work(pool: &Pool, worker: usize, node: usize) -> Work {
    let Some(runtime) = pool.workers().get(worker).and_then(|w| w.counters().runtime.get(node)) else {
        return Work::default();
    };
    Work {
        calls: runtime.calls.get(),
        vectors: runtime.vectors.get(),
        packets: runtime.packets.get(),
        clocks: runtime.clocks.get(),
    }
}

fn rounds(pool: &Pool, worker: usize) -> Rounds {
    let Some(worker) = pool.workers().get(worker) else { return Rounds::default() };
    let rounds = &worker.counters().rounds;
    Rounds {
        rounds: rounds.rounds.get(),
        busy_rounds: rounds.busy_rounds.get(),
        busy_clocks: rounds.busy_clocks.get(),
        sleeps: rounds.sleeps.get(),
    }
}

fn drops(pool: &Pool, reason: u16) -> u64 {
    pool.workers().iter().map(|worker| worker.counters().drops(reason).get()).sum()
}

impl Baseline {
    /// An index is used again: its counters begin anew.
    pub(in super::super) fn interface_added(&mut self, pool: &Pool, index: IfIndex) {
        self.interfaces.insert(index, traffic(pool, index));
    }

    pub(super) fn clear_interfaces(&mut self, core: &Core) {
        self.interfaces =
            core.registry.iter().map(|(index, _)| (index, traffic(&core.pool, index))).collect();
    }

    pub(super) fn clear_runtime(&mut self, core: &Core) {
        let workers = 0..core.pool.workers().len();
        let nodes = core.plan.nodes.len();
        self.rounds = workers.clone().map(|worker| rounds(&core.pool, worker)).collect();
        self.nodes = workers.map(|w| (0..nodes).map(|node| work(&core.pool, w, node)).collect()).collect();
        self.since = Instant::now();
    }

    pub(super) fn clear_drops(&mut self, core: &Core) {
        self.drops = (0..core.plan.drops.len() as u16).map(|reason| drops(&core.pool, reason)).collect();
    }

    /// An interface's counters since they were cleared.
    pub(super) fn traffic(&self, pool: &Pool, index: IfIndex) -> Traffic {
        let then = self.interfaces.get(&index).copied().unwrap_or_default();
        let now = traffic(pool, index);
        Traffic {
            rx_packets: since(now.rx_packets, then.rx_packets),
            rx_bytes: since(now.rx_bytes, then.rx_bytes),
            tx_packets: since(now.tx_packets, then.tx_packets),
            tx_bytes: since(now.tx_bytes, then.tx_bytes),
            rx_drops: since(now.rx_drops, then.rx_drops),
            tx_drops: since(now.tx_drops, then.tx_drops),
        }
    }

    /// What a node did since counters were cleared.
    pub(super) fn work(&self, pool: &Pool, worker: usize, node: usize) -> Work {
        let then = self.nodes.get(worker).and_then(|nodes| nodes.get(node)).copied().unwrap_or_default();
        let now = work(pool, worker, node);
        Work {
            calls: since(now.calls, then.calls),
            vectors: since(now.vectors, then.vectors),
            packets: since(now.packets, then.packets),
            clocks: since(now.clocks, then.clocks),
        }
    }

    /// What a worker's loop did since counters were cleared.
    pub(super) fn rounds(&self, pool: &Pool, worker: usize) -> Rounds {
        let then = self.rounds.get(worker).copied().unwrap_or_default();
        let now = rounds(pool, worker);
        Rounds {
            rounds: since(now.rounds, then.rounds),
            busy_rounds: since(now.busy_rounds, then.busy_rounds),
            busy_clocks: since(now.busy_clocks, then.busy_clocks),
            sleeps: since(now.sleeps, then.sleeps),
        }
    }

    /// Drops for a reason since counters were cleared.
    pub(super) fn drops(&self, pool: &Pool, reason: u16) -> u64 {
        since(drops(pool, reason), self.drops.get(usize::from(reason)).copied().unwrap_or_default())
    }
}
