//! A round: receive, run nodes until nothing is pending, give back.

use super::pending::Pending;
use crate::context::{Ctx, DropCapture, Frame, GONE};
use crate::counters::WorkerCounters;
use crate::handover::Station;
use crate::locals::{LocalKey, Locals};
use crate::node::{Node, NodeContext, NodeKind};
use crate::plan::Plan;
use crate::port::{Quota, RxQueues, TxPorts};
use crate::publish::Tables;
use crate::trace::Tracer;
use crate::worker::EventSender;
use core::fmt;
use memory::clock::cycles;
use memory::packet::{NoMemory, Packets, SlotId};
use memory::simd::Tier;
use std::sync::Arc;

/// Packets that a node works on at a time, at most, and that a round receives.
pub const MAX_VECTOR: usize = 256;
/// Bytes that a round receives, and no more than one queue's last packet beyond that. A vector of full-sized Ethernet frames is less; of super-frames, one port's
/// vector would be 16 MiB, and everybody else would wait for them to be copied.
const MAX_BYTES: u64 = 512 << 10;

struct Instance {
    node: Box<dyn Node>,
    /// Targets by edge; edges beyond the declared ones lead to `drop`.
    edges: Box<[u16; 256]>,
    first_drop: u16,
    first_counter: u16,
    /// Packets come in by it: others have no receive queues, and aren't asked.
    is_input: bool,
}

/// What a round did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoundResult {
    /// Packets that came in.
    pub received: usize,
}

/// One worker's instance of the graph.
pub struct Graph {
    plan: Arc<Plan>,
    instances: Vec<Instance>,
    inputs: Vec<usize>,
    pending: Pending,
    packets: Packets,
    counters: Arc<WorkerCounters>,
    events: EventSender,
    next: Box<[u8; MAX_VECTOR]>,
    spare: Vec<SlotId>,
    tier: Tier,
    worker: usize,
    measure: bool,
    /// Where packets come from other workers and go to them.
    pub(crate) station: Station,
    locals: Locals,
    /// Transmit queues by interface.
    pub ports: TxPorts,
    /// The worker's packet trace.
    pub tracer: Tracer,
    /// Sees dropped packets while set.
    pub drop_capture: Option<Box<dyn DropCapture>>,
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Graph")
            .field("worker", &self.worker)
            .field("tier", &self.tier)
            .finish_non_exhaustive()
    }
}

impl Drop for Graph {
    /// A round that a panic ended is over, too: queues that may be reading bodies of its packets are flushed while these are there.
    fn drop(&mut self) {
        self.ports.flush(&self.counters.rounds.at);
    }
}

impl Graph {
    /// An instance of `plan` for the worker that `station` belongs to, with hot loops compiled for `tier`.
    ///
    /// # Errors
    /// [`NoMemory`] where there is none for its packets.
    pub fn new(plan: Arc<Plan>, station: Station, tier: Tier, events: EventSender) -> Result<Self, NoMemory> {
        let worker = station.number();
        let packets = Packets::try_new()?;
        let drop = plan.node("drop").unwrap_or_default();
        let instances = plan.nodes.iter().enumerate().map(|(id, planned)| {
            let mut edges = Box::new([drop; 256]);
            edges.iter_mut().zip(&planned.edges).for_each(|(edge, target)| *edge = *target);
            Instance {
                node: (planned.spec.make)(&NodeContext { plan: &plan, node: id, tier, worker }),
                edges,
                first_drop: planned.drops.start,
                first_counter: planned.counters.start,
                is_input: planned.spec.kind == NodeKind::Input,
            }
        });
        let instances = instances.collect();
        let inputs =
            (0..plan.nodes.len()).filter(|id| plan.nodes[*id].spec.kind == NodeKind::Input).collect();
        let counters = WorkerCounters::new(plan.nodes.len(), plan.drops.len() + 1, plan.counters.len() + 1);
        Ok(Self {
            instances,
            inputs,
            pending: Pending::new(plan.nodes.len()),
            packets,
            counters: Arc::new(counters),
            events,
            next: Box::new([0; MAX_VECTOR]),
            spare: Vec::with_capacity(2 * MAX_VECTOR),
            tier,
            worker,
            measure: true,
            station,
            locals: plan.schema.locals.make(),
            ports: TxPorts::default(),
            tracer: Tracer::new(worker),
            drop_capture: None,
            plan,
        })
    }

