//! `icmp4-echo`: answers echo requests (RFC 792, RFC 1122 section 3.2.2.6).
//!
//! | edge | packets |
//! |---|---|
//! | `ip4-lookup` | the reply |
//! | `drop` | see [`Drop`] |
//!
//! The request becomes the reply: addresses are exchanged, the checksum changes with the type alone. The data is neither
//! read nor copied; where it was damaged on the way here, the checksum says so to whoever asked.

use super::HOPS;
use super::own::make_own;
use crate::interface::Interfaces;
use core::fmt;
use graph::packet::{Packets, SlotId};
use graph::publish::Key;
use graph::{Attach, Ctx, Frame, Node, NodeContext, NodeSpec};
use wire::ipv4::{Ipv4Class, Ipv4Kind};
use wire::{Header, Icmpv4Header, Icmpv4Type, Ipv4Header, U16};

graph::edges! {
    /// Where a packet goes from here.
    pub enum Next { Drop => "drop", Lookup => "ip4-lookup" }
}

graph::drops! {
    /// Why a request isn't answered.
    pub enum Drop {
        /// The request was sent to a group or broadcast address, whose stations would all answer at once.
        Group => "group", Info,
        /// The headers don't lie in the head of the packet.
        BadPacket => "bad-packet", Invalid,
    }
}

graph::counters! {
    /// What is counted.
    pub enum Counter {
        /// Replies sent.
        Replies => "replies",
    }
}

/// The node's declaration.
pub const NODE: NodeSpec = NodeSpec {
    name: "icmp4-echo",
    help: "Answers ICMP echo requests.",
    edges: Next::NAMES,
    drops: Drop::SPECS,
    counters: Counter::SPECS,
    attach: &[Attach { parent: "icmp4-input", key: Icmpv4Type::ECHO_REQUEST.0 as u32 }],
    make: |cx: &NodeContext<'_>| Box::new(Icmp4Echo { interfaces: cx.table() }),
    ..NodeSpec::EMPTY
};

struct Icmp4Echo {
    interfaces: Key<Interfaces>,
}

impl Node for Icmp4Echo {
    fn process(&mut self, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>) {
        let interfaces = ctx.tables.get(self.interfaces);
        let mut replies = 0;
        frame.each(|slot| match reply(ctx.packets, slot) {
            Ok(()) => {
                make_own(ctx.packets.meta_mut(slot), interfaces);
                replies += 1;
                Next::Lookup.edge()
            }
            Err(reason) => ctx.drop(slot, reason),
        });
        ctx.count(Counter::Replies, replies);
    }

    fn trace(&self, packets: &Packets, slot: SlotId, out: &mut dyn fmt::Write) -> fmt::Result {
        match packets.header::<Icmpv4Header>(slot, packets.meta(slot).l4) {
            Some(header) => write!(out, "id {} sequence {}", header.echo_id(), header.echo_sequence()),
            None => Ok(()),
        }
    }
}

/// Turns a request into its reply.
fn reply(packets: &mut Packets, slot: SlotId) -> Result<(), Drop> {
    let (meta, area) = packets.parts_mut(slot);
    let headers = area.get_mut(meta.l3 as usize..meta.end as usize).ok_or(Drop::BadPacket)?;
    let (ip, rest) = Ipv4Header::parse_mut(headers).map_err(|_| Drop::BadPacket)?;
    if !matches!(ip.dst().kind(), Ipv4Kind::Unicast | Ipv4Kind::LinkLocal) {
        return Err(Drop::Group);
    }
    let options = ip.header_len().saturating_sub(Ipv4Header::LEN);
    let (options, icmp) = rest.split_at_mut_checked(options).ok_or(Drop::BadPacket)?;
    let (icmp, _) = Icmpv4Header::parse_mut(icmp).map_err(|_| Drop::BadPacket)?;
    icmp.turn_into_reply();
    core::mem::swap(&mut ip.src, &mut ip.dst);
    ip.ttl = HOPS;
    ip.checksum = U16::new(ip.compute_checksum(options));
    meta.data = meta.l3;
    Ok(())
}
