//! `ip4-input`: what RFC 1812 section 5.2.2 asks of a router before it believes an IPv4 header.
//!
//! | edge | packets |
//! |---|---|
//! | *arc `ip4-unicast`* | unicast, cut to the length that the header says, with the VRF of their interface |
//! | `ip4-local` | broadcasts and link-local groups |
//! | `icmp4-error` | broken options |
//! | `drop` | see [`Drop`] |
//!
//! The time to live is looked at when the packet is forwarded.
//!
//! Options cost a packet the fast path and nothing else: record route and timestamp pass unfilled, source routes are
//! refused (RFC 7126 section 4.3).

use super::quick;
use crate::icmp::request_v4;
use crate::ip::Arrival;
use crate::ip::family::V4;
use crate::ip::input::{Arrived, Arrives, Input};
use core::net::Ipv4Addr;
use graph::packet::{Flags, SlotId};
use graph::{Attach, Ctx, NodeSpec};
use wire::ipv4::{Ipv4Class, Ipv4Header, Ipv4Kind, Ipv4Reason};
use wire::{EtherType, Header, Icmpv4Error, IpProtocol};

graph::edges! {
    /// Where packets go besides the arc.
    enum Next {
        Drop => "drop",
        Local => "ip4-local",
        IcmpError => "icmp4-error",
    }
}

graph::drops! {
    /// Why an IPv4 packet isn't believed.
    enum Drop {
        /// The packet is shorter than its header.
        TooShort => "too-short", Invalid,
        /// The version field is not 4.
        BadVersion => "bad-version", Invalid,
        /// The header length field is below five words.
        BadHeaderLength => "bad-header-length", Invalid,
        /// The total length is below the header's or above what arrived.
        BadTotalLength => "bad-total-length", Invalid,
        /// The header checksum is wrong.
        BadChecksum => "bad-checksum", Invalid,
        /// The source address must not occur on a wire (RFC 1812 section 5.3.7).
        MartianSource => "martian-source", Loss,
        /// The destination address must not occur on a wire (RFC 1812 section 5.3.7).
        MartianDestination => "martian-destination", Loss,
        /// The packet wants to choose its own way (source route option), which is refused.
        SourceRoute => "source-route", Loss,
        /// A multicast group that nobody here listens to: multicast isn't routed.
        Multicast => "multicast", Info,
        /// A unicast packet in a broadcast or multicast frame must not be forwarded (RFC 1812 section 5.3.4).
        LinkBroadcast => "link-broadcast", Info,
        /// IPv4 isn't enabled on the interface.
        NotEnabled => "not-enabled", Loss,
        /// The header's options are broken; the sender is told.
        BadOptions => "bad-options", Invalid,
    }
}

graph::counters! {
    /// What is counted.
    enum Counter {
        /// Packets with header options.
        Options => "options",
    }
}

impl Arrives for V4 {
    #[inline(always)]
    fn passes(header: &Self::Bytes) -> bool {
        quick::passes(header)
    }

    #[inline(always)]
    fn length(header: &Self::Bytes) -> u32 {
        quick::length(header)
    }

    #[inline(always)]
    fn ordinary(header: &Ipv4Header, len: u32) -> bool {
        let total_len = Self::total_len(header);
        (header.version_ihl == Ipv4Header::VERSION_IHL)
            & (total_len >= Ipv4Header::LEN as u32)
            & (total_len <= len)
            & header.verify_checksum(&[])
            & unicast(header.src)
            & unicast(header.dst)
    }

    #[inline(always)]
    fn total_len(header: &Ipv4Header) -> u32 {
        header.total_len.get().into()
    }

    #[inline(always)]
    fn leads_to_transport(header: &Ipv4Header) -> bool {
        !header.is_later_fragment()
    }

    /// Looks in the order in which RFC 1812 asks.
    #[cold]
    #[inline(never)]
    fn unusual(ctx: &mut Ctx<'_>, slot: SlotId, lane: &Arrival) -> u8 {
        unusual(ctx, slot, lane)
    }
}

/// Neither 0/8, 127/8 nor 224/3.
#[inline(always)]
fn unicast([octet, ..]: [u8; 4]) -> bool {
    (octet != 0) & (octet != 127) & (octet < 224)
}

