//! Output node of a kind of port: hands packets to the transmit queues of their interfaces.

use crate::context::{Ctx, Frame};
use crate::node::{Node, NodeContext, NodeKind, NodeSpec};
use crate::port::{Sent, Stop};
use memory::packet::SlotId;

/// The arc that every packet takes to leave by an interface: whoever has set `tx_if` begins it, and it ends at the output
/// node of the interface's kind of port (or where a stacked interface hands on to the one below).
pub const INTERFACE_OUTPUT: &str = "interface-output";

crate::drops! {
    /// Why a packet isn't sent.
    pub enum Drop {
        /// The interface's link is down: no peer is connected, or the device is gone.
        LinkDown => "link-down", Warning,
        /// The receiver is too slow: its ring or device queue is full.
        RingFull => "ring-full", Warning,
        /// The device takes no packet like this: it is too long for it, or malformed.
        Refused => "refused", Error,
        /// Its sender took away the memory it lies in before it was sent.
        Unreadable => "unreadable", Error,
    }
}

/// Declares the output node of a kind of port.
#[must_use]
pub const fn port_output(name: &'static str, help: &'static str) -> NodeSpec {
    NodeSpec {
        name,
        help,
        kind: NodeKind::Output,
        edges: &["drop"],
        drops: Drop::SPECS,
        ends: &[INTERFACE_OUTPUT],
        make,
        ..NodeSpec::EMPTY
    }
}

struct Output;

/// Makes an output node.
#[must_use]
pub fn make(_cx: &NodeContext<'_>) -> Box<dyn Node> {
    Box::new(Output)
}

impl Node for Output {
    fn process(&mut self, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>) {
        let mut at = 0;
        while at < frame.slots.len() {
            let interface = ctx.packets.meta(frame.slots[at]).tx_if;
            let rest = &frame.slots[at..];
            let run = rest.iter().take_while(|slot| ctx.packets.meta(**slot).tx_if == interface).count();
            send(ctx, interface, &rest[..run]);
            at += run;
        }
    }
}

/// Sends packets that leave by the same interface. One that the queue can't take is dropped, and those behind it tried.
fn send(ctx: &mut Ctx<'_>, interface: u16, mut slots: &[SlotId]) {
    while !slots.is_empty() {
        let (sent, reason) = match ctx.ports.get(interface) {
            None => (Sent::default(), Drop::LinkDown),
            Some(queue) => match queue.send(ctx.tier, ctx.packets, slots) {
                Ok(sent) => (sent, reason(sent.stop)),
                Err(fault) => {
                    ctx.ports.faults.insert(interface, fault);
                    (Sent::default(), Drop::LinkDown)
                }
            },
        };
        let counters = ctx.counters.interface(interface);
        if sent.packets > 0 {
            counters.tx_packets.add(sent.packets as u64);
            counters.tx_bytes.add(sent.bytes);
            ctx.ports.touched(interface);
        }
        let left = slots.get(sent.packets..).unwrap_or_default();
        let lost = match reason {
            Drop::Refused | Drop::Unreadable => left.len().min(1),
            _ => left.len(),
        };
        let (lost, rest) = left.split_at(lost);
        counters.tx_drops.add(lost.len() as u64);
        for slot in lost {
            let edge = ctx.drop(*slot, reason);
            ctx.emit(edge, *slot);
        }
        slots = rest;
    }
}

const fn reason(stop: Stop) -> Drop {
    match stop {
        Stop::Full => Drop::RingFull,
        Stop::Down => Drop::LinkDown,
        Stop::Refused => Drop::Refused,
        Stop::Unreadable => Drop::Unreadable,
    }
}
