//! `ip6-input`: what a router checks before it believes an IPv6 header (RFC 8200, RFC 4291).
//!
//! | edge | packets |
//! |---|---|
//! | *arc `ip6-unicast`* | unicast, cut to the length that the header says |
//! | `ip6-local` | to groups of the link: neighbour discovery, listener reports |
//! | `icmp6-error` | hop-by-hop options that aren't the first extension header |
//! | `drop` | see [`Drop`] |
//!
//! Extension headers cost a packet the fast path and nothing else. A router has no business with them (hop-by-hop options
//! are passed on unseen, RFC 8200 section 4); they are walked through for the place of the transport header. Where it
//! can't be found within the head the packet is forwarded all the same.

use super::quick;
use crate::icmp::request_v6;
use crate::ip::Arrival;
use crate::ip::family::V6;
use crate::ip::input::{Arrived, Arrives, Input};
use core::net::Ipv6Addr;
use graph::packet::{Flags, SlotId};
use graph::{Attach, Ctx, NodeSpec};
use wire::ipv6::{
    ExtensionHeader, Ipv6Class, Ipv6Header, Ipv6Kind, Ipv6Option, Ipv6Options, MulticastScope, walk,
};
use wire::{EtherType, Header, Icmpv6Error, IpProtocol, Ipv6Reason};

graph::edges! {
    /// Where packets go besides the arc.
    enum Next {
        Drop => "drop",
        Local => "ip6-local",
        IcmpError => "icmp6-error",
    }
}

graph::drops! {
    /// Why an IPv6 packet isn't believed.
    enum Drop {
        /// The packet is shorter than its header.
        TooShort => "too-short", Invalid,
        /// The version field is not 6.
        BadVersion => "bad-version", Invalid,
        /// The payload length is above what arrived.
        BadPayloadLength => "bad-payload-length", Invalid,
        /// The source address must not occur on a wire (RFC 4291).
        MartianSource => "martian-source", Loss,
        /// The destination address must not occur on a wire (RFC 4291).
        MartianDestination => "martian-destination", Loss,
        /// A jumbogram (RFC 2675): packets above 65575 bytes aren't supported.
        Jumbo => "jumbo", Loss,
        /// An extension header goes beyond the packet.
        BadExtension => "bad-extension", Invalid,
        /// A multicast group beyond the link: multicast isn't routed.
        Multicast => "multicast", Info,
        /// A unicast packet in a broadcast or multicast frame is not for us to forward.
        LinkBroadcast => "link-broadcast", Info,
        /// IPv6 isn't enabled on the interface.
        NotEnabled => "not-enabled", Loss,
        /// Hop-by-hop options come behind another header; the sender is told.
        MisplacedHopByHop => "misplaced-hop-by-hop", Invalid,
    }
}

graph::counters! {
    /// What is counted.
    enum Counter {
        /// Packets with extension headers.
        Extensions => "extensions",
    }
}

impl Arrives for V6 {
    #[inline(always)]
    fn passes(header: &Self::Bytes) -> bool {
        quick::passes(header)
    }

    #[inline(always)]
    fn length(header: &Self::Bytes) -> u32 {
        quick::length(header)
    }

    #[inline(always)]
    fn ordinary(header: &Ipv6Header, len: u32) -> bool {
        (header.version() == 6)
            & (Self::total_len(header) <= len)
            & !header.next_header.is_extension()
            & unicast(&header.src)
            & unicast(&header.dst)
    }

    #[inline(always)]
    fn total_len(header: &Ipv6Header) -> u32 {
        header.total_len() as u32
    }

    /// Fragments have an extension header: they aren't ordinary.
    #[inline(always)]
    fn leads_to_transport(_: &Ipv6Header) -> bool {
        true
    }

    #[cold]
    #[inline(never)]
    fn unusual(ctx: &mut Ctx<'_>, slot: SlotId, lane: &Arrival) -> u8 {
        unusual(ctx, slot, lane)
    }
}

/// Neither in `ff00::/8` nor in `::/16`, where everything lies that must not be on a wire.
#[inline(always)]
fn unicast(address: &[u8; 16]) -> bool {
    (address[0] != 0xff) & ((address[0] | address[1]) != 0)
}

