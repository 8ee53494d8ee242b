//! A graph on a bench, with test ports.

use super::port::{TEST_NODES, TestWire};
use super::probe::{PASS_IN, PASS_OUT, PROBE};
use crate::interface::{Interface, Interfaces};
use crate::ip::control::{Forwarding, Progress};
use graph::NodeSpec;
use graph::arc::Arcs;
use graph::engine::Graph;
use graph::handover::Station;
use graph::plan::Plan;
use graph::port::{Attachment, IfIndex, RxMode, RxPort};
use graph::publish::{Draft, Key, Publisher, Reader};
use graph::simd::Tier;
use graph::worker::{Event, EventSender};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};

/// A whole graph with test ports, driven by hand.
#[derive(Debug)]
pub struct Bench {
    /// The resolved graph.
    pub plan: Arc<Plan>,
    /// The writer's side of the tables.
    pub publisher: Publisher,
    /// The worker's instance.
    pub graph: Graph,
    /// What the worker told the control thread.
    pub events: Receiver<Event>,
    /// The test ports, by interface.
    pub wires: BTreeMap<IfIndex, TestWire>,
    /// Time that the next rounds are told, in nanoseconds.
    pub now: u64,
    reader: Reader,
}

/// All nodes of all features, with the test port and the probe.
#[must_use]
pub fn all_nodes() -> Vec<NodeSpec> {
    [crate::nodes(), TEST_NODES.to_vec(), vec![PROBE, PASS_IN, PASS_OUT]].concat()
}

/// What came out of a graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Frames by interface, in order.
    pub sent: BTreeMap<IfIndex, Vec<Vec<u8>>>,
    /// Drops: `node reason` and how many.
    pub drops: BTreeMap<String, u64>,
    /// Kinds of the packets that were punted.
    pub punts: Vec<&'static str>,
}

impl Bench {
    /// The graph of all features and the test port, compiled for `tier`, with empty tables.
    ///
    /// # Panics
    /// If the graph can't be resolved: the features' declarations contradict each other.
    #[must_use]
    pub fn new(tier: Tier) -> Self {
        Self::of_worker(Station::alone(), tier)
    }

    /// The same for one of several workers.
    ///
    /// # Panics
    /// As [`Bench::new`].
    #[must_use]
    pub fn of_worker(station: Station, tier: Tier) -> Self {
        Self::build(station, tier, &all_nodes())
    }

    /// The graph of these nodes, compiled for `tier`, with empty tables.
    ///
    /// # Panics
    /// If the graph can't be resolved, or there is no memory for it.
    #[must_use]
    pub fn with_nodes(tier: Tier, nodes: &[NodeSpec]) -> Self {
        Self::build(Station::alone(), tier, nodes)
    }

    fn build(station: Station, tier: Tier, nodes: &[NodeSpec]) -> Self {
        let plan = match Plan::resolve(nodes, &crate::arcs(), crate::schema()) {
            Ok(plan) => Arc::new(plan),
            Err(error) => panic!("{error}"),
        };
        let mut publisher = Publisher::new(&plan.schema);
        let reader = publisher.reader();
        let (sender, events) = sync_channel(4096);
        let sender = EventSender::new(move |event| sender.try_send(event).is_ok());
        let graph = match Graph::new(Arc::clone(&plan), station, tier, sender) {
            Ok(graph) => graph,
            Err(error) => panic!("{error}"),
        };
        Self { plan, publisher, graph, events, wires: BTreeMap::new(), now: 1_000_000_000, reader }
    }

