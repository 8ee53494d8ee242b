//! What is measured.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use api::text::Words as _;
use api::v1::{InterfaceCounters, WorkerRuntime};

use super::exposition::{Exposition, Kind};
use super::{adjacencies, copying, listeners, process, sessions};
use crate::control::{Census, View};
use crate::dataplane::Inspect;
use crate::listener::Admission;
use crate::model::Readiness;

/// Reads counters and writes them down.
pub struct Collector {
    inspect: Arc<dyn Inspect>,
    listeners: Vec<Arc<Admission>>,
    /// Objects are counted once per change: with a million routes that takes a while.
    census: Mutex<Counted>,
}

/// Objects by kind, and the state of things in which they were counted.
type Counted = (Weak<Readiness>, Vec<(api::v1::Kind, Census)>);

impl std::fmt::Debug for Collector {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Collector").finish_non_exhaustive()
    }
}

/// A counter of interfaces: name, help, where it stands.
type InterfaceCounter = (&'static str, &'static str, fn(&InterfaceCounters) -> u64);

const INTERFACE_COUNTERS: &[InterfaceCounter] = &[
    ("quiver_interface_receive_packets_total", "Packets received.", |counters| counters.rx_packets),
    ("quiver_interface_receive_bytes_total", "Bytes received.", |counters| counters.rx_bytes),
    (
        "quiver_interface_receive_errors_total",
        "Packets received that were malformed, and dropped for that.",
        |counters| counters.rx_errors,
    ),
    ("quiver_interface_receive_drops_total", "Packets received that were dropped later.", |counters| {
        counters.rx_drops
    }),
    ("quiver_interface_receive_multicast_total", "Packets received to groups.", |counters| {
        counters.rx_multicast
    }),
    ("quiver_interface_receive_broadcast_total", "Packets received to all.", |counters| {
        counters.rx_broadcast
    }),
    (
        "quiver_interface_transmit_errors_total",
        "Packets that the port never takes, too long or malformed.",
        |counters| counters.tx_errors,
    ),
    ("quiver_interface_transmit_multicast_total", "Packets sent to groups.", |counters| {
        counters.tx_multicast
    }),
    ("quiver_interface_transmit_broadcast_total", "Packets sent to all.", |counters| counters.tx_broadcast),
    ("quiver_interface_transmit_packets_total", "Packets sent.", |counters| counters.tx_packets),
    ("quiver_interface_transmit_bytes_total", "Bytes sent.", |counters| counters.tx_bytes),
    ("quiver_interface_transmit_drops_total", "Packets that could not be sent.", |counters| {
        counters.tx_drops
    }),
];

impl Collector {
    /// A collector that reads the packet engine.
    pub fn new(inspect: Arc<dyn Inspect>) -> Self {
        Self { inspect, listeners: Vec::new(), census: Mutex::new((Weak::new(), Vec::new())) }
    }

    /// The same, which reads these listeners, too.
    #[must_use]
    pub fn with_listeners(self, listeners: Vec<Arc<Admission>>) -> Self {
        Self { listeners, ..self }
    }

    /// All metrics as text; `view` is the desired state at present, `None` if the control thread is gone.
    pub fn collect(&self, view: Option<&View>) -> String {
        let mut out = Exposition::default();
        process::collect(&*self.inspect, &mut out);
        listeners::collect(&self.listeners, &mut out);
        if let Some(view) = view {
            self.objects(&mut out, view);
        }
        self.interfaces(&mut out);
        self.workers(&mut out);
        self.drops(&mut out);
        self.events(&mut out);
        self.tables(&mut out);
        adjacencies::collect(&*self.inspect, &mut out);
        sessions::collect(&*self.inspect, &mut out);
        self.memifs(&mut out);
        copying::collect(&*self.inspect, &mut out);
        out.finish()
    }

    fn objects(&self, out: &mut Exposition, view: &View) {
        out.metric("quiver_generation", Kind::Gauge, "Generation of the desired state.")
            .sample(&[], view.generation());
        let census = {
            let mut cached = self.census.lock().unwrap_or_else(PoisonError::into_inner);
            if !view.is_of(&cached.0) {
                *cached = (view.stamp(), view.census());
            }
            cached.1.clone()
        };
        let mut metric =
            out.metric("quiver_objects", Kind::Gauge, "Objects of the desired state by what became of them.");
        for (kind, census) in census {
            let kind = kind.word();
            for (state, count) in
                [("applied", census.applied), ("pending", census.pending), ("failed", census.failed)]
            {
                metric.sample(&[("kind", &kind), ("state", state)], count);
            }
        }
    }

