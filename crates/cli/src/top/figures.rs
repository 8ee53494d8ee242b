//! What two samples say.

use std::collections::HashMap;
use std::time::Duration;

use api::v1::{DropSeverity, InterfaceState, NodeRuntime};

use super::app::Order;
use super::sample::Sample;
use crate::render::number::growth;

/// Figures of the time between two samples.
#[derive(Debug, Default)]
pub(super) struct Figures {
    /// "quiverd 0.1.0", and how it fares.
    pub(super) version: String,
    /// Seconds since quiverd was started.
    pub(super) uptime: f64,
    /// Generation in force.
    pub(super) generation: u64,
    /// Workers by number.
    pub(super) workers: Vec<Worker>,
    /// Interfaces.
    pub(super) interfaces: Vec<Interface>,
    /// Nodes, all workers together.
    pub(super) nodes: Vec<Node>,
    /// Drops.
    pub(super) drops: Vec<Drop>,
}

/// A worker.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) index: u32,
    pub(super) core: u32,
    /// Share of its capacity, 0 to 1.
    pub(super) load: f64,
    /// Packets per second.
    pub(super) packets: f64,
    pub(super) summary: String,
}

/// An interface; all figures per second.
#[derive(Debug)]
pub(super) struct Interface {
    pub(super) name: String,
    /// "up", "down", "admin-down".
    pub(super) state: &'static str,
    pub(super) rx_packets: f64,
    pub(super) rx_bytes: f64,
    pub(super) tx_packets: f64,
    pub(super) tx_bytes: f64,
    /// Both directions, and damaged ones.
    pub(super) drops: f64,
}

/// A node.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) name: String,
    /// Share of all clocks that nodes took, 0 to 1; `None` where clocks aren't measured.
    pub(super) share: Option<f64>,
    pub(super) clocks: u64,
    pub(super) vectors: u64,
    pub(super) packets: u64,
    /// Packets per second.
    pub(super) rate: f64,
}

/// A reason for drops.
#[derive(Debug)]
pub(super) struct Drop {
    pub(super) node: String,
    pub(super) reason: String,
    pub(super) interface: String,
    pub(super) severity: DropSeverity,
    pub(super) packets: u64,
    /// Packets per second.
    pub(super) rate: f64,
}

impl Figures {
    /// Of the time from `then` to `now`.
    pub(super) fn new(then: &Sample, now: &Sample, order: Order) -> Self {
        let elapsed = now.at.duration_since(then.at);
        let mut figures = Self {
            version: format!("quiverd {}", now.version.version),
            uptime: now.version.uptime_seconds,
            generation: now.version.generation,
            workers: workers(then, now, elapsed),
            interfaces: interfaces(then, now, elapsed),
            nodes: nodes(then, now, elapsed),
            drops: drops(then, now, elapsed),
        };
        // Stable sorts: what is equal keeps the order of quiverd.
        match order {
            Order::Busiest => {
                figures
                    .interfaces
                    .sort_by(|a, b| (b.rx_packets + b.tx_packets).total_cmp(&(a.rx_packets + a.tx_packets)));
                figures.nodes.sort_by_key(|node| std::cmp::Reverse((node.clocks, node.packets)));
                figures.drops.sort_by(|a, b| b.rate.total_cmp(&a.rate));
            }
            Order::Name => {
                figures.interfaces.sort_by(|a, b| a.name.cmp(&b.name));
                figures.nodes.sort_by(|a, b| a.name.cmp(&b.name));
                figures.drops.sort_by(|a, b| (&a.node, &a.reason).cmp(&(&b.node, &b.reason)));
            }
        }
        figures
    }
}

fn workers(then: &Sample, now: &Sample, elapsed: Duration) -> Vec<Worker> {
    let worker = |now: &api::v1::WorkerRuntime| {
        let earlier = then.runtime.workers.iter().find(|it| it.index == now.index);
        Worker {
            index: now.index,
            core: now.core,
            load: now.load,
            packets: growth(now.packets, earlier.map_or(now.packets, |it| it.packets), elapsed),
            summary: now.summary.clone(),
        }
    };
    now.runtime.workers.iter().map(worker).collect()
}

fn interfaces(then: &Sample, now: &Sample, elapsed: Duration) -> Vec<Interface> {
    let interface = |state: &InterfaceState| {
        let earlier = then.interfaces.interfaces.iter().find(|it| it.name == state.name);
        let now = state.counters.unwrap_or_default();
        // One that has just come has no rate yet.
        let then = earlier.map_or(now, |it| it.counters.unwrap_or_default());
        let rate = |now, then| growth(now, then, elapsed);
        Interface {
            name: state.name.clone(),
            state: match (state.admin_up, state.link_up) {
                (false, _) => "admin-down",
                (true, false) => "down",
                (true, true) => "up",
            },
            rx_packets: rate(now.rx_packets, then.rx_packets),
            rx_bytes: rate(now.rx_bytes, then.rx_bytes),
            tx_packets: rate(now.tx_packets, then.tx_packets),
            tx_bytes: rate(now.tx_bytes, then.tx_bytes),
            drops: rate(now.rx_drops, then.rx_drops)
                + rate(now.tx_drops, then.tx_drops)
                + rate(now.rx_errors, then.rx_errors),
        }
    };
    now.interfaces.interfaces.iter().map(interface).collect()
}

