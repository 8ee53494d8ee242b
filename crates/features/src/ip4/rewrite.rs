//! `ip4-rewrite`: the last step of forwarding: time to live, MTU, link-layer header.
//!
//! | edge | packets |
//! |---|---|
//! | *arc `interface-output`* | by the interface of their next hop |
//! | `icmp4-error` | time to live used up; too big, and must not be fragmented |
//! | `ip4-fragment` | too big otherwise |
//! | `drop` | see [`Drop`] |
//!
//! What was made here ([`LOCAL`](graph::packet::Flags::LOCAL)) leaves with the time to live it was made with.

use super::quick;
use crate::ip::NextHopKind;
use crate::ip::family::V4;
use crate::ip::rewrite::{Forwards, Rewrite, Unsent};
use graph::nodes::INTERFACE_OUTPUT;
use graph::{Attach, NodeSpec};
use wire::ipv4::{Ipv4Flags, Ipv4Header};

graph::edges! {
    /// Where packets go besides the arc.
    enum Next {
        Drop => "drop",
        IcmpError => "icmp4-error",
        Fragment => "ip4-fragment",
    }
}

graph::drops! {
    /// Why a packet with a next hop isn't sent.
    pub(crate) enum Drop {
        /// The interface to leave by is down.
        InterfaceDown => "interface-down", Loss,
        /// The next hop has changed since the lookup.
        StaleNextHop => "stale-next-hop", Loss,
        /// The time to live was used up; the sender is told. Many of them: a routing loop, or a traceroute.
        TtlExpired => "ttl-expired", Loss,
        /// The packet is larger than the MTU of its next hop and must not be fragmented; the sender is told.
        TooBig => "too-big", Loss,
        /// There is no room for the link-layer header before the packet.
        NoHeadroom => "no-headroom", Bug,
    }
}

impl From<Unsent> for Drop {
    fn from(unsent: Unsent) -> Self {
        match unsent {
            Unsent::InterfaceDown => Self::InterfaceDown,
            Unsent::StaleNextHop | Unsent::BeyondScope => Self::StaleNextHop,
            Unsent::HopsUsedUp => Self::TtlExpired,
            Unsent::TooBig => Self::TooBig,
            Unsent::NoHeadroom => Self::NoHeadroom,
        }
    }
}

impl Forwards for V4 {
    type Drop = Drop;

    const ICMP_ERROR: u8 = Next::IcmpError.edge();
    const FRAGMENT: u8 = Next::Fragment.edge();

    #[inline(always)]
    fn take_hop(header: &mut Self::Bytes) -> bool {
        quick::take_hop(header)
    }

    #[inline(always)]
    fn count_hop(header: &mut Ipv4Header) {
        header.decrement_ttl();
    }

    /// Link-local addresses of IPv4 are told apart by routes alone.
    #[inline(always)]
    fn is_of_one_link(_: &Ipv4Header) -> bool {
        false
    }

    fn may_be_cut(header: &Ipv4Header, _: bool) -> bool {
        !header.flags().contains(Ipv4Flags::DONT_FRAGMENT)
    }
}

/// The node's declaration.
pub const NODE: NodeSpec = NodeSpec {
    name: "ip4-rewrite",
    help: "Forwards IPv4 packets: time to live, MTU, link-layer header.",
    edges: Next::NAMES,
    drops: Drop::SPECS,
    attach: &[Attach { parent: "ip4-lookup", key: NextHopKind::Rewrite as u32 }],
    starts: &[INTERFACE_OUTPUT],
    make: Rewrite::<V4>::boxed,
    ..NodeSpec::EMPTY
};
