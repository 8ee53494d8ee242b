//! What differs between the two IP versions, for nodes that otherwise do the same.

use super::fibs::VrfTables;
use super::next_hop::ECMP_SEED;
use crate::icmp::{request_v4, request_v6};
use core::mem::offset_of;
use core::net::{IpAddr, Ipv6Addr};
use graph::packet::{HEAD_AREA, Meta, Packets, SlotId};
use tables::fib::{Address, Fib};
use wire::flow::{Ipv4Flow, Ipv6Flow};
use wire::{EtherType, Header, Icmpv4Error, Icmpv6Error, Ipv4Header, Ipv6Header, LinkType};

/// Why a packet gets no further, where its sender may be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// There is no route.
    NoRoute,
    /// The route says that the destination is unreachable, or it doesn't answer.
    Unreachable,
    /// The route says that the destination is administratively prohibited.
    Prohibited,
    /// It has passed as many routers as it may.
    HopsUsedUp,
    /// It is larger than the next link takes, in bytes.
    TooBig {
        /// What that takes.
        mtu: u16,
    },
    /// Its source address says nothing on the next link.
    BeyondScope,
    /// The other fragments of it didn't come.
    NotReassembled,
}

/// An IP version.
pub(crate) trait Family: Send + 'static {
    /// An address in host byte order.
    type Address: Address + Default;

    /// The fixed part of the header.
    type Header: Header + Copy;

    /// Its bytes.
    type Bytes;

    /// Packets that begin with the header.
    const LINK: LinkType;

    /// Ethertype of frames that carry it.
    const ETHERTYPE: EtherType;

    /// Length of the fixed part of the header in bytes.
    const HEADER: u16 = Self::Header::LEN as u16;

    /// The fixed part of the header at position `at` of the head area; `None` where that is too near its end.
    fn bytes_at(area: &[u8; HEAD_AREA], at: u16) -> Option<&Self::Bytes>;

    /// The fixed part of the header at the start of `bytes`, to change.
    fn bytes_mut(bytes: &mut [u8]) -> Option<&mut Self::Bytes>;

    /// The VRF's table.
    fn fib(vrf: &VrfTables) -> &Fib<Self::Address>;

    /// Source address.
    fn src(header: &Self::Header) -> Self::Address;

    /// Destination address.
    fn dst(header: &Self::Header) -> Self::Address;

    /// Time to live or hop limit.
    fn hops(header: &Self::Header) -> u8;

    /// The address, whatever its version.
    fn generic(address: Self::Address) -> IpAddr;

    /// Source address of a packet whose network header is in place; 0 where the head is shorter.
    #[inline(always)]
    fn source(packets: &Packets, slot: SlotId) -> Self::Address {
        let header = packets.header::<Self::Header>(slot, packets.meta(slot).l3);
        header.map_or_else(Self::Address::default, Self::src)
    }

    /// Destination address, likewise.
    #[inline(always)]
    fn destination(packets: &Packets, slot: SlotId) -> Self::Address {
        let header = packets.header::<Self::Header>(slot, packets.meta(slot).l3);
        header.map_or_else(Self::Address::default, Self::dst)
    }

    /// Destination address in the header at position `l3` of the head area; `None` where that is too near its end.
    fn destination_at(area: &[u8; HEAD_AREA], l3: u16) -> Option<Self::Address>;

    /// Hash of the flow of the packet that begins with `head`.
    fn flow_hash(head: &[u8], symmetric: bool) -> u32;

    /// Asks for an ICMP error.
    fn request(meta: &mut Meta, refusal: Refusal);

    /// The address as an IPv6 address, where it can be looked up on its link.
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
    type Header = Ipv4Header;
    type Bytes = [u8; Ipv4Header::LEN];

    const LINK: LinkType = LinkType::IPV4;
    const ETHERTYPE: EtherType = EtherType::IPV4;

    #[inline(always)]
    fn bytes_at(area: &[u8; HEAD_AREA], at: u16) -> Option<&Self::Bytes> {
        area.get(at as usize..).and_then(<[u8]>::first_chunk)
    }

    #[inline(always)]
    fn bytes_mut(bytes: &mut [u8]) -> Option<&mut Self::Bytes> {
        bytes.first_chunk_mut()
    }

    #[inline(always)]
    fn fib(vrf: &VrfTables) -> &Fib<u32> {
        &vrf.v4
    }

    #[inline(always)]
    fn src(header: &Ipv4Header) -> u32 {
        u32::from_be_bytes(header.src)
    }

    #[inline(always)]
    fn dst(header: &Ipv4Header) -> u32 {
        u32::from_be_bytes(header.dst)
    }

    #[inline(always)]
    fn hops(header: &Ipv4Header) -> u8 {
        header.ttl
    }

    fn generic(address: u32) -> IpAddr {
        IpAddr::V4(address.into())
    }

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
            Refusal::Unreachable | Refusal::BeyondScope => Icmpv4Error::HostUnreachable,
            Refusal::Prohibited => Icmpv4Error::AdministrativelyProhibited,
            Refusal::HopsUsedUp => Icmpv4Error::TtlExceeded,
            Refusal::TooBig { mtu } => Icmpv4Error::FragmentationNeeded { mtu },
            Refusal::NotReassembled => Icmpv4Error::ReassemblyTimeExceeded,
        };
        request_v4(meta, error);
    }

    fn scoped(_: u32) -> Option<Ipv6Addr> {
        None
    }
}

impl Family for V6 {
    type Address = u128;
    type Header = Ipv6Header;
    type Bytes = [u8; Ipv6Header::LEN];

    const LINK: LinkType = LinkType::IPV6;
    const ETHERTYPE: EtherType = EtherType::IPV6;

    #[inline(always)]
    fn bytes_at(area: &[u8; HEAD_AREA], at: u16) -> Option<&Self::Bytes> {
        area.get(at as usize..).and_then(<[u8]>::first_chunk)
    }

    #[inline(always)]
    fn bytes_mut(bytes: &mut [u8]) -> Option<&mut Self::Bytes> {
        bytes.first_chunk_mut()
    }

    #[inline(always)]
    fn fib(vrf: &VrfTables) -> &Fib<u128> {
        &vrf.v6
    }

    #[inline(always)]
    fn src(header: &Ipv6Header) -> u128 {
        u128::from_be_bytes(header.src)
    }

    #[inline(always)]
    fn dst(header: &Ipv6Header) -> u128 {
        u128::from_be_bytes(header.dst)
    }

    #[inline(always)]
    fn hops(header: &Ipv6Header) -> u8 {
        header.hop_limit
    }

    fn generic(address: u128) -> IpAddr {
        IpAddr::V6(address.into())
    }

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
            Refusal::HopsUsedUp => Icmpv6Error::HopLimitExceeded,
            Refusal::TooBig { mtu } => Icmpv6Error::PacketTooBig { mtu: mtu.into() },
            Refusal::BeyondScope => Icmpv6Error::BeyondScope,
            Refusal::NotReassembled => Icmpv6Error::ReassemblyTimeExceeded,
        };
        request_v6(meta, error);
    }

    fn scoped(address: u128) -> Option<Ipv6Addr> {
        Some(address.into())
    }
}
