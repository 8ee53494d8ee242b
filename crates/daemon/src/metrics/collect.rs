//! What is measured.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use api::text::Words as _;
use api::v1::{AclState, InterfaceCounters, NatPoolState, PolicerHits, TenantState, VipState};

use super::copying;
use super::exposition::{Exposition, Kind};
use crate::control::{Census, View};
use crate::dataplane::{ExporterFigures, Inspect};
use crate::model::Readiness;
use crate::version;

/// Reads counters and writes them down.
pub struct Collector {
    inspect: Arc<dyn Inspect>,
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
        Self { inspect, census: Mutex::new((Weak::new(), Vec::new())) }
    }

    /// All metrics as text; `view` is the desired state at present, `None` if the control thread is gone.
    pub fn collect(&self, view: Option<&View>) -> String {
        let mut out = Exposition::default();
        self.process(&mut out);
        if let Some(view) = view {
            self.objects(&mut out, view);
        }
        self.interfaces(&mut out);
        self.workers(&mut out);
        self.drops(&mut out);
        self.events(&mut out);
        self.tables(&mut out);
        self.tenants(&mut out);
        self.nat_pools(&mut out);
        self.policers(&mut out);
        self.vips(&mut out);
        self.acls(&mut out);
        self.memifs(&mut out);
        copying::collect(&*self.inspect, &mut out);
        out.finish()
    }

    fn process(&self, out: &mut Exposition) {
        let engine = self.inspect.engine();
        out.metric("quiver_build_info", Kind::Gauge, "What runs here; always 1.").sample(
            &[("version", version::VERSION), ("commit", version::COMMIT), ("simd_tier", &engine.simd_tier)],
            1,
        );
        out.metric("quiver_uptime_seconds", Kind::Gauge, "Seconds since start.")
            .sample(&[], version::uptime().as_secs_f64());
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
        for (name, help, read) in INTERFACE_COUNTERS {
            let mut metric = out.metric(name, Kind::Counter, help);
            for interface in &interfaces {
                let counters = interface.counters.unwrap_or_default();
                metric.sample(&[("interface", &interface.name)], read(&counters));
            }
        }
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
    }

    fn nat_pools(&self, out: &mut Exposition) {
        type Figure = (&'static str, Kind, &'static str, fn(&NatPoolState) -> u64);
        let figures: [Figure; 4] = [
            ("quiver_nat_pool_addresses", Kind::Gauge, "Addresses of a NAT pool.", |pool| pool.size),
            ("quiver_nat_pool_translations", Kind::Gauge, "Sessions that are translated.", |pool| {
                pool.translations
            }),
            (
                "quiver_nat_pool_translations_created_total",
                Kind::Counter,
                "Sessions that were translated.",
                |pool| pool.created,
            ),
            (
                "quiver_nat_pool_exhausted_total",
                Kind::Counter,
                "Packets dropped because all ports were in use to their destination.",
                |pool| pool.exhausted,
            ),
        ];
        let pools = self.inspect.nat_pools();
        for (name, kind, help, figure) in figures {
            let mut metric = out.metric(name, kind, help);
            for pool in &pools {
                metric.sample(&[("pool", &pool.name)], figure(pool));
            }
        }
    }

    fn policers(&self, out: &mut Exposition) {
        type Figure = (&'static str, &'static str, fn(PolicerHits) -> u64);
        const FIGURES: [Figure; 2] = [
            ("quiver_policer_packets_total", "Metered packets, by colour.", |hits| hits.packets),
            ("quiver_policer_bytes_total", "Their bytes, from the IP header on.", |hits| hits.bytes),
        ];
        let policers = self.inspect.policers();
        for (name, help, figure) in FIGURES {
            let mut metric = out.metric(name, Kind::Counter, help);
            for state in &policers {
                let policer = state.policer.as_ref().map_or("", |policer| &policer.name);
                for user in &state.users {
                    let direction = match (user.tenant.is_empty(), user.reverse) {
                        (true, _) => "",
                        (false, false) => "forward",
                        (false, true) => "reverse",
                    };
                    for (color, hits) in [("green", user.green), ("yellow", user.yellow), ("red", user.red)] {
                        let labels = [
                            ("policer", policer),
                            ("tenant", &user.tenant),
                            ("direction", direction),
                            ("interface", &user.interface),
                            ("color", color),
                        ];
                        metric.sample(&labels, figure(hits.unwrap_or_default()));
                    }
                }
            }
        }
    }

    fn vips(&self, out: &mut Exposition) {
        type Figure = (&'static str, Kind, &'static str, fn(&VipState) -> u64);
        const FIGURES: &[Figure] = &[
            ("quiver_vip_sessions", Kind::Gauge, "Sessions of a VIP.", |vip| vip.sessions),
            (
                "quiver_vip_backends",
                Kind::Gauge,
                "Backends that a VIP has sessions with, or may have.",
                |vip| vip.backends.len() as u64,
            ),
            (
                "quiver_vip_sessions_created_total",
                Kind::Counter,
                "Sessions that were given a backend.",
                |vip| vip.created,
            ),
            ("quiver_vip_refused_total", Kind::Counter, "Packets dropped for want of a backend.", |vip| {
                vip.refused
            }),
        ];
        type Way = (&'static str, &'static str, fn(&VipState) -> [u64; 2]);
        const WAYS: &[Way] = &[
            ("quiver_vip_packets_total", "Packets to backends and from them.", |vip| {
                [vip.packets, vip.answer_packets]
            }),
            ("quiver_vip_bytes_total", "Their bytes, from the IP header on.", |vip| {
                [vip.bytes, vip.answer_bytes]
            }),
        ];
        let vips = self.inspect.vips();
        for (name, kind, help, figure) in FIGURES {
            let mut metric = out.metric(name, *kind, help);
            for vip in &vips {
                metric.sample(&[("vip", &vip.name)], figure(vip));
            }
        }
        for (name, help, ways) in WAYS {
            let mut metric = out.metric(name, Kind::Counter, help);
            for vip in &vips {
                for (direction, figure) in ["to", "from"].into_iter().zip(ways(vip)) {
                    metric.sample(&[("vip", &vip.name), ("direction", direction)], figure);
                }
            }
        }
        let mut metric =
            out.metric("quiver_vip_backend_sessions", Kind::Gauge, "Sessions of a VIP with a backend.");
        for vip in &vips {
            for backend in &vip.backends {
                let at = match backend.address.contains(':') {
                    true => format!("[{}]:{}", backend.address, backend.port),
                    false => format!("{}:{}", backend.address, backend.port),
                };
                metric.sample(&[("vip", &vip.name), ("backend", &at)], backend.sessions);
            }
        }
    }

    fn acls(&self, out: &mut Exposition) {
        type Outcome = (&'static str, fn(&AclState) -> u64);
        const OUTCOMES: [Outcome; 6] = [
            ("permit", |acl| acl.permitted),
            ("reflect", |acl| acl.reflected),
            ("deny", |acl| acl.denied),
            ("redirect", |acl| acl.redirected),
            ("next", |acl| acl.passed_on),
            ("none", |acl| acl.unmatched),
        ];
        let acls = self.inspect.acls();
        let mut rules = out.metric("quiver_acl_rules", Kind::Gauge, "Rules of a list.");
        for acl in &acls {
            rules.sample(&[("acl", &acl.name)], acl.rule_count);
        }
        let mut sessions = out.metric(
            "quiver_acl_sessions_total",
            Kind::Counter,
            "Sessions that were asked about, by what the rule says that they met.",
        );
        for acl in &acls {
            for (action, figure) in OUTCOMES {
                sessions.sample(&[("acl", &acl.name), ("action", action)], figure(acl));
            }
        }
    }

    fn tenants(&self, out: &mut Exposition) {
        type Figure = (&'static str, Kind, &'static str, fn(&TenantState) -> u64);
        const FIGURES: &[Figure] = &[
            ("quiver_tenant_sessions", Kind::Gauge, "Sessions of a tenant.", |tenant| tenant.sessions),
            ("quiver_tenant_sessions_max", Kind::Gauge, "Sessions that a tenant may have.", |tenant| {
                tenant.max_sessions
            }),
            ("quiver_tenant_sessions_created_total", Kind::Counter, "Sessions that began.", |tenant| {
                tenant.created
            }),
            (
                "quiver_tenant_sessions_evicted_total",
                Kind::Counter,
                "Sessions that had to make room before their time.",
                |tenant| tenant.evicted,
            ),
            (
                "quiver_tenant_sessions_refused_total",
                Kind::Counter,
                "Packets dropped because there was no room for their session.",
                |tenant| tenant.refused,
            ),
        ];
        let tenants = self.inspect.tenants();
        for (name, kind, help, figure) in FIGURES {
            let mut metric = out.metric(name, *kind, help);
            for tenant in &tenants {
                metric.sample(&[("tenant", &tenant.name)], figure(tenant));
            }
        }
        let help = "Whether the engine that looks into a tenant's sessions is there.";
        let mut metric = out.metric("quiver_tenant_engine_there", Kind::Gauge, help);
        for tenant in &tenants {
            if let Some(there) = tenant.engine_there {
                metric.sample(&[("tenant", &tenant.name)], u64::from(there));
            }
        }
        let mut metric = out.metric(
            "quiver_tenant_sessions_ended_total",
            Kind::Counter,
            "Sessions that ended, by reason.",
        );
        for tenant in &tenants {
            for ended in &tenant.ended {
                metric.sample(&[("tenant", &tenant.name), ("reason", &ended.end().word())], ended.sessions);
            }
        }
        let help = "Packets of a tenant that were dropped at sessions and by services, by node and reason.";
        let mut metric = out.metric("quiver_tenant_drops_total", Kind::Counter, help);
        for tenant in &tenants {
            for drop in &tenant.drops {
                let labels = [("tenant", &*tenant.name), ("node", &*drop.node), ("reason", &*drop.reason)];
                metric.sample(&labels, drop.packets);
            }
        }
        out.metric(
            "quiver_session_events_missed_total",
            Kind::Counter,
            "Session events that were lost because whoever looked on read too slowly.",
        )
        .sample(&[], self.inspect.missed_session_events());
        self.exporters(out);
    }

    fn exporters(&self, out: &mut Exposition) {
        type Figure = (&'static str, &'static str, fn(&ExporterFigures) -> u64);
        const FIGURES: [Figure; 4] = [
            ("quiver_ipfix_messages_total", "Messages sent to a collector.", |one| one.messages),
            ("quiver_ipfix_records_total", "Data records in them.", |one| one.records),
            ("quiver_ipfix_unsent_records_total", "Data records that could not be sent.", |one| one.unsent),
            (
                "quiver_ipfix_refused_total",
                "Times that a collector's host has said that nobody listens.",
                |one| one.refused,
            ),
        ];
        let exporters = self.inspect.exporters();
        for (name, help, figure) in FIGURES {
            let mut metric = out.metric(name, Kind::Counter, help);
            for one in &exporters {
                let labels = [("collector", one.collector.as_str()), ("domain", &one.domain.to_string())];
                metric.sample(&labels, figure(one));
            }
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
