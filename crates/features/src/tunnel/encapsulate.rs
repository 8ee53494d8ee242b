//! The way into a tunnel, the same for both formats: outer headers in front, and off to the other end as a packet of our own.

use super::inner::Inner;
use super::outer::{Outer, Packet};
use super::table::Tunnels;
use crate::interface::{Direction, Tally};
use core::fmt;
use core::net::IpAddr;
use graph::packet::{Flags, HEAD_AREA, Meta, Offload, Packets, SlotId};
use graph::publish::Key;
use graph::{Ctx, Frame, IfIndex, Node, NodeContext};
use wire::checksum::Partial;
use wire::{Header, Ipv4Header, Ipv6Header, UdpHeader};

graph::edges! {
    /// Where a packet goes from here.
    pub enum Next { Drop => "drop", Ip4Lookup => "ip4-lookup", Ip6Lookup => "ip6-lookup" }
}

graph::drops! {
    /// Why a packet isn't sent through its tunnel.
    pub enum Drop {
        /// The tunnel is gone.
        NoTunnel => "no-tunnel", Loss,
        /// The packet has been through a tunnel already: the way to the other end leads into a tunnel, this one or another.
        Recursion => "recursion", Loss,
        /// With the outer headers the packet would be longer than 65535 bytes.
        TooLong => "too-long", Loss,
        /// There is no room left for the outer headers: the packet has too many headers.
        NoHeadroom => "no-headroom", Bug,
        /// There is no memory to sum the packet for its UDP checksum.
        NoRoom => "no-room", Loss,
    }
}

/// One worker's instance.
pub(super) struct Encapsulate {
    tunnels: Key<Tunnels>,
}

impl Encapsulate {
    /// The node.
    pub(super) fn boxed(cx: &NodeContext<'_>) -> Box<dyn Node> {
        Box::new(Self { tunnels: cx.table() })
    }
}

impl Node for Encapsulate {
    fn process(&mut self, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>) {
        let (tables, counters) = (ctx.tables, ctx.counters);
        let tunnels = tables.get(self.tunnels);
        let (mut interface, mut outer): (IfIndex, Option<&Outer>) = (0, None);
        let mut tally = Tally::default();
        frame.each(|slot| {
            let meta = ctx.packets.meta(slot);
            if meta.tx_if != interface {
                interface = meta.tx_if;
                outer = tunnels.outer(interface);
            }
            let (len, to_group) = (meta.len(), meta.flags.has(Flags::GROUP));
            let Some(outer) = outer else { return ctx.drop(slot, Drop::NoTunnel) };
            if let Err(reason) = encapsulate(ctx.packets, slot, outer) {
                return ctx.drop(slot, reason);
            }
            tally.add(counters, Direction::Tx, interface, len);
            if to_group {
                let at = usize::from(ctx.packets.meta(slot).data + outer.len());
                let frame = ctx.packets.area(slot).get(at..).unwrap_or_default();
                counters.interface(interface).sent_to_group(frame);
            }
            if outer.is_v4() { Next::Ip4Lookup.edge() } else { Next::Ip6Lookup.edge() }
        });
        tally.flush(counters, Direction::Tx);
    }

    fn trace(&self, packets: &Packets, slot: SlotId, out: &mut dyn fmt::Write) -> fmt::Result {
        let meta = packets.meta(slot);
        write!(out, "interface {} length {}", meta.tx_if, meta.len())?;
        let Some(udp) = packets.header::<UdpHeader>(slot, meta.l4).filter(|_| meta.l4 > meta.l3) else {
            return Ok(());
        };
        let to: IpAddr = if usize::from(meta.l4 - meta.l3) == Ipv4Header::LEN {
            let Some(ip) = packets.header::<Ipv4Header>(slot, meta.l3) else { return Ok(()) };
            ip.dst().into()
        } else {
            let Some(ip) = packets.header::<Ipv6Header>(slot, meta.l3) else { return Ok(()) };
            ip.dst().into()
        };
        write!(out, " to {to} port {} from port {}", udp.dst_port, udp.src_port)
    }
}

/// Puts the outer headers in front.
fn encapsulate(packets: &mut Packets, slot: SlotId, outer: &Outer) -> Result<(), Drop> {
    let meta = packets.meta(slot);
    if meta.flags.has(Flags::ENCAPSULATED) {
        return Err(Drop::Recursion);
    }
    let len = meta.len();
    let data = meta.data.checked_sub(outer.len()).ok_or(Drop::NoHeadroom)?;
    let inner = Inner::of(packets.head(slot), outer.mode);
    let packet = Packet { len, src_port: inner.src_port(), class: inner.class, protocol: inner.protocol };
    let (meta, area) = packets.parts_mut(slot);
    let room = area.get_mut(data as usize..meta.data as usize).ok_or(Drop::NoHeadroom)?;
    if !outer.write(room, packet) {
        return Err(Drop::TooLong);
    }
    if outer.wants_checksum() {
        sum(packets, slot, outer, data)?;
    }
    send(packets.meta_mut(slot), outer, data);
    Ok(())
}

/// Sums the packet, and writes the UDP checksum of the headers at `data`.
fn sum(packets: &mut Packets, slot: SlotId, outer: &Outer, data: u16) -> Result<(), Drop> {
    // Into private memory: its sender could change it behind the sum.
    let body = Partial::of(packets.pull_body(slot).map_err(|_| Drop::NoRoom)?);
    let (meta, area): (&mut Meta, &mut [u8; HEAD_AREA]) = packets.parts_mut(slot);
    let whole = area.get_mut(data as usize..meta.end as usize).ok_or(Drop::NoHeadroom)?;
    let (headers, head) = whole.split_at_mut_checked(outer.len().into()).ok_or(Drop::NoHeadroom)?;
    outer.finish_checksum(headers, Partial::of(head).plus(body.at(head.len())));
    Ok(())
}

/// The packet is one of our own from now on, to be looked up in the tunnel's VRF.
fn send(meta: &mut Meta, outer: &Outer, data: u16) {
    meta.flags = Flags::LOCAL;
    meta.flags.set(Flags::ENCAPSULATED);
    (meta.data, meta.l2, meta.l3) = (data, data, data);
    meta.l4 = data + outer.ip_len();
    meta.table = outer.vrf;
    (meta.flow_hash, meta.next_hop, meta.offload) = (0, 0, Offload::default());
}
