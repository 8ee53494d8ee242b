//! Everything that the engine owns.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use copy::Engines;
use features::bridge::Bridges;
use features::bridge::control::{BridgeConfig, age, set_addresses};
use features::interface::Interfaces;
use features::interface::control::{Ends, stack};
use features::policer::{INTERFACE_POLICER, Policers};
use features::session::Tenants;
use features::session::acl::control::Filters;
use features::session::balance::control::Balancer;
use features::tunnel::Tunnels;
use graph::arc::Arcs;
use graph::packet::OwnedPacket;
use graph::plan::Plan;
use graph::port::{IfIndex, RxMode, TxQueue};
use graph::publish::{Key as Part, Publisher, Schema};
use ports::memif::{MemifEngineTx, MemifTx};
use tables::mac::MacTable;

use super::compile;
use super::directory::{Directory, Inventory, NatPool, Policer, Tenant};
use super::held_macs::HeldMacs;
use super::kept::Waiting;
use super::memif::{LinkChange, Memifs};
use super::passage::{Arrival, Attachments};
use super::policers;
use super::port::{self, Kind};
use super::routing::Routing;
use super::start::EngineError;
use super::workers::Pool;
use crate::model::spec::InterfaceSpec;
use crate::model::{Flaw, Key, Name};

/// Where the parts of the tables are that the engine itself writes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Keys {
    pub(super) arcs: Part<Arcs>,
    pub(super) interfaces: Part<Interfaces>,
    pub(super) bridges: Part<Bridges>,
    pub(super) tenants: Part<Tenants>,
    pub(super) policers: Part<Policers>,
    pub(super) tunnels: Part<Tunnels>,
}

impl Keys {
    /// # Errors
    /// [`EngineError::Schema`] where the features don't declare one of them.
    pub(super) fn of(schema: &Schema) -> Result<Self, EngineError> {
        Ok(Self {
            arcs: key(schema)?,
            interfaces: key(schema)?,
            bridges: key(schema)?,
            tenants: key(schema)?,
            policers: key(schema)?,
            tunnels: key(schema)?,
        })
    }
}

fn key<T: 'static>(schema: &Schema) -> Result<Part<T>, EngineError> {
    schema.key().ok_or(EngineError::Schema(std::any::type_name::<T>()))
}

/// What workers see, and what becomes of it: the one writer of all tables. Whoever changes something holds the lock on it, for
/// milliseconds. Who looks at interfaces, links, workers and counters doesn't need it: those are in the
/// [`Directory`], the links of [`Memifs`] and the [`Pool`].
#[derive(Debug)]
pub(super) struct Core {
    pub(super) plan: Arc<Plan>,
    pub(super) keys: Keys,
    pub(super) publisher: Publisher,
    pub(super) pool: Arc<Pool>,
    pub(super) directory: Arc<Directory>,
    pub(super) memifs: Arc<Memifs>,
    /// Who copies bodies; `None`: the workers.
    pub(super) copy: Option<Arc<Engines>>,
    pub(super) attachments: Arc<Attachments>,
    /// The address table of all bridges: the same through all versions of the tables.
    pub(super) macs: Arc<MacTable>,
    /// Forwarding and neighbours.
    pub(super) routing: Routing,
    /// Packets for the graph that wait until workers know their neighbour: worker, target, packet.
    pub(super) waiting: Vec<(usize, u32, OwnedPacket)>,
    /// Sessions that each worker may have.
    pub(super) sessions_per_worker: usize,
    /// Counts publications that change what may become of sessions: workers look through them after each.
    pub(super) tenant_changes: u64,
    /// Tenants, NAT pools or policers have changed since they were published.
    pub(super) tenants_changed: bool,
    /// Tenants that are gone since tenants were published.
    pub(super) departed_tenants: BTreeMap<Name, Tenant>,
    /// NAT pools, likewise.
    pub(super) departed_pools: BTreeMap<Name, NatPool>,
    /// Policers, likewise.
    pub(super) departed_policers: BTreeMap<Name, Policer>,
    /// Counts changes of policers: tokens of another version are worth nothing.
    pub(super) policer_changes: u32,
    /// VIPs.
    pub(super) balancer: Balancer,
    /// Sessions of the process before, which wait for them.
    pub(super) kept: Waiting,
    /// Lists of rules, sets and endpoints.
    pub(super) filters: Filters,
    /// The number that the last new tenant was given.
    pub(super) last_tenant: u16,
    /// Log lines of held MAC addresses.
    pub(super) held_macs: HeldMacs,
    /// Interfaces have changed since they were published.
    pub(super) interfaces_changed: bool,
    /// A batch is at hand that has changed tenants, NAT pools, VIPs, lists, sets or endpoints.
    pub(super) in_batch: bool,
    /// Interfaces were published since without tenants.
    pub(super) tenants_held: bool,
    /// Interfaces that existed when they were published last.
    pub(super) published: Vec<IfIndex>,
    /// What every worker has passed that has seen them so.
    pub(super) published_mark: u64,
    /// Receive queues whose interfaces workers may not know yet.
    pub(super) arrivals: Vec<Arrival>,
    /// Interfaces that the batch at hand has opened.
    pub(super) fresh: BTreeSet<IfIndex>,
    /// Frames made by the control side, to be sent when workers know the interfaces.
    pub(super) frames: Vec<OwnedPacket>,
    /// What every worker has passed that has let go of the queues taken away last.
    pub(super) departure: Option<u64>,
    /// What was accepted and can't be in force, or can't be any more, for the control thread to know.
    pub(super) lost: BTreeMap<Key, Flaw>,
    /// Why interfaces can't be published as they are.
    pub(super) contradiction: Option<String>,
}

