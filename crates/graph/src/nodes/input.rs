//! Input node of a kind of port: polls its queues, starts each packet on the `device-input` arc.

use crate::arc::{ArcPlace, Arcs};
use crate::context::{Ctx, Frame};
use crate::node::{DropSpec, Node, NodeContext, NodeKind, NodeSpec};
use crate::port::{RxMode, RxQueues};
use crate::publish::Key;
use crate::worker::Event;

/// The arc on which all received packets begin.
pub const DEVICE_INPUT: &str = "device-input";

crate::drops! {
    /// Why received packets go no further.
    pub enum Drop {
        /// The interface is administratively down.
        InterfaceDown => "interface-down", Loss,
        /// Lost on purpose, as the interface's `fault` asks.
        Fault => "fault", Info,
    }
}

/// Declares the input node of a kind of port.
#[must_use]
pub const fn port_input(name: &'static str, help: &'static str) -> NodeSpec {
    const DROPS: &[DropSpec] = Drop::SPECS;
    NodeSpec {
        name,
        help,
        kind: NodeKind::Input,
        edges: &["drop"],
        drops: DROPS,
        starts: &[DEVICE_INPUT],
        make,
        ..NodeSpec::EMPTY
    }
}

/// Rounds without a packet after which a queue rests: what comes in a moment finds it awake.
const SILENCE: u8 = 8;

struct Input {
    queues: RxQueues,
    arcs: Key<Arcs>,
    place: ArcPlace,
}

/// Makes an input node.
#[must_use]
pub fn make(cx: &NodeContext<'_>) -> Box<dyn Node> {
    Box::new(Input { queues: RxQueues::default(), arcs: cx.table(), place: cx.arc(DEVICE_INPUT) })
}

impl Node for Input {
    fn process(&mut self, ctx: &mut Ctx<'_>, _frame: &mut Frame<'_>) {
        let count = self.queues.list.len();
        let mut turn = self.queues.turn;
        for _ in 0..count {
            if ctx.budget == 0 {
                break;
            }
            turn = if turn + 1 >= count { 0 } else { turn + 1 };
            self.poll(ctx, turn);
        }
        self.queues.turn = turn;
    }

    fn queues(&mut self) -> Option<&mut RxQueues> {
        Some(&mut self.queues)
    }
}

impl Input {
    fn poll(&mut self, ctx: &mut Ctx<'_>, at: usize) {
        let port = &mut self.queues.list[at];
        if port.told || core::mem::take(&mut port.silent) || port.resting {
            return;
        }
        let max = ctx.budget.min(ctx.packets.free());
        let received = match port.rx.receive(ctx.tier, ctx.packets, port.interface, max) {
            Ok(received) => received,
            Err(fault) => {
                // Told until there was room for it, and then never again: others need the queue of events, too.
                let (interface, queue, attachment) = (port.interface, port.queue, port.attachment);
                port.told = ctx.tell(Event::RxFault { interface, queue, attachment, fault });
                return;
            }
        };
        let n = received.slots.len();
        let lost = received.lost;
        if lost.packets > 0 {
            let counters = ctx.counters.interface(port.interface);
            counters.rx_packets.add(lost.packets);
            counters.rx_bytes.add(lost.bytes);
            counters.rx_drops.add(lost.packets);
            ctx.count_drops(Drop::Fault, lost.packets);
        }
        if n == 0 {
            port.silence = port.silence.saturating_add(1);
            let may_rest = self.queues.watched && port.silence >= SILENCE && port.mode != RxMode::Polling;
            port.resting = may_rest && !port.rx.is_restless();
            return;
        }
        port.silence = 0;
        port.pending = true;
        ctx.budget -= n.min(ctx.budget);
        let counters = ctx.counters.interface(port.interface);
        counters.rx_packets.add(n as u64);
        counters.rx_bytes.add(received.bytes);
        let edge = self.place.edge(ctx.table(self.arcs), port.interface, 0);
        if edge == 0 {
            for slot in received.slots.clone() {
                ctx.drop(slot as u16, Drop::InterfaceDown);
            }
        }
        ctx.emit_range(edge, received.slots);
    }
}
