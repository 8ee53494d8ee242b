//! Output node of a kind of port: hands packets to the transmit queues of their interfaces.

use crate::context::{Ctx, Frame};
use crate::counters::IfCounters;
use crate::node::{Node, NodeContext, NodeKind, NodeSpec};
use crate::port::{Reasons, Sent, Stop};
use memory::packet::{Flags, Packets, SlotId};

/// The arc that every packet takes to leave by an interface: whoever has set `tx_if` begins it, and it ends at the output
/// node of the interface's kind of port (or where a stacked interface hands on to the one below).
pub const INTERFACE_OUTPUT: &str = "interface-output";

crate::drops! {
    /// Why a packet isn't sent.
    pub enum Drop {
        /// The interface's link is down: no peer is connected, or the device is gone.
        LinkDown => "link-down", Loss,
        /// The receiver is too slow: its ring or device queue is full.
        RingFull => "ring-full", Loss,
        /// The device takes no packet like this: it is too long for it, or malformed.
        Refused => "refused", Invalid,
        /// Its sender took away the memory it lies in before it was sent.
        Unreadable => "unreadable", Invalid,
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
            let mut flags = Flags::NONE;
            let same = |slot: &&SlotId| {
                let meta = ctx.packets.meta(**slot);
                flags.set(meta.flags);
                meta.tx_if == interface
            };
            let run = rest.iter().take_while(same).count();
            let groups = flags.has(Flags::GROUP);
            send(ctx, interface, &rest[..run], groups);
            at += run;
        }
    }
}

/// Sends packets that leave by the same interface. One that the queue can't take is dropped, and those behind it tried.
/// `groups`: some may be for groups.
fn send(ctx: &mut Ctx<'_>, interface: u16, mut slots: &[SlotId], groups: bool) {
    while !slots.is_empty() {
        let at = &ctx.counters.rounds.at;
        let (sent, later, reason) = match ctx.ports.get(interface) {
            None => (Sent::default(), false, Drop::LinkDown),
            Some(queue) => {
                at.sends(interface);
                let sent = queue.send(ctx.tier, ctx.packets, slots);
                at.returned();
                match sent {
                    Ok(sent) => (sent, queue.completes(), reason(sent.stop)),
                    Err(fault) => {
                        ctx.ports.failed(interface, fault);
                        (Sent::default(), false, Drop::LinkDown)
                    }
                }
            }
        };
        let counters = ctx.counters.interface(interface);
        if sent.packets > 0 {
            ctx.ports.touched(interface);
            if later {
                // Counted when the device has taken them.
                let id = |reason: Drop| ctx.drop_id(reason);
                let reasons = Reasons {
                    full: id(Drop::RingFull),
                    refused: id(Drop::Refused),
                    down: id(Drop::LinkDown),
                };
                ctx.ports.sends_later(interface, reasons);
            } else {
                counters.tx_packets.add(sent.packets as u64);
                counters.tx_bytes.add(sent.bytes);
            }
            if groups {
                count_groups(ctx.packets, counters, slots.get(..sent.packets).unwrap_or_default());
            }
        }
        let left = slots.get(sent.packets..).unwrap_or_default();
        let lost = match reason {
            Drop::Refused | Drop::Unreadable => left.len().min(1),
            _ => left.len(),
        };
        let (lost, rest) = left.split_at(lost);
        if !lost.is_empty() {
            counters.tx_drops.add(lost.len() as u64);
            counters.tx_errors.add(if reason == Drop::Refused { lost.len() as u64 } else { 0 });
        }
        for slot in lost {
            let edge = ctx.drop(*slot, reason);
            ctx.emit(edge, *slot);
        }
        slots = rest;
    }
}

/// Counts frames to groups. What is flagged begins with its Ethernet header, for routers let no such packet pass.
#[cold]
fn count_groups(packets: &Packets, counters: &IfCounters, slots: &[SlotId]) {
    for slot in slots {
        if packets.meta(*slot).flags.has(Flags::GROUP) {
            counters.sent_to_group(packets.head(*slot));
        }
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
