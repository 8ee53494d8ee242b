//! Packet trace: what every node did to a packet, in words.
//!
//! Tracing costs nothing while it is off: a node is asked about a packet only when the packet has been picked, and
//! packets are picked only at nodes for which a trace was ordered.

use crate::node::{Node, NodeKind};
use crate::plan::Plan;
use memory::packet::{Packets, SlotId};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of a packet that its trace keeps.
const SNAP: usize = 256;
/// Traces that a worker keeps until they are read; older ones go first.
const KEEP: usize = 1000;

/// One step of a traced packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceStep {
    /// The node.
    pub node: &'static str,
    /// Nanoseconds since the packet was picked.
    pub offset: u64,
    /// What the node says, possibly several lines.
    pub text: String,
    /// Where the packet went from there; `None` where it ended.
    pub next: Option<&'static str>,
    /// Why it was dropped, where the step is the drop.
    pub drop_reason: Option<&'static str>,
}

/// The way of one packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketTrace {
    /// The worker that it was on.
    pub worker: usize,
    /// Monotonic nanoseconds when it was picked.
    pub time: u64,
    /// Interface it came in by.
    pub rx_if: u16,
    /// Its bytes when it was picked, cut to 256.
    pub bytes: Vec<u8>,
    /// Its length then.
    pub len: u32,
    /// What happened, in order.
    pub steps: Vec<TraceStep>,
}

/// Finished traces, shared with the control thread.
pub type Traces = Arc<Mutex<Vec<PacketTrace>>>;

/// How many packets are still to be picked, by all workers together.
#[derive(Clone, Debug)]
pub struct Budget(Arc<AtomicU32>);

impl Budget {
    /// For `packets` packets.
    #[must_use]
    pub fn new(packets: u32) -> Self {
        Self(Arc::new(AtomicU32::new(packets)))
    }

    /// Packets that are left.
    #[must_use]
    pub fn left(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    /// Takes one, if one is left.
    fn take(&self) -> bool {
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
    }
}

/// Which packets to pick.
#[derive(Clone, Debug)]
pub struct TraceOrder {
    /// At these nodes, by id.
    pub nodes: Vec<u16>,
    /// Only packets that came in by this interface.
    pub interface: Option<u16>,
    /// How many of them.
    pub budget: Budget,
}

impl TraceOrder {
    fn picks(&self, node: usize, rx_if: u16) -> bool {
        self.at(node) && self.interface.is_none_or(|interface| interface == rx_if) && self.budget.take()
    }

    fn at(&self, node: usize) -> bool {
        self.nodes.iter().any(|at| usize::from(*at) == node)
    }
}

/// The worker's side.
#[derive(Debug)]
pub struct Tracer {
    worker: usize,
    orders: Vec<TraceOrder>,
    round: Vec<PacketTrace>,
    finished: Traces,
}

impl Tracer {
    pub(crate) fn new(worker: usize) -> Self {
        let (orders, round) = (Vec::new(), Vec::new());
        Self { worker, orders, round, finished: Traces::default() }
    }

    /// Picks packets from now on.
    pub fn order(&mut self, order: TraceOrder) {
        self.orders.push(order);
    }

