//! Workers and nodes.

use std::time::{Duration, Instant};

use api::v1::{NodeRuntime, RuntimeResponse, WorkerRuntime};
use memory::clock::cycles;

use super::super::start::Shared;
use super::super::watchdog;
use super::baseline::Baseline;
use crate::dataplane::NodeEvents;

/// Clocks per second of the time-stamp counter, measured over 20 ms.
pub(in super::super) fn clock_hz() -> u64 {
    let (start, first) = (Instant::now(), cycles());
    std::thread::sleep(Duration::from_millis(20));
    (cycles().wrapping_sub(first) as f64 / start.elapsed().as_secs_f64()) as u64
}

pub(super) fn all(shared: &Shared) -> RuntimeResponse {
    let mut baseline = shared.baseline();
    let seconds = baseline.since.elapsed().as_secs_f64();
    let busy: Vec<u64> =
        shared.pool.workers().iter().map(|w| w.counters().rounds.busy_clocks.get()).collect();
    let loads = loads(&mut baseline, &busy, shared.clock_hz);
    let workers = (0..shared.pool.workers().len()).map(|worker| {
        let rounds = baseline.rounds(&shared.pool, worker);
        let nodes = nodes(shared, &baseline, worker);
        let inputs = shared.plan.nodes.iter().filter(|node| node.spec.kind == graph::NodeKind::Input);
        let names: Vec<&str> = inputs.map(|node| node.spec.name).collect();
        let packets =
            nodes.iter().filter(|node| names.contains(&node.name.as_str())).map(|node| node.packets).sum();
        let queues = shared.pool.queues(worker).len();
        let post = shared.pool.post(worker);
        let standstill = post.still().map(|still| {
            let place = watchdog::place(shared, &shared.pool.workers()[worker]);
            let why = post.standstill().words();
            format!("stands still for {:.1} s, {place}: {why}", still.as_secs_f64())
        });
        let load = loads.get(worker).copied().unwrap_or_default();
        let fill = shared.fills.get(worker);
        WorkerRuntime {
            index: worker as u32,
            core: shared.pool.core(worker).unwrap_or_default() as u32,
            load,
            summary: standstill.clone().unwrap_or_else(|| summary(load, queues, rounds.sleeps)),
            stuck_seconds: post.still().unwrap_or_default().as_secs_f64(),
            standstill: standstill.unwrap_or_default(),
            stuck_times: post.times(),
            rounds: rounds.rounds,
            busy_rounds: rounds.busy_rounds,
            sleeps: rounds.sleeps,
            packets,
            seconds,
            nodes,
            busy: share(rounds.busy_clocks, seconds, shared.clock_hz),
            longest_round_microseconds: rounds.longest as f64 * 1e6 / shared.clock_hz as f64,
            sessions: fill.map_or(0, |fill| fill.sessions()),
            max_sessions: shared.sessions_per_worker as u64,
            session_bytes: fill.map_or(0, |fill| fill.bytes()),
        }
    });
    RuntimeResponse {
        workers: workers.collect(),
        clock_hz: shared.clock_hz,
        untraced: shared.pool.untraced(),
    }
}

/// Share of time in rounds that moved packets, since the last look (or the start). A busy round of a polling worker may
/// carry one packet or 256, so this is how much of the core packets take, not how far it is from its limit.
fn loads(baseline: &mut Baseline, busy: &[u64], clock_hz: u64) -> Vec<f64> {
    let now = Instant::now();
    let look = |then: &(Instant, Vec<u64>)| {
        let seconds = now.duration_since(then.0).as_secs_f64();
        busy.iter()
            .zip(&then.1)
            .map(|(now, then)| share(now.wrapping_sub(*then), seconds, clock_hz))
            .collect()
    };
    let loads = match &baseline.last_look {
        Some(then) => look(then),
        None => look(&(baseline.since, vec![0; busy.len()])),
    };
    // Looks in quick succession (a watch, metrics and a person) share their beginning.
    if baseline.last_look.as_ref().is_none_or(|then| now.duration_since(then.0) >= Duration::from_secs(1)) {
        baseline.last_look = Some((now, busy.to_vec()));
    }
    loads
}

/// What part of so many seconds these clocks are.
fn share(clocks: u64, seconds: f64, clock_hz: u64) -> f64 {
    (clocks as f64 / (seconds * clock_hz as f64).max(1.0)).min(1.0)
}

/// What nodes count besides drops.
pub(super) fn events(shared: &Shared) -> Vec<NodeEvents> {
    let count = |id| shared.pool.workers().iter().map(|worker| worker.counters().node(id).get()).sum();
    let each = shared.plan.counters.iter().enumerate().map(|(id, (node, spec))| NodeEvents {
        node: shared.plan.nodes[usize::from(*node)].spec.name,
        event: spec.name,
        count: count(id as u16),
    });
    each.filter(|events| events.count > 0).collect()
}

fn summary(load: f64, queues: usize, sleeps: u64) -> String {
    let queues = if queues == 1 { "1 queue".into() } else { format!("{queues} queues") };
    let rest = if sleeps == 0 { "has not slept" } else { "sleeps when idle" };
    format!("{:.0} % loaded, {queues}, {rest}", load * 100.0)
}

fn nodes(shared: &Shared, baseline: &Baseline, worker: usize) -> Vec<NodeRuntime> {
    let each = shared.plan.nodes.iter().enumerate().map(|(id, node)| {
        let work = baseline.work(&shared.pool, worker, id);
        NodeRuntime {
            name: node.spec.name.into(),
            calls: work.calls,
            vectors: work.vectors,
            packets: work.packets,
            clocks: work.clocks,
        }
    });
    each.filter(|node| node.vectors > 0).collect()
}
