//! Telling ICMP messages apart by type, the same for both versions.

use crate::ip::family::{Family, V4, V6};
use core::fmt;
use core::marker::PhantomData;
use graph::packet::{Packets, SlotId};
use graph::{Ctx, Frame, Node, NodeContext};
use wire::{Header, Icmpv4Header, Icmpv6Header};

graph::drops! {
    /// Why a message has no effect.
    pub(super) enum Drop {
        /// The packet is shorter than an ICMP header.
        TooShort => "too-short", Invalid,
        /// An error about a packet of ours (an echo reply, another error): there is nothing to be done about it.
        ErrorReport => "error-report", Info,
        /// Nothing here takes messages of this type.
        UnknownType => "unknown-type", Info,
    }
}

/// ICMP of an IP version.
pub(super) trait Messages: Family {
    /// What a message begins with.
    type Message: Header;

    /// The type's number.
    fn number(message: &Self::Message) -> u8;

    /// Whether it reports an error.
    fn is_error(message: &Self::Message) -> bool;

    /// Type and code in words.
    fn describe(message: &Self::Message, out: &mut dyn fmt::Write) -> fmt::Result;
}

impl Messages for V4 {
    type Message = Icmpv4Header;

    fn number(message: &Icmpv4Header) -> u8 {
        message.kind.0
    }

    fn is_error(message: &Icmpv4Header) -> bool {
        message.kind.is_error()
    }

    fn describe(message: &Icmpv4Header, out: &mut dyn fmt::Write) -> fmt::Result {
        write!(out, "{} code {}", message.kind, message.code)
    }
}

impl Messages for V6 {
    type Message = Icmpv6Header;

    fn number(message: &Icmpv6Header) -> u8 {
        message.kind.0
    }

    fn is_error(message: &Icmpv6Header) -> bool {
        message.kind.is_error()
    }

    fn describe(message: &Icmpv6Header, out: &mut dyn fmt::Write) -> fmt::Result {
        write!(out, "{} code {}", message.kind, message.code)
    }
}

/// One worker's instance.
pub(super) struct Input<F> {
    /// By message type.
    edges: [u8; 256],
    family: PhantomData<F>,
}

impl<F: Messages> Input<F> {
    /// The node whose children have attached themselves by message type.
    pub(super) fn boxed(cx: &NodeContext<'_>) -> Box<dyn Node> {
        Box::new(Self { edges: crate::local::edges(cx), family: PhantomData })
    }
}

impl<F: Messages> Node for Input<F> {
    fn process(&mut self, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>) {
        frame.each(|slot| {
            let at = ctx.packets.meta(slot).l4;
            let Some(message) = ctx.packets.header::<F::Message>(slot, at) else {
                return ctx.drop(slot, Drop::TooShort);
            };
            match self.edges[usize::from(F::number(message))] {
                0 if F::is_error(message) => ctx.drop(slot, Drop::ErrorReport),
                0 => ctx.drop(slot, Drop::UnknownType),
                edge => edge,
            }
        });
    }

    fn trace(&self, packets: &Packets, slot: SlotId, out: &mut dyn fmt::Write) -> fmt::Result {
        match packets.header::<F::Message>(slot, packets.meta(slot).l4) {
            Some(message) => F::describe(message, out),
            None => out.write_str("too short"),
        }
    }
}
