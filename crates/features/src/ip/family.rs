//! What differs between the two IP versions, for nodes that otherwise do the same.

use super::fibs::VrfTables;
use super::next_hop::ECMP_SEED;
use crate::icmp::{request_v4, request_v6};
use core::mem::offset_of;
use core::net::Ipv6Addr;
use graph::packet::{HEAD_AREA, Meta, Packets, SlotId};
use tables::fib::{Address, Fib};
use wire::flow::{Ipv4Flow, Ipv6Flow};
use wire::{Header, Icmpv4Error, Icmpv6Error, Ipv4Header, Ipv6Header};

/// Why a route leads nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// There is none.
    NoRoute,
    /// It says that the destination is unreachable.
    Unreachable,
    /// It says that the destination is administratively prohibited.
    Prohibited,
}

/// An IP version.
pub(crate) trait Family: Send + 'static {
    /// An address in host byte order.
    type Address: Address + Default;

    /// The VRF's table.
    fn fib(vrf: &VrfTables) -> &Fib<Self::Address>;

    /// Source address of a packet whose network header is in place; 0 where the head is shorter.
    fn source(packets: &Packets, slot: SlotId) -> Self::Address;

    /// Destination address, likewise.
    fn destination(packets: &Packets, slot: SlotId) -> Self::Address;

    /// Length of the fixed part of the header in bytes.
    const HEADER: u16;

    /// Destination address in the header at position `l3` of the head area; `None` where that is too near its end.
    fn destination_at(area: &[u8; HEAD_AREA], l3: u16) -> Option<Self::Address>;

    /// Hash of the flow of the packet that begins with `head`.
    fn flow_hash(head: &[u8], symmetric: bool) -> u32;

    /// Asks for an ICMP error that tells why the destination can't be reached.
    fn request(meta: &mut Meta, refusal: Refusal);

    /// The address as an IPv6 address, where it can be a link-local one.
    fn scoped(address: Self::Address) -> Option<Ipv6Addr>;
}

/// IPv4.
#[derive(Debug)]
pub(crate) struct V4;

/// IPv6.
#[derive(Debug)]
pub(crate) struct V6;

impl Family for V4 {
    type Address = u32;

    #[inline(always)]
    fn fib(vrf: &VrfTables) -> &Fib<u32> {
        &vrf.v4
    }

    #[inline(always)]
    fn source(packets: &Packets, slot: SlotId) -> u32 {
        let header = packets.header::<Ipv4Header>(slot, packets.meta(slot).l3);
        header.map_or(0, |header| u32::from_be_bytes(header.src))
    }

    #[inline(always)]
    fn destination(packets: &Packets, slot: SlotId) -> u32 {
        let header = packets.header::<Ipv4Header>(slot, packets.meta(slot).l3);
        header.map_or(0, |header| u32::from_be_bytes(header.dst))
    }

    const HEADER: u16 = Ipv4Header::LEN as u16;

    #[inline(always)]
    fn destination_at(area: &[u8; HEAD_AREA], l3: u16) -> Option<u32> {
        let bytes = area.get(l3 as usize + offset_of!(Ipv4Header, dst)..)?.first_chunk()?;
        Some(u32::from_be_bytes(*bytes))
    }

    #[inline(always)]
    fn flow_hash(head: &[u8], symmetric: bool) -> u32 {
        Ipv4Flow::of(head)
            .map_or(0, |flow| if symmetric { flow.symmetric_hash(ECMP_SEED) } else { flow.hash(ECMP_SEED) })
    }

    fn request(meta: &mut Meta, refusal: Refusal) {
        let error = match refusal {
            Refusal::NoRoute => Icmpv4Error::NetUnreachable,
            Refusal::Unreachable => Icmpv4Error::HostUnreachable,
            Refusal::Prohibited => Icmpv4Error::AdministrativelyProhibited,
        };
        request_v4(meta, error);
    }

    fn scoped(_: u32) -> Option<Ipv6Addr> {
        None
    }
}

impl Family for V6 {
    type Address = u128;

    #[inline(always)]
    fn fib(vrf: &VrfTables) -> &Fib<u128> {
        &vrf.v6
    }

    #[inline(always)]
    fn source(packets: &Packets, slot: SlotId) -> u128 {
        let header = packets.header::<Ipv6Header>(slot, packets.meta(slot).l3);
        header.map_or(0, |header| u128::from_be_bytes(header.src))
    }

    #[inline(always)]
    fn destination(packets: &Packets, slot: SlotId) -> u128 {
        let header = packets.header::<Ipv6Header>(slot, packets.meta(slot).l3);
        header.map_or(0, |header| u128::from_be_bytes(header.dst))
    }

    const HEADER: u16 = Ipv6Header::LEN as u16;

    #[inline(always)]
    fn destination_at(area: &[u8; HEAD_AREA], l3: u16) -> Option<u128> {
        let bytes = area.get(l3 as usize + offset_of!(Ipv6Header, dst)..)?.first_chunk()?;
        Some(u128::from_be_bytes(*bytes))
    }

    #[inline(always)]
    fn flow_hash(head: &[u8], symmetric: bool) -> u32 {
        Ipv6Flow::of(head)
            .map_or(0, |flow| if symmetric { flow.symmetric_hash(ECMP_SEED) } else { flow.hash(ECMP_SEED) })
    }

    fn request(meta: &mut Meta, refusal: Refusal) {
        let error = match refusal {
            Refusal::NoRoute => Icmpv6Error::NoRoute,
            Refusal::Unreachable => Icmpv6Error::AddressUnreachable,
            Refusal::Prohibited => Icmpv6Error::AdministrativelyProhibited,
        };
        request_v6(meta, error);
    }

    fn scoped(address: u128) -> Option<Ipv6Addr> {
        Some(address.into())
    }
}