/// Clocks, vectors and packets of each node over all workers, in the order of the graph.
fn totals(sample: &Sample) -> Vec<NodeRuntime> {
    let mut all: Vec<NodeRuntime> = Vec::new();
    let mut places = HashMap::new();
    for node in sample.runtime.workers.iter().flat_map(|worker| &worker.nodes) {
        let place = *places.entry(node.name.as_str()).or_insert(all.len());
        if place == all.len() {
            all.push(NodeRuntime { name: node.name.clone(), ..NodeRuntime::default() });
        }
        if let Some(total) = all.get_mut(place) {
            total.clocks += node.clocks;
            total.vectors += node.vectors;
            total.packets += node.packets;
        }
    }
    all
}

fn nodes(then: &Sample, now: &Sample, elapsed: Duration) -> Vec<Node> {
    let earlier = totals(then);
    let grown = |now: u64, then: u64| now.checked_sub(then).unwrap_or(now);
    let mut nodes = Vec::new();
    for now in totals(now) {
        let none = NodeRuntime::default();
        let then = earlier.iter().find(|it| it.name == now.name).unwrap_or(&none);
        nodes.push(Node {
            share: None,
            clocks: grown(now.clocks, then.clocks),
            vectors: grown(now.vectors, then.vectors),
            packets: grown(now.packets, then.packets),
            rate: growth(now.packets, then.packets, elapsed),
            name: now.name,
        });
    }
    let all: u64 = nodes.iter().map(|node| node.clocks).sum();
    for node in &mut nodes {
        node.share = (all > 0).then(|| node.clocks as f64 / all as f64);
    }
    nodes
}

fn drops(then: &Sample, now: &Sample, elapsed: Duration) -> Vec<Drop> {
    let drop = |now: &api::v1::DropCounter| {
        let same = |it: &&api::v1::DropCounter| {
            it.node == now.node && it.reason == now.reason && it.interface == now.interface
        };
        let earlier = then.drops.drops.iter().find(same).map_or(0, |it| it.packets);
        Drop {
            node: now.node.clone(),
            reason: now.reason.clone(),
            interface: now.interface.clone(),
            severity: now.severity(),
            packets: now.packets,
            rate: growth(now.packets, earlier, elapsed),
        }
    };
    now.drops.drops.iter().map(drop).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Instant;

    use api::v1::*;

    use super::*;

    /// A busy dataplane; `step` samples after the first.
    pub(in super::super) fn sample(start: Instant, step: u64) -> Sample {
        let interface = |name: &str, packets: u64| InterfaceState {
            name: name.into(),
            admin_up: true,
            link_up: name != "pod-c",
            counters: Some(InterfaceCounters {
                rx_packets: packets * step,
                rx_bytes: packets * step * 64,
                tx_packets: packets * step,
                tx_bytes: packets * step * 64,
                tx_drops: 10 * step,
                ..InterfaceCounters::default()
            }),
            ..InterfaceState::default()
        };
        let node = |name: &str, clocks: u64| NodeRuntime {
            name: name.into(),
            calls: 10 * step,
            vectors: 10 * step,
            packets: 2560 * step,
            clocks: clocks * 2560 * step,
        };
        let worker = |index: u32| WorkerRuntime {
            index,
            core: index + 1,
            load: 0.37,
            summary: "polling 2 queues".into(),
            packets: 12_300_000 * step,
            nodes: vec![node("memif-input", 30), node("ip4-lookup", 60), node("idle", 0)],
            ..WorkerRuntime::default()
        };
        let drop = |reason: &str, packets: u64| DropCounter {
            node: "ip4-input".into(),
            reason: reason.into(),
            interface: "pod-a".into(),
            severity: DropSeverity::Loss.into(),
            packets: packets * step,
            ..DropCounter::default()
        };
        Sample {
            at: start + Duration::from_secs(step),
            interfaces: InterfacesResponse {
                interfaces: vec![
                    interface("pod-a", 100),
                    interface("pod-b", 12_300_000),
                    interface("pod-c", 0),
                ],
            },
            runtime: RuntimeResponse {
                workers: vec![worker(0), worker(1)],
                clock_hz: 2_000_000_000,
                untraced: 0,
            },
            drops: DropsResponse { drops: vec![drop("no-route", 5), drop("ttl-expired", 1000)] },
            version: VersionResponse {
                version: "0.1.0".into(),
                uptime_seconds: 7530.0,
                generation: 7,
                ..VersionResponse::default()
            },
        }
    }

    #[test]
    fn rates_and_shares() {
        let start = Instant::now();
        let figures = Figures::new(&sample(start, 1), &sample(start, 3), Order::Busiest);
        assert_eq!(figures.workers[0].packets, 12_300_000.0);
        let names = figures.interfaces.iter().map(|it| it.name.as_str()).collect::<Vec<_>>();
        assert_eq!(names, ["pod-b", "pod-a", "pod-c"]);
        assert_eq!((figures.interfaces[1].rx_packets, figures.interfaces[1].drops), (100.0, 10.0));
        let node = &figures.nodes[0];
        assert_eq!((node.name.as_str(), node.packets, node.rate), ("ip4-lookup", 10_240, 5120.0));
        assert!((node.share.unwrap() - 2.0 / 3.0).abs() < 1e-9);
        assert_eq!((figures.drops[0].reason.as_str(), figures.drops[0].rate), ("ttl-expired", 1000.0));
    }

    #[test]
    fn by_name() {
        let start = Instant::now();
        let figures = Figures::new(&sample(start, 1), &sample(start, 2), Order::Name);
        assert_eq!(figures.interfaces[0].name, "pod-a");
        assert_eq!(figures.nodes[0].name, "idle");
        assert_eq!(figures.drops[0].reason, "no-route");
    }
}