fn unusual(ctx: &mut Ctx<'_>, slot: SlotId, lane: &Arrival) -> u8 {
    let meta = ctx.packets.meta(slot);
    let (at, len, group) = (meta.l3, meta.len(), meta.flags.has(Flags::GROUP));
    let header = match Ipv6Header::check(ctx.packets.head(slot), len as usize) {
        Ok(header) => *header,
        Err(reason) => return ctx.drop(slot, refusal(reason)),
    };
    if header.payload_len.get() == 0 && is_jumbo(ctx.packets.head(slot)) {
        return ctx.drop(slot, Drop::Jumbo);
    }
    ctx.packets.truncate(slot, header.total_len() as u32);
    if lane.edge == 0 {
        return ctx.drop(slot, Drop::NotEnabled);
    }
    if let Err(reason) = believed(&header) {
        return ctx.drop(slot, reason);
    }
    let found = walk(ctx.packets.head(slot));
    if header.next_header.is_extension() {
        ctx.count(Counter::Extensions, 1);
    }
    let misplaced = match found {
        Ok(upper) => {
            let l4 = if upper.is_later_fragment() { 0 } else { at + upper.offset as u16 };
            ctx.packets.meta_mut(slot).l4 = l4;
            None
        }
        Err(error) => {
            ctx.packets.meta_mut(slot).l4 = 0;
            match error.reason {
                Ipv6Reason::HopByHopNotFirst => Some(error.offset as u32),
                // Nothing is wrong with these, they are only more than is looked at.
                Ipv6Reason::HeadTooShort | Ipv6Reason::TooManyExtensions => None,
                _ => return ctx.drop(slot, Drop::BadExtension),
            }
        }
    };
    match for_all(&header) {
        Ok(true) => return Next::Local.edge(),
        Err(reason) => return ctx.drop(slot, reason),
        Ok(false) if group => return ctx.drop(slot, Drop::LinkBroadcast),
        Ok(false) => {}
    }
    if let Some(pointer) = misplaced {
        request_v6(ctx.packets.meta_mut(slot), Icmpv6Error::UnknownNextHeader { pointer });
        return ctx.refuse(slot, Drop::MisplacedHopByHop, Next::IcmpError.edge());
    }
    lane.edge
}

/// Whether such addresses may come in.
fn believed(header: &Ipv6Header) -> Result<(), Drop> {
    header.check_martians().map_err(refusal)?;
    let to_group = matches!(header.dst().kind(), Ipv6Kind::Multicast(_));
    let nobody = header.src().kind() == Ipv6Kind::Unspecified;
    if nobody && !to_group { Err(Drop::MartianSource) } else { Ok(()) }
}

/// Whether the packet is for all of a group on its link, and so for us to look at.
fn for_all(header: &Ipv6Header) -> Result<bool, Drop> {
    match header.dst().kind() {
        Ipv6Kind::Multicast(scope) if scope <= MulticastScope::LINK => Ok(true),
        Ipv6Kind::Multicast(_) => Err(Drop::Multicast),
        _ => Ok(false),
    }
}

/// What the node makes of these addresses, in an ordinary packet.
pub(crate) fn arrives(source: Ipv6Addr, destination: Ipv6Addr) -> Arrived {
    let header = Ipv6Header::new(source, destination, IpProtocol::UDP, 64, 0);
    match believed(&header).and_then(|()| for_all(&header)) {
        Ok(true) => Arrived::Local,
        Ok(false) => Arrived::Routed,
        Err(reason) => Arrived::Dropped(Drop::SPECS[reason as usize].name),
    }
}

/// Whether a packet with payload length 0 has the option that says how long it really is.
fn is_jumbo(head: &[u8]) -> bool {
    let Ok((header, rest)) = Ipv6Header::parse(head) else { return false };
    let Ok((extension, _)) = ExtensionHeader::parse(rest) else { return false };
    let len = (usize::from(extension.len) + 1) * 8;
    let mut options = Ipv6Options::new(rest.get(..len).unwrap_or(rest)).flatten();
    header.next_header == IpProtocol::HOP_BY_HOP
        && options.any(|option| option.kind == Ipv6Option::JUMBO_PAYLOAD)
}

fn refusal(reason: Ipv6Reason) -> Drop {
    match reason {
        Ipv6Reason::TooShort => Drop::TooShort,
        Ipv6Reason::BadVersion => Drop::BadVersion,
        Ipv6Reason::BadPayloadLength => Drop::BadPayloadLength,
        Ipv6Reason::MartianSource => Drop::MartianSource,
        Ipv6Reason::MartianDestination => Drop::MartianDestination,
        _ => Drop::BadExtension,
    }
}

/// The node's declaration.
pub const NODE: NodeSpec = NodeSpec {
    name: "ip6-input",
    help: "Checks IPv6 headers.",
    edges: Next::NAMES,
    drops: Drop::SPECS,
    counters: Counter::SPECS,
    attach: &[
        Attach { parent: "ethernet-input", key: EtherType::IPV6.get() as u32 },
        Attach { parent: "l3-input", key: 6 },
    ],
    starts: &[super::UNICAST],
    make: |cx| Input::<V6>::boxed(cx, super::UNICAST),
    ..NodeSpec::EMPTY
};