    fn interfaces(&self, out: &mut Exposition) {
        let interfaces = self.inspect.interfaces();
        let mut metric = out.metric(
            "quiver_interface_up",
            Kind::Gauge,
            "Whether the interface is up and the other side there.",
        );
        for interface in &interfaces {
            metric.sample(
                &[("interface", &interface.name), ("port", &interface.port)],
                u8::from(interface.admin_up && interface.link_up),
            );
        }
        let mut metric =
            out.metric("quiver_interface_link_ups_total", Kind::Counter, "How often the link came up.");
        for interface in &interfaces {
            metric.sample(&[("interface", &interface.name)], interface.link_ups);
        }
        let mut metric = out.metric(
            "quiver_interface_output_suspensions_total",
            Kind::Counter,
            "How often nothing was sent for a while, because the receive path behind the device took too long.",
        );
        for interface in interfaces.iter().filter(|interface| !interface.host_name.is_empty()) {
            metric.sample(&[("interface", &interface.name)], interface.output_suspensions);
        }
        let mut metric = out.metric(
            "quiver_interface_removals_total",
            Kind::Counter,
            "How often the port was taken away, because a call to it didn't return.",
        );
        for interface in &interfaces {
            metric.sample(&[("interface", &interface.name)], interface.removals);
        }
        for (name, help, read) in INTERFACE_COUNTERS {
            let mut metric = out.metric(name, Kind::Counter, help);
            for interface in &interfaces {
                let counters = interface.counters.unwrap_or_default();
                metric.sample(&[("interface", &interface.name)], read(&counters));
            }
        }
    }

    /// What is wrong with the workers, in words; empty: nothing.
    #[must_use]
    pub fn faults(&self) -> Vec<String> {
        let workers = self.inspect.runtime().workers.into_iter().filter(|worker| worker.stuck_seconds > 0.0);
        workers.map(|worker| format!("worker {} {}", worker.index, worker.standstill)).collect()
    }

    /// Whether it is such that a restart helps. Whoever restarts what isn't healthy would do so in vain for a worker that is given no time, and at a peer's will for one that
    /// waits for its memory.
    #[must_use]
    pub fn restart_helps(&self) -> bool {
        !self.inspect.restart_helps().is_empty()
    }

    fn workers(&self, out: &mut Exposition) {
        let runtime = self.inspect.runtime();
        let workers =
            runtime.workers.iter().map(|worker| (worker.index.to_string(), worker)).collect::<Vec<_>>();
        let mut metric = out.metric(
            "quiver_worker_load_ratio",
            Kind::Gauge,
            "Share of a worker's capacity in use, 0 to 1.",
        );
        for (index, worker) in &workers {
            metric.sample(&[("worker", index), ("core", &worker.core.to_string())], worker.load);
        }
        let mut metric = out.metric(
            "quiver_worker_longest_round_seconds",
            Kind::Gauge,
            "Longest round of a worker since counters were cleared, in seconds, what the kernel ran instead included.",
        );
        for (index, worker) in &workers {
            metric.sample(&[("worker", index)], worker.longest_round_microseconds / 1e6);
        }
        type Figure = (&'static str, &'static str, fn(&WorkerRuntime) -> u64);
        const SESSIONS: [Figure; 3] = [
            ("quiver_worker_sessions", "Sessions that a worker has.", |worker| worker.sessions),
            ("quiver_worker_sessions_max", "Sessions that a worker may have.", |worker| worker.max_sessions),
            (
                "quiver_worker_session_bytes",
                "Memory that a worker's sessions take, with what services know of them.",
                |worker| worker.session_bytes,
            ),
        ];
        for (name, help, figure) in SESSIONS {
            let mut metric = out.metric(name, Kind::Gauge, help);
            for (index, worker) in &workers {
                metric.sample(&[("worker", index)], figure(worker));
            }
        }
        let mut metric = out.metric(
            "quiver_worker_stuck_seconds",
            Kind::Gauge,
            "For how long a worker has stood still, in seconds, where that has been noticed; 0: it goes on.",
        );
        for (index, worker) in &workers {
            metric.sample(&[("worker", index)], worker.stuck_seconds);
        }
        let mut metric = out.metric(
            "quiver_worker_stuck_total",
            Kind::Counter,
            "Times that a worker was noticed to stand still.",
        );
        for (index, worker) in &workers {
            metric.sample(&[("worker", index)], worker.stuck_times);
        }
        let mut metric =
            out.metric("quiver_worker_packets_total", Kind::Counter, "Packets a worker received.");
        for (index, worker) in &workers {
            metric.sample(&[("worker", index)], worker.packets);
        }
        for (name, help, read) in [
            (
                "quiver_node_calls_total",
                "Times a node was called.",
                (|node| node.calls) as fn(&api::v1::NodeRuntime) -> u64,
            ),
            ("quiver_node_packets_total", "Packets a node processed.", |node| node.packets),
            ("quiver_node_clocks_total", "Clocks a node took.", |node| node.clocks),
        ] {
            let mut metric = out.metric(name, Kind::Counter, help);
            for (index, worker) in &workers {
                for node in &worker.nodes {
                    metric.sample(&[("worker", index), ("node", &node.name)], read(node));
                }
            }
        }
    }

