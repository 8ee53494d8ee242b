//! Input node of a kind of port: polls its queues, starts each packet on the `device-input` arc.

use crate::arc::{ArcPlace, Arcs};
use crate::context::{Ctx, Frame};
use crate::node::{DropSpec, Node, NodeContext, NodeKind, NodeSpec};
use crate::port::{Quota, RxMode, RxQueues};
use crate::publish::Key;
use crate::worker::Event;
use memory::clock::nanoseconds;

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

/// Bytes of a queue's share of a round, at least: one super-frame.
const LEAST_SHARE: u64 = 64 << 10;
/// Nanoseconds after which a round receives from no further queue: what it has is dealt with first.
const LONGEST: u64 = 200_000;

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
        let share = (ctx.budget.bytes / self.queues.active.max(1) as u64).max(LEAST_SHARE);
        self.queues.active = 0;
        for _ in 0..count {
            if ctx.budget.packets == 0 || ctx.budget.bytes == 0 {
                break;
            }
            turn = if turn + 1 >= count { 0 } else { turn + 1 };
            if self.poll(ctx, turn, share) && count > 1 {
                self.queues.active += 1;
                if nanoseconds().saturating_sub(ctx.now) > LONGEST {
                    break;
                }
            }
        }
        self.queues.turn = turn;
    }

    fn queues(&mut self) -> Option<&mut RxQueues> {
        Some(&mut self.queues)
    }
}

impl Input {
    /// Receives from one queue, at most `share` bytes. Whether it had any.
    fn poll(&mut self, ctx: &mut Ctx<'_>, at: usize, share: u64) -> bool {
        let port = &mut self.queues.list[at];
        if port.told || core::mem::take(&mut port.silent) || port.resting {
            return false;
        }
        if port.debt >= share {
            port.debt -= share;
            return true;
        }
        let share = share - core::mem::take(&mut port.debt);
        let quota =
            Quota { packets: ctx.budget.packets.min(ctx.packets.free()), bytes: share.min(ctx.budget.bytes) };
        let at = &ctx.counters.rounds.at;
        at.receives(port.interface);
        let received = port.rx.receive(ctx.tier, ctx.packets, port.interface, quota);
        at.returned();
        let received = match received {
            Ok(received) => received,
            Err(fault) => {
                // Told until there was room for it, and then never again: others need the queue of events, too.
                let (interface, queue, attachment) = (port.interface, port.queue, port.attachment);
                port.told = ctx.tell(Event::RxFault { interface, queue, attachment, fault });
                return false;
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
            return false;
        }
        port.silence = 0;
        port.pending = true;
        port.debt = received.bytes.saturating_sub(share);
        ctx.budget.packets -= n.min(ctx.budget.packets);
        ctx.budget.bytes = ctx.budget.bytes.saturating_sub(received.bytes);
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
        true
    }
}