    /// The graph this is an instance of.
    #[must_use]
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// The worker's counters, to be read from outside.
    #[must_use]
    pub fn counters(&self) -> &Arc<WorkerCounters> {
        &self.counters
    }

    /// Switches the per-node clocks on or off.
    pub fn measure(&mut self, on: bool) {
        self.measure = on;
    }

    /// The receive queues of a kind of port, by the name of its input node.
    #[must_use]
    pub fn queues(&mut self, input: &str) -> Option<&mut RxQueues> {
        let id = self.plan.node(input)?;
        self.instances[id as usize].node.queues()
    }

    /// Whether a node has work for the next round that no packet will bring.
    #[must_use]
    pub(crate) fn busy(&self) -> bool {
        self.inputs.iter().any(|id| self.instances[*id].node.busy())
    }

    /// All receive queues, by kind of port.
    pub fn all_queues(&mut self) -> impl Iterator<Item = &mut RxQueues> {
        self.sources().1
    }

    /// Everything that packets come by.
    pub(crate) fn sources(&mut self) -> (&Station, impl Iterator<Item = &mut RxQueues>) {
        let inputs = self.instances.iter_mut().filter(|instance| instance.is_input);
        (&self.station, inputs.filter_map(|instance| instance.node.queues()))
    }

    /// What this worker's nodes share, for a command between two rounds.
    #[must_use]
    pub fn local<T: 'static>(&mut self, key: LocalKey<T>) -> &mut T {
        self.locals.get(key)
    }

    /// Where the control thread sends packets for this worker.
    #[must_use]
    pub fn injector(&self) -> Option<std::sync::mpsc::Sender<crate::nodes::Injection>> {
        self.instances.iter().find_map(|instance| instance.node.injector())
    }

    /// One round: every input is asked once, until [`MAX_VECTOR`] packets or [`MAX_BYTES`] came in; nodes run until no packet is
    /// pending; transmit queues are flushed and receive queues get their memory back.
    pub fn round(&mut self, tables: &Tables, now: u64) -> RoundResult {
        let mut budget = Quota { packets: MAX_VECTOR, bytes: MAX_BYTES };
        for at in 0..self.inputs.len() {
            let id = self.inputs[at];
            budget = self.input(id, tables, now, budget);
            if budget.packets == 0 || budget.bytes == 0 {
                // The input that filled the round comes last in the next one.
                self.inputs[at..].rotate_left(1);
                break;
            }
        }
        let received = MAX_VECTOR - budget.packets;
        if received == 0 {
            self.counters.rounds.at.between();
            self.ports.complete(&self.counters);
            self.ports.tell(|event| self.events.send(event));
            self.station.end_round();
            self.packets.end_round();
            return RoundResult::default();
        }
        while let Some(id) = self.pending.first() {
            self.node(id, tables, now);
        }
        self.end_round();
        RoundResult { received }
    }

    fn end_round(&mut self) {
        self.counters.rounds.at.between();
        self.station.end_round();
        self.ports.flush(&self.counters.rounds.at);
        self.ports.complete(&self.counters);
        self.ports.tell(|event| self.events.send(event));
        for id in &self.inputs {
            if let Some(queues) = self.instances[*id].node.queues() {
                for port in queues.list.iter_mut().filter(|port| port.pending) {
                    self.counters.rounds.at.receives(port.interface);
                    port.rx.release();
                    self.counters.rounds.at.returned();
                    port.pending = false;
                }
            }
        }
        if let Some(capture) = &self.drop_capture {
            capture.end_round();
        }
        self.packets.end_round();
        self.tracer.end_round();
    }

    fn input(&mut self, id: usize, tables: &Tables, now: u64, budget: Quota) -> Quota {
        self.counters.rounds.at.node(id);
        let start = if self.measure { cycles() } else { 0 };
        let first = self.packets.taken();
        let instance = &mut self.instances[id];
        let mut ctx = Ctx {
            packets: &mut self.packets,
            tables,
            locals: &mut self.locals,
            ports: &mut self.ports,
            counters: &self.counters,
            tier: self.tier,
            now,
            worker: self.worker,
            budget,
            traced: self.tracer.on(),
            drop_capture: self.drop_capture.as_deref(),
            events: &self.events,
            station: &mut self.station,
            pending: &mut self.pending,
            edges: &instance.edges,
            first_drop: instance.first_drop,
            first_counter: instance.first_counter,
        };
        instance.node.process(&mut ctx, &mut Frame { slots: &[], next: &mut [] });
        let left = ctx.budget;
        let runtime = &self.counters.runtime[id];
        runtime.calls.add(1);
        let n = budget.packets - left.packets;
        if n > 0 {
            runtime.vectors.add(1);
            runtime.packets.add(n as u64);
            if self.measure {
                runtime.clocks.add(cycles().wrapping_sub(start));
            }
            if self.tracer.wants(id) {
                self.tracer.begin_input(id, &self.plan, &mut self.packets, &self.pending.since(first));
            }
        }
        left
    }

    fn node(&mut self, id: usize, tables: &Tables, now: u64) {
        let mut batch = self.pending.take(id, core::mem::take(&mut self.spare));
        if batch.len() <= MAX_VECTOR {
            let edge = self.vector(id, &batch, tables, now);
            batch = match edge {
                Some(edge) => self.pending.give(self.instances[id].edges[edge as usize], batch),
                None => batch,
            };
        } else {
            for part in batch.chunks(MAX_VECTOR) {
                if let Some(edge) = self.vector(id, part, tables, now) {
                    self.pending.extend_from(self.instances[id].edges[edge as usize], part);
                }
            }
        }
        batch.clear();
        self.spare = batch;
    }

    /// Runs a node on one vector. Where all packets agree, the edge is returned and the vector is the caller's to
    /// hand on; else they have been distributed.
    fn vector(&mut self, id: usize, slots: &[SlotId], tables: &Tables, now: u64) -> Option<u8> {
        if self.tracer.wants(id) {
            self.tracer.begin(id, &mut self.packets, slots);
        }
        self.counters.rounds.at.node(id);
        let start = if self.measure { cycles() } else { 0 };
        let instance = &mut self.instances[id];
        let next = &mut self.next[..slots.len()];
        let mut ctx = Ctx {
            packets: &mut self.packets,
            tables,
            locals: &mut self.locals,
            ports: &mut self.ports,
            counters: &self.counters,
            tier: self.tier,
            now,
            worker: self.worker,
            budget: Quota::packets(0),
            traced: self.tracer.on(),
            drop_capture: self.drop_capture.as_deref(),
            events: &self.events,
            station: &mut self.station,
            pending: &mut self.pending,
            edges: &instance.edges,
            first_drop: instance.first_drop,
            first_counter: instance.first_counter,
        };
        instance.node.process(&mut ctx, &mut Frame { slots, next: &mut *next });
        let runtime = &self.counters.runtime[id];
        runtime.calls.add(1);
        runtime.vectors.add(1);
        runtime.packets.add(slots.len() as u64);
        if self.measure {
            runtime.clocks.add(cycles().wrapping_sub(start));
        }
        if self.tracer.active() {
            self.tracer.record(&self.plan, id, &*instance.node, &self.packets, slots, next);
        }
        if self.plan.nodes[id].spec.kind == NodeKind::Output {
            return None;
        }
        let first = *next.first()?;
        if next.iter().fold(0, |differ, edge| differ | (edge ^ first)) == 0 {
            return (first != GONE).then_some(first);
        }
        for (slot, edge) in slots.iter().zip(&*next).filter(|(_, edge)| **edge != GONE) {
            self.pending.push(instance.edges[*edge as usize], *slot);
        }
        None
    }
}