    fn drops(&self, out: &mut Exposition) {
        let mut metric = out.metric("quiver_drops_total", Kind::Counter, "Packets dropped, by reason.");
        for drop in self.inspect.drops() {
            metric.sample(
                &[
                    ("node", &drop.node),
                    ("reason", &drop.reason),
                    ("severity", &drop.severity().word()),
                    ("interface", &drop.interface),
                ],
                drop.packets,
            );
        }
    }

    fn events(&self, out: &mut Exposition) {
        let help = "What nodes count besides drops; the reference of nodes says what each is.";
        let mut metric = out.metric("quiver_node_events_total", Kind::Counter, help);
        for events in self.inspect.node_events() {
            metric.sample(&[("node", events.node), ("event", events.event)], events.count);
        }
    }

    fn tables(&self, out: &mut Exposition) {
        let mut neighbors = BTreeMap::<(String, String), u64>::new();
        for neighbor in self.inspect.neighbors() {
            let phase = neighbor.phase().word();
            *neighbors.entry((neighbor.interface, phase)).or_default() += 1;
        }
        let mut metric = out.metric("quiver_neighbors", Kind::Gauge, "Neighbours by state of resolution.");
        for ((interface, phase), count) in &neighbors {
            metric.sample(&[("interface", interface), ("phase", phase)], count);
        }
        let bridges = self.inspect.bridges();
        let mut metric = out.metric("quiver_bridge_macs", Kind::Gauge, "Addresses in the table of a bridge.");
        for bridge in &bridges {
            metric.sample(&[("bridge", &bridge.name)], bridge.macs.len());
        }
        let mut metric =
            out.metric("quiver_bridge_moves_total", Kind::Counter, "Addresses that moved to another member.");
        for bridge in &bridges {
            metric.sample(&[("bridge", &bridge.name)], bridge.moves);
        }
        let members = || {
            bridges.iter().flat_map(|bridge| bridge.learning.iter().map(move |member| (&bridge.name, member)))
        };
        let help = "Addresses learned at a member of a bridge.";
        let mut metric = out.metric("quiver_bridge_member_macs", Kind::Gauge, help);
        for (bridge, member) in members() {
            metric.sample(&[("bridge", bridge), ("interface", &member.name)], member.macs);
        }
        let help = "Frames with a held address of another member, which the member didn't get.";
        let mut metric = out.metric("quiver_bridge_refused_moves_total", Kind::Counter, help);
        for (bridge, member) in members() {
            metric.sample(&[("bridge", bridge), ("interface", &member.name)], member.refused_moves);
        }
    }

    fn memifs(&self, out: &mut Exposition) {
        let memifs = self.inspect.memifs();
        let mut metric = out.metric("quiver_memif_connected", Kind::Gauge, "Whether a peer is connected.");
        for memif in &memifs {
            metric.sample(&[("interface", &memif.interface)], u8::from(memif.connected));
        }
        let mut metric =
            out.metric("quiver_memif_disconnects_total", Kind::Counter, "Connections that ended.");
        for memif in &memifs {
            metric.sample(&[("interface", &memif.interface)], memif.disconnects);
        }
        let mut metric = out.metric(
            "quiver_memif_held_regions",
            Kind::Gauge,
            "Regions that can't be mapped or sealed as their file is held, by the peer as a rule: each keeps quiverd from ending.",
        );
        for memif in &memifs {
            metric.sample(&[("interface", &memif.interface)], memif.held_regions.len() as u64);
        }
        let mut metric = out.metric(
            "quiver_memif_faults_total",
            Kind::Counter,
            "Connections ended because the peer broke the protocol, in shared memory or by messages.",
        );
        for memif in &memifs {
            for faults in &memif.fault_reasons {
                let labels = [("interface", memif.interface.as_str()), ("reason", &faults.reason)];
                metric.sample(&labels, faults.count);
            }
        }
        let mut metric = out.metric(
            "quiver_memif_refused_total",
            Kind::Counter,
            "Attempts to connect that came to nothing; without interface: the peer asked for none that there is.",
        );
        for memif in &memifs {
            for refusals in &memif.refusals {
                let labels = [
                    ("interface", memif.interface.as_str()),
                    ("socket", &memif.socket),
                    ("reason", &refusals.reason),
                ];
                metric.sample(&labels, refusals.count);
            }
        }
        for socket in self.inspect.memif_sockets() {
            for refusals in &socket.refusals {
                let labels =
                    [("interface", ""), ("socket", socket.socket.as_str()), ("reason", &refusals.reason)];
                metric.sample(&labels, refusals.count);
            }
        }
    }
}