    /// Key of a part of the tables.
    ///
    /// # Panics
    /// If the part isn't declared in [`crate::schema`].
    #[must_use]
    pub fn key<T: 'static>(&self) -> Key<T> {
        match self.plan.schema.key() {
            Some(key) => key,
            None => panic!("{} is not declared", core::any::type_name::<T>()),
        }
    }

    /// Changes the tables and publishes them.
    pub fn publish(&mut self, change: impl FnOnce(&mut Draft)) {
        let mut draft = self.publisher.draft();
        change(&mut draft);
        self.publisher.publish(draft);
    }

    /// Carries changes of forwarding through, as a control thread and a worker do it together.
    ///
    /// # Panics
    /// If a table refuses.
    pub fn commit(&mut self, forwarding: &mut Forwarding) {
        loop {
            match forwarding.commit(&mut self.publisher) {
                Ok(Progress::Done) => return,
                Ok(Progress::Waiting { .. }) => self.reader.quiesce(),
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Adds a test port as interface `index`, whose received packets go to node `input_end` (`ethernet-input`, ...).
    ///
    /// # Panics
    /// If `input_end` is no end of `device-input`.
    pub fn add_port(&mut self, index: IfIndex, interface: Interface, input_end: &str) {
        self.set_interface(index, interface);
        self.chain("device-input", index, &[], input_end);
        self.chain("interface-output", index, &[], "test-tx");
        let wire = TestWire::default();
        self.wires.insert(index, wire.clone());
        self.graph.ports.attach(index, Attachment::default(), Box::new(wire.clone()));
        if let Some(queues) = self.graph.queues("test-input") {
            queues.add(RxPort::new(index, 0, RxMode::Polling, Box::new(wire)));
        }
    }

    /// Sets an interface's entry in the table.
    pub fn set_interface(&mut self, index: IfIndex, interface: Interface) {
        let key = self.key::<Interfaces>();
        let interface = Interface { exists: true, up: true, ..interface };
        self.publish(|draft| draft.change(key, |table| table.set(index, Some(interface))));
    }

    /// Sets an interface's way along an arc.
    ///
    /// # Panics
    /// If arc, features or end don't exist.
    pub fn chain(&mut self, arc: &str, index: IfIndex, features: &[&str], end: &str) {
        let (number, chain) = match (self.plan.arc(arc), self.plan.chain(arc, features, end)) {
            (Some(number), Ok(chain)) => (number, chain),
            (_, result) => panic!("{arc}: {result:?}"),
        };
        let key = self.key::<Arcs>();
        self.publish(|draft| draft.change(key, |arcs| assert!(arcs.set(number, index, &chain).is_ok())));
    }

    /// One round of the worker.
    pub fn round(&mut self) {
        self.reader.quiesce();
        self.graph.round(self.reader.tables(), self.now);
    }

    /// Sends frames in by interface `index`, `burst` at a time, runs rounds until nothing moves, and tells what came out.
    ///
    /// # Panics
    /// If there is no test port of that index.
    pub fn run(&mut self, index: IfIndex, frames: &[Vec<u8>], burst: usize) -> Outcome {
        for frame in frames {
            self.wires[&index].send(frame, burst);
        }
        let before = self.drops();
        self.settle();
        let mut outcome = Outcome::default();
        for (index, wire) in &self.wires {
            let frames = wire.take();
            if !frames.is_empty() {
                outcome.sent.insert(*index, frames);
            }
        }
        for (name, count) in self.drops() {
            let new = count - before.get(&name).copied().unwrap_or(0);
            if new > 0 {
                outcome.drops.insert(name, new);
            }
        }
        while let Ok(event) = self.events.try_recv() {
            if let Event::Punt { kind, .. } = event {
                outcome.punts.push(kind);
            }
        }
        outcome
    }

    /// Runs rounds until nothing moves. What came out stays in [`Bench::wires`] and [`Bench::events`].
    pub fn settle(&mut self) {
        loop {
            self.reader.quiesce();
            let received = self.graph.round(self.reader.tables(), self.now).received;
            if received == 0 && !self.wires.values().any(TestWire::waiting) {
                return;
            }
        }
    }

    /// Graph-wide id of a drop reason, by its node and name as [`Outcome::drops`] has them.
    ///
    /// # Panics
    /// If no node declares it.
    #[must_use]
    pub fn drop_id(&self, name: &str) -> u16 {
        let named = |(node, spec): &(u16, graph::DropSpec)| {
            format!("{} {}", self.plan.nodes[usize::from(*node)].spec.name, spec.name) == name
        };
        match self.plan.drops.iter().position(named) {
            Some(id) => id as u16,
            None => panic!("no drop reason is called {name:?}"),
        }
    }

    /// What has been dropped so far, by node and reason.
    #[must_use]
    pub fn drops(&self) -> BTreeMap<String, u64> {
        let name = |node: u16, reason: &str| format!("{} {reason}", self.plan.nodes[node as usize].spec.name);
        let all = self.plan.drops.iter().enumerate();
        all.map(|(id, (node, spec))| (name(*node, spec.name), self.graph.counters().drops(id as u16).get()))
            .collect()
    }
}