impl Core {
    /// Makes interfaces, bridges and their ways along the arcs visible to the workers, and tells routing of them.
    pub(super) fn publish_interfaces(&mut self) {
        self.interfaces_changed = false;
        let inventory = self.directory.get();
        let mut table = Interfaces::default();
        for (index, entry) in inventory.registry.iter() {
            table.set(index, Some(compile::interface(&inventory, entry)));
        }
        if let Err(error) = stack(&mut table) {
            // The control plane has checked this: what it hands down is consistent.
            tracing::error!(%error, "interfaces contradict each other; the last consistent state stays in force");
            self.contradiction = Some(error.to_string());
            return;
        }
        self.contradiction = None;
        drop(inventory);
        // In the middle of a batch, tenants stay as they are.
        self.tenants_held |= self.in_batch;
        if !self.in_batch {
            self.departed_tenants.clear();
            self.departed_pools.clear();
            self.departed_policers.clear();
            // What tenants refer to is seen with them.
            self.take_vips();
            self.hand_down_sessions();
            self.take_filters();
            self.take_tenants();
        }
        let inventory = self.directory.get();
        let mut draft = self.publisher.draft();
        let Keys { arcs, interfaces, bridges, tenants, policers: metered, tunnels } = self.keys;
        let mut lost = Vec::new();
        if !self.in_batch {
            draft.change(tenants, |tenants| self.compile_tenants(&inventory, tenants));
            draft.change(metered, |metered| policers::compile(&inventory, metered));
            policers::forget(&inventory);
        }
        let places = draft.get(tenants).clone();
        draft.change(arcs, |arcs| self.set_arcs(&inventory, arcs, &table, &places, &mut lost));
        let (compiled, configs) = self.compile_bridges(&inventory, &table, &mut lost);
        draft.set(bridges, compiled);
        draft.set(tunnels, Tunnels::of(&table));
        draft.set(interfaces, table.clone());
        self.publisher.publish(draft);
        self.published_mark = self.publisher.mark();
        let configs = configs.iter().map(|(number, config)| (*number, config));
        for (number, error) in set_addresses(&self.macs, configs, &table) {
            let mut bridges = inventory.bridges.iter();
            if let Some((name, _)) = bridges.find(|(_, bridge)| bridge.index == number) {
                lost.push((Key::Bridge(name.clone()), error.to_string()));
            }
        }
        for (key, reason) in lost {
            self.lose(key, Flaw::new("", reason));
        }
        self.published = inventory.registry.iter().map(|(index, _)| index).collect();
        self.route_interfaces(&inventory, &table);
        drop(inventory);
        let published = self.publisher.current().share(bridges);
        self.directory.change(|inventory| inventory.published = published);
    }

    /// Notes that an object was accepted and can't be in force: the control thread is told when it asks.
    pub(super) fn lose(&mut self, key: Key, flaw: Flaw) {
        self.lost.entry(key).or_insert_with(|| flaw.remedy("it is tried again every 3 s"));
    }