    /// Forgets orders and finished traces.
    pub fn clear(&mut self) {
        self.orders.clear();
        self.finished.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// The finished traces.
    #[must_use]
    pub fn finished(&self) -> Traces {
        Arc::clone(&self.finished)
    }

    #[inline(always)]
    pub(crate) fn wants(&self, node: usize) -> bool {
        !self.orders.is_empty() && self.orders.iter().any(|order| order.at(node))
    }

    /// Whether packets are being picked, or are followed in this round. An order that another worker has filled picks no more.
    #[inline(always)]
    pub(crate) fn on(&self) -> bool {
        self.orders.iter().any(|order| order.budget.left() > 0) || self.active()
    }

    #[inline(always)]
    pub(crate) fn active(&self) -> bool {
        !self.round.is_empty()
    }

    #[cold]
    pub(crate) fn begin(&mut self, node: usize, packets: &mut Packets, slots: &[SlotId]) {
        for slot in slots {
            let meta = packets.meta(*slot);
            if meta.trace != 0 {
                continue;
            }
            if !self.orders.iter().any(|order| order.picks(node, meta.rx_if)) {
                continue;
            }
            let len = packets.meta(*slot).len();
            let mut bytes = vec![0; SNAP.min(len as usize)];
            packets.copy_out(*slot, &mut bytes);
            self.round.push(PacketTrace {
                worker: self.worker,
                time: memory::clock::nanoseconds(),
                rx_if: packets.meta(*slot).rx_if,
                bytes,
                len,
                steps: Vec::new(),
            });
            packets.meta_mut(*slot).trace = self.round.len() as u16;
        }
        self.orders.retain(|order| order.budget.left() > 0);
    }

    /// As [`Tracer::begin`], for the packets that an input node has just brought in.
    #[cold]
    pub(crate) fn begin_input(&mut self, node: usize, plan: &Plan, packets: &mut Packets, slots: &[SlotId]) {
        self.begin(node, packets, slots);
        for slot in slots {
            let meta = packets.meta(*slot);
            if let Some(trace) = self.round.get_mut((meta.trace as usize).wrapping_sub(1)) {
                let text = format!("interface {} length {}", meta.rx_if, meta.len());
                let offset = 0;
                let name = plan.nodes[node].spec.name;
                trace.steps.push(TraceStep { node: name, offset, text, next: None, drop_reason: None });
            }
        }
    }

    #[cold]
    pub(crate) fn record(
        &mut self,
        plan: &Plan,
        id: usize,
        node: &dyn Node,
        packets: &Packets,
        slots: &[SlotId],
        next: &[u8],
    ) {
        let planned = &plan.nodes[id];
        let output = planned.spec.kind == NodeKind::Output;
        for (slot, edge) in slots.iter().zip(next) {
            let meta = packets.meta(*slot);
            let Some(trace) = self.round.get_mut((meta.trace as usize).wrapping_sub(1)) else { continue };
            let mut text = String::new();
            if node.trace(packets, *slot, &mut text).is_err() {
                text.push_str(" (cut)");
            }
            let target = planned.edges.get(*edge as usize).map(|id| plan.nodes[*id as usize].spec.name);
            let reason = plan.drops.get(meta.drop_reason as usize).filter(|_| planned.spec.name == "drop");
            trace.steps.push(TraceStep {
                node: planned.spec.name,
                offset: memory::clock::nanoseconds().saturating_sub(trace.time),
                text,
                next: target.filter(|_| !output),
                drop_reason: reason.map(|reason| reason.1.name),
            });
        }
    }

    pub(crate) fn end_round(&mut self) {
        if self.round.is_empty() {
            return;
        }
        let mut finished = self.finished.lock().unwrap_or_else(PoisonError::into_inner);
        finished.append(&mut self.round);
        let excess = finished.len().saturating_sub(KEEP);
        finished.drain(..excess);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::{Ctx, Frame};
    use crate::engine::Graph;
    use crate::handover::Station;
    use crate::node::NodeSpec;
    use crate::publish::{Publisher, Schema};
    use crate::worker::EventSender;
    use memory::simd::Tier;

    /// Takes slots of which it brings in only some, as faults on purpose do.
    struct Loses;

    impl Node for Loses {
        fn process(&mut self, ctx: &mut Ctx<'_>, _frame: &mut Frame<'_>) {
            for interface in 1..=6 {
                let slot = ctx.packets.take(interface).unwrap();
                if interface % 2 == 0 && interface < 6 {
                    ctx.emit(0, slot);
                    ctx.budget.packets -= 1;
                }
            }
        }
    }

    #[test]
    fn what_an_input_has_brought_in_is_traced_and_nothing_else() {
        let input = NodeSpec {
            name: "input",
            kind: NodeKind::Input,
            edges: &["drop"],
            make: |_| Box::new(Loses),
            ..NodeSpec::EMPTY
        };
        let plan = Arc::new(Plan::resolve(&[input], &[], Schema::default()).unwrap());
        let publisher = Publisher::new(&plan.schema);
        let budget = Budget::new(5);
        let nodes = plan.node("input").into_iter().collect();
        let events = EventSender::new(|event| panic!("{event:?}"));
        let mut graph = Graph::new(plan, Station::alone(), Tier::detect(), events).unwrap();
        graph.tracer.order(TraceOrder { nodes, interface: None, budget: budget.clone() });
        graph.round(publisher.current(), 0);
        graph.round(publisher.current(), 0);
        assert_eq!(budget.left(), 1);
        let finished = graph.tracer.finished();
        let seen: Vec<_> = finished.lock().unwrap().iter().map(|t| (t.rx_if, t.steps.len())).collect();
        assert_eq!(seen, [(2, 2), (4, 2), (2, 2), (4, 2)], "interface, and input and drop");
    }

    #[test]
    fn workers_share_what_there_is_to_pick() {
        let budget = Budget::new(5);
        let order = TraceOrder { nodes: vec![3], interface: Some(7), budget: budget.clone() };
        let workers = [order.clone(), order];
        let picked = (0..10).flat_map(|_| &workers).filter(|order| order.picks(3, 7)).count();
        assert_eq!((picked, budget.left()), (5, 0));
        let fresh = TraceOrder { budget: Budget::new(1), ..workers[0].clone() };
        assert!(!fresh.picks(4, 7) && !fresh.picks(3, 8), "another node, another interface");
        assert_eq!(fresh.budget.left(), 1, "looking costs nothing");
    }
}
