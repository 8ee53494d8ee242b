//! `icmp4-input`: ICMP messages to one of our addresses, told apart by type.
//!
//! | edge | packets |
//! |---|---|
//! | *child by message type* | all others end here |
//! | `drop` | see [`Drop`] |

use core::fmt;
use graph::packet::{Packets, SlotId};
use graph::{Attach, Ctx, Frame, Node, NodeContext, NodeSpec};
use wire::{Icmpv4Header, IpProtocol};

graph::edges! {
    /// Where a packet goes from here, besides the children.
    pub enum Next { Drop => "drop" }
}

graph::drops! {
    /// Why a message has no effect.
    pub enum Drop {
        /// The packet is shorter than an ICMP header.
        TooShort => "too-short", Error,
        /// An error about a packet of ours (an echo reply, another error): there is nothing to be done about it.
        ErrorReport => "error-report", Info,
        /// Nothing here takes messages of this type.
        UnknownType => "unknown-type", Info,
    }
}

/// The node's declaration.
pub const NODE: NodeSpec = NodeSpec {
    name: "icmp4-input",
    help: "Tells ICMP messages to us apart by type.",
    edges: Next::NAMES,
    drops: Drop::SPECS,
    attach: &[Attach { parent: "ip4-local", key: IpProtocol::ICMP.0 as u32 }],
    make: |cx: &NodeContext<'_>| Box::new(Icmp4Input { edges: crate::local::edges(cx) }),
    ..NodeSpec::EMPTY
};

struct Icmp4Input {
    /// By message type.
    edges: [u8; 256],
}

impl Node for Icmp4Input {
    fn process(&mut self, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>) {
        frame.each(|slot| {
            let at = ctx.packets.meta(slot).l4;
            let Some(header) = ctx.packets.header::<Icmpv4Header>(slot, at) else {
                return ctx.drop(slot, Drop::TooShort);
            };
            match self.edges[usize::from(header.kind.0)] {
                0 if header.kind.is_error() => ctx.drop(slot, Drop::ErrorReport),
                0 => ctx.drop(slot, Drop::UnknownType),
                edge => edge,
            }
        });
    }

    fn trace(&self, packets: &Packets, slot: SlotId, out: &mut dyn fmt::Write) -> fmt::Result {
        match packets.header::<Icmpv4Header>(slot, packets.meta(slot).l4) {
            Some(header) => write!(out, "{} code {}", header.kind, header.code),
            None => out.write_str("too short"),
        }
    }
}