fn unusual(ctx: &mut Ctx<'_>, slot: SlotId, lane: &Arrival) -> u8 {
    let meta = ctx.packets.meta(slot);
    let (at, len, group) = (meta.l3, meta.len(), meta.flags.has(Flags::GROUP));
    let (header, options) = match Ipv4Header::check(ctx.packets.head(slot), len as usize) {
        Ok((header, options)) => (*header, options),
        Err(reason) => return ctx.drop(slot, refusal(reason)),
    };
    let mut source_route = false;
    let mut broken = None;
    for option in options {
        match option {
            Ok(option) => source_route |= option.is_source_route(),
            Err(offset) => broken = Some(offset),
        }
    }
    ctx.packets.truncate(slot, u32::from(header.total_len.get()));
    let header_len = header.header_len() as u16;
    ctx.packets.meta_mut(slot).l4 = if header.is_later_fragment() { 0 } else { at + header_len };
    if lane.edge == 0 {
        return ctx.drop(slot, Drop::NotEnabled);
    }
    if let Err(reason) = believed(&header) {
        return ctx.drop(slot, reason);
    }
    if header_len > Ipv4Header::LEN as u16 {
        ctx.count(Counter::Options, 1);
    }
    if source_route {
        return ctx.drop(slot, Drop::SourceRoute);
    }
    match for_all(&header) {
        Ok(true) => return Next::Local.edge(),
        Err(reason) => return ctx.drop(slot, reason),
        Ok(false) if group => return ctx.drop(slot, Drop::LinkBroadcast),
        Ok(false) => {}
    }
    if let Some(pointer) = broken {
        let error = Icmpv4Error::ParameterProblem { pointer: pointer as u8 };
        request_v4(ctx.packets.meta_mut(slot), error);
        return ctx.refuse(slot, Drop::BadOptions, Next::IcmpError.edge());
    }
    lane.edge
}

/// Whether such addresses may come in.
fn believed(header: &Ipv4Header) -> Result<(), Drop> {
    // A host that asks for its address has none yet, and asks all.
    let asks = header.src().kind() == Ipv4Kind::Unspecified && header.dst().kind() == Ipv4Kind::Broadcast;
    if asks { Ok(()) } else { header.check_martians().map_err(refusal) }
}

/// Whether the packet is for all on its link, and so for us.
fn for_all(header: &Ipv4Header) -> Result<bool, Drop> {
    match header.dst().kind() {
        Ipv4Kind::Broadcast | Ipv4Kind::LinkLocalMulticast => Ok(true),
        Ipv4Kind::Multicast => Err(Drop::Multicast),
        _ => Ok(false),
    }
}

/// What the node makes of these addresses, in an ordinary packet.
pub(crate) fn arrives(source: Ipv4Addr, destination: Ipv4Addr) -> Arrived {
    let header = Ipv4Header::new(source, destination, IpProtocol::UDP, 64, Ipv4Header::LEN as u16);
    match believed(&header).and_then(|()| for_all(&header)) {
        Ok(true) => Arrived::Local,
        Ok(false) => Arrived::Routed,
        Err(reason) => Arrived::Dropped(Drop::SPECS[reason as usize].name),
    }
}

fn refusal(reason: Ipv4Reason) -> Drop {
    match reason {
        Ipv4Reason::TooShort | Ipv4Reason::HeadTooShort => Drop::TooShort,
        Ipv4Reason::BadVersion => Drop::BadVersion,
        Ipv4Reason::BadHeaderLength => Drop::BadHeaderLength,
        Ipv4Reason::BadTotalLength => Drop::BadTotalLength,
        Ipv4Reason::BadChecksum => Drop::BadChecksum,
        Ipv4Reason::MartianSource => Drop::MartianSource,
        Ipv4Reason::MartianDestination => Drop::MartianDestination,
    }
}

/// The node's declaration.
pub const NODE: NodeSpec = NodeSpec {
    name: "ip4-input",
    help: "Checks IPv4 headers.",
    edges: Next::NAMES,
    drops: Drop::SPECS,
    counters: Counter::SPECS,
    attach: &[
        Attach { parent: "ethernet-input", key: EtherType::IPV4.get() as u32 },
        Attach { parent: "l3-input", key: 4 },
    ],
    starts: &[super::UNICAST],
    make: |cx| Input::<V4>::boxed(cx, super::UNICAST),
    ..NodeSpec::EMPTY
};
