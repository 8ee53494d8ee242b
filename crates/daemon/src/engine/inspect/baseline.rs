//! Counters since they were cleared. Workers' counters only grow: clearing remembers where they stood.

use std::collections::HashMap;
use std::time::Instant;

use graph::counters::IfCounters;
use graph::port::IfIndex;

use super::super::start::Shared;
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
    pub(super) tx_errors: u64,
    pub(super) rx_multicast: u64,
    pub(super) rx_broadcast: u64,
    pub(super) tx_multicast: u64,
    pub(super) tx_broadcast: u64,
}

impl Traffic {
    fn of(counters: &IfCounters) -> Self {
        Self {
            rx_packets: counters.rx_packets.get(),
            rx_bytes: counters.rx_bytes.get(),
            tx_packets: counters.tx_packets.get(),
            tx_bytes: counters.tx_bytes.get(),
            rx_drops: counters.rx_drops.get(),
            tx_drops: counters.tx_drops.get(),
            tx_errors: counters.tx_errors.get(),
            rx_multicast: counters.rx_multicast.get(),
            rx_broadcast: counters.rx_broadcast.get(),
            tx_multicast: counters.tx_multicast.get(),
            tx_broadcast: counters.tx_broadcast.get(),
        }
    }

    /// Field by field.
    fn with(self, other: Self, combine: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            rx_packets: combine(self.rx_packets, other.rx_packets),
            rx_bytes: combine(self.rx_bytes, other.rx_bytes),
            tx_packets: combine(self.tx_packets, other.tx_packets),
            tx_bytes: combine(self.tx_bytes, other.tx_bytes),
            rx_drops: combine(self.rx_drops, other.rx_drops),
            tx_drops: combine(self.tx_drops, other.tx_drops),
            tx_errors: combine(self.tx_errors, other.tx_errors),
            rx_multicast: combine(self.rx_multicast, other.rx_multicast),
            rx_broadcast: combine(self.rx_broadcast, other.rx_broadcast),
            tx_multicast: combine(self.tx_multicast, other.tx_multicast),
            tx_broadcast: combine(self.tx_broadcast, other.tx_broadcast),
        }
    }
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
    /// Clocks of the longest one since it was forgotten: there is nothing to take off.
    pub(super) longest: u64,
}

/// Where all counters stood when they were cleared.
#[derive(Debug)]
pub(in super::super) struct Baseline {
    interfaces: HashMap<IfIndex, Traffic>,
    /// By worker, then by node.
    nodes: Vec<Vec<Work>>,
    rounds: Vec<Rounds>,
    drops: Vec<u64>,
    drops_of: HashMap<IfIndex, Vec<u64>>,
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
            drops_of: HashMap::new(),
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
    let workers = pool.workers().iter().map(|worker| Traffic::of(worker.counters().interface(index)));
    workers.fold(Traffic::default(), |sum, one| sum.with(one, u64::wrapping_add))
}

/// An interface's drops as they stand, by reason; empty where there never was one.
fn drops_of(pool: &Pool, index: IfIndex) -> Vec<u64> {
    let mut sums = Vec::new();
    for worker in pool.workers() {
        for (reason, drops) in worker.counters().drops_of(index).enumerate() {
            if sums.len() <= reason {
                sums.resize(reason + 1, 0);
            }
            sums[reason] += drops;
        }
    }
    sums
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
        longest: rounds.longest.get(),
    }
}

fn drops(pool: &Pool, reason: u16) -> u64 {
    pool.workers().iter().map(|worker| worker.counters().drops(reason).get()).sum()
}

impl Baseline {
    /// An index is used again: its counters begin anew.
    pub(in super::super) fn interface_added(&mut self, pool: &Pool, index: IfIndex) {
        self.interfaces.insert(index, traffic(pool, index));
        self.drops_of.insert(index, drops_of(pool, index));
    }

    /// An interface is gone, and nobody asks for its counters any more.
    pub(in super::super) fn interface_removed(&mut self, index: IfIndex) {
        self.interfaces.remove(&index);
        self.drops_of.remove(&index);
    }

    pub(super) fn clear_interfaces(&mut self, shared: &Shared) {
        self.interfaces = shared
            .directory
            .get()
            .registry
            .iter()
            .map(|(index, _)| (index, traffic(&shared.pool, index)))
            .collect();
    }

    pub(super) fn clear_runtime(&mut self, shared: &Shared) {
        shared.pool.workers().iter().for_each(|worker| worker.counters().rounds.longest.forget());
        let workers = 0..shared.pool.workers().len();
        let nodes = shared.plan.nodes.len();
        self.rounds = workers.clone().map(|worker| rounds(&shared.pool, worker)).collect();
        self.nodes = workers.map(|w| (0..nodes).map(|node| work(&shared.pool, w, node)).collect()).collect();
        self.since = Instant::now();
    }

    pub(super) fn clear_drops(&mut self, shared: &Shared) {
        self.drops = (0..shared.plan.drops.len() as u16).map(|reason| drops(&shared.pool, reason)).collect();
        self.drops_of = shared
            .directory
            .get()
            .registry
            .iter()
            .map(|(index, _)| (index, drops_of(&shared.pool, index)))
            .collect();
    }

    /// An interface's counters since they were cleared.
    pub(super) fn traffic(&self, pool: &Pool, index: IfIndex) -> Traffic {
        let then = self.interfaces.get(&index).copied().unwrap_or_default();
        traffic(pool, index).with(then, since)
    }

    /// An interface's drops since they were cleared, by reason; empty where there never was one.
    pub(super) fn drops_of(&self, pool: &Pool, index: IfIndex) -> Vec<u64> {
        let then = self.drops_of.get(&index).map_or(&[][..], Vec::as_slice);
        let then = then.iter().copied().chain(std::iter::repeat(0));
        drops_of(pool, index).into_iter().zip(then).map(|(now, then)| since(now, then)).collect()
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
            longest: now.longest,
        }
    }

    /// Drops for a reason since counters were cleared.
    pub(super) fn drops(&self, pool: &Pool, reason: u16) -> u64 {
        since(drops(pool, reason), self.drops.get(usize::from(reason)).copied().unwrap_or_default())
    }
}