    fn set_arcs(
        &self,
        inventory: &Inventory,
        arcs: &mut Arcs,
        table: &Interfaces,
        tenants: &Tenants,
        lost: &mut Vec<(Key, String)>,
    ) {
        let registry = &inventory.registry;
        for gone in self.published.iter().filter(|index| registry.get(**index).is_none()) {
            for arc in 0..self.plan.arcs.len() as u16 {
                // An empty chain is never too long.
                let _ = arcs.set(arc, *gone, &[]);
            }
        }
        // Only a port that takes packets unfinished also brings some in: where there is none, nobody has to look.
        let splits = self.routing.forwarding.split_interfaces();
        let unfinished = registry.iter().any(|(_, entry)| entry.offloads());
        for (index, entry) in registry.iter() {
            let interface = table.get(index);
            let kind = Kind::of(&entry.spec.port);
            // What an engine copies is finished, as it is on a wire, also where its interface would take it unfinished.
            let engine = tenants.engines.get(index).is_some();
            let finish = unfinished && (engine || !entry.offloads());
            let finish = finish && (kind.output.is_some() || interface.tunnel.is_some());
            let output: &[&str] = if finish { &["offload"] } else { &[] };
            let input: &[&str] = if policers::meters(inventory, index) { &[INTERFACE_POLICER] } else { &[] };
            let (tracked, split) = (tenants.place(index).is_some(), splits.contains(&index));
            let set = compile::set_unicast(&self.plan, arcs, index, interface, (tracked, engine, split))
                .and_then(|plain| {
                    Ends::of(interface, kind.output, plain).set(&self.plan, arcs, index, input, output)
                });
            if let Err(error) = set {
                lost.push((Key::Interface(entry.spec.name.clone()), error.to_string()));
            }
        }
    }

    fn compile_bridges(
        &self,
        inventory: &Inventory,
        table: &Interfaces,
        lost: &mut Vec<(Key, String)>,
    ) -> (Bridges, Vec<(u16, BridgeConfig)>) {
        let mut bridges = Bridges::new(Arc::clone(&self.macs));
        let mut configs = Vec::new();
        for bridge in inventory.bridges.values() {
            let config = compile::bridge(inventory, bridge);
            match config.build(bridge.index, table) {
                Ok(compiled) => bridges.set(bridge.index, Some(compiled)),
                Err(error) => lost.push((Key::Bridge(bridge.spec.name.clone()), error.to_string())),
            }
            configs.push((bridge.index, config));
        }
        (bridges, configs)
    }

    /// Forgets learned addresses that are too old, a part of the table at a time.
    pub(super) fn age_bridges(&self) {
        let bridges = self.publisher.current().get(self.keys.bridges);
        // All of it every two seconds or so.
        age(bridges, memory::clock::nanoseconds(), self.macs.buckets().div_ceil(20));
    }

    /// The memif queue that a worker sends by (the first of those that share it), with the copy engine where one is in use and pays.
    fn memif_tx(&self, worker: usize, queue: ::memif::TxQueue) -> Box<dyn TxQueue> {
        match self.copy.as_ref().and_then(|engines| Some((engines, engines.threshold()?))) {
            Some((engines, threshold)) => {
                let channel = engines.channel(self.pool.core(worker));
                Box::new(MemifEngineTx::new(queue, channel, threshold))
            }
            None => Box::new(MemifTx::new(queue)),
        }
    }

    /// A memif link came up or went down.
    pub(super) fn link_changed(&mut self, change: LinkChange) {
        match change {
            LinkChange::Down(index) => self.detach(index),
            LinkChange::Up(index, attachment, connection) => {
                let found = self.directory.change(|inventory| {
                    let entry = inventory.registry.get_mut(index)?;
                    entry.link_ups += 1;
                    Some((rx_mode(&entry.spec), entry.damage.clone()))
                });
                let Some((mode, damage)) = found else { return };
                let rx =
                    connection.rx.into_iter().map(|queue| Box::new(ports::memif::MemifRx::new(queue)) as _);
                let rx = port::damaged(&damage, rx.collect());
                // As `Pool::attach_tx` deals them out: each worker in turn.
                let tx = connection.tx.into_iter().enumerate();
                let tx = tx.map(|(worker, queue)| self.memif_tx(worker, queue)).collect();
                self.detach(index);
                self.attach(index, attachment, Some("memif-input"), mode, rx, tx);
                self.link_up(index);
            }
        }
    }
}

/// How workers wait for an interface.
pub(super) fn rx_mode(spec: &InterfaceSpec) -> RxMode {
    match spec.rx_mode {
        api::v1::RxMode::Polling => RxMode::Polling,
        api::v1::RxMode::Interrupt => RxMode::Interrupt,
        _ => RxMode::Adaptive,
    }
}
