//! `ip6-rewrite`: the last step of forwarding: hop limit, MTU, link-layer header.
//!
//! | edge | packets |
//! |---|---|
//! | *arc `interface-output`* | by the interface of their next hop |
//! | `ip6-fragment` | too big, and made here |
//! | `icmp6-error` | hop limit used up; too big; leaving the scope of their source address |
//! | `drop` | see [`Drop`] |
//!
//! What was made here ([`LOCAL`](graph::packet::Flags::LOCAL)) leaves with the hop limit it was made with. Routers don't cut packets of
//! others (RFC 8200 section 5).

use super::quick;
use crate::ip::NextHopKind;
use crate::ip::family::V6;
use crate::ip::rewrite::{Forwards, Rewrite, Unsent};
use graph::nodes::INTERFACE_OUTPUT;
use graph::{Attach, NodeSpec};
use wire::Ipv6Header;

graph::edges! {
    /// Where packets go besides the arc.
    enum Next {
        Drop => "drop",
        IcmpError => "icmp6-error",
        Fragment => "ip6-fragment",
    }
}

graph::drops! {
    /// Why a packet with a next hop isn't sent.
    pub(crate) enum Drop {
        /// The interface to leave by is down.
        InterfaceDown => "interface-down", Loss,
        /// The next hop has changed since the lookup.
        StaleNextHop => "stale-next-hop", Loss,
        /// The hop limit was used up; the sender is told. Many of them: a routing loop, or a traceroute.
        HopLimitExpired => "hop-limit-expired", Loss,
        /// The packet is larger than the MTU of its next hop; the sender is told.
        TooBig => "too-big", Loss,
        /// The source address is link-local and the way leads beyond its link (RFC 4291 section 2.5.6); the sender is told.
        BeyondScope => "beyond-scope", Loss,
        /// There is no room for the link-layer header before the packet.
        NoHeadroom => "no-headroom", Bug,
    }
}

impl From<Unsent> for Drop {
    fn from(unsent: Unsent) -> Self {
        match unsent {
            Unsent::InterfaceDown => Self::InterfaceDown,
            Unsent::StaleNextHop => Self::StaleNextHop,
            Unsent::HopsUsedUp => Self::HopLimitExpired,
            Unsent::TooBig => Self::TooBig,
            Unsent::BeyondScope => Self::BeyondScope,
            Unsent::NoHeadroom => Self::NoHeadroom,
        }
    }
}

impl Forwards for V6 {
    type Drop = Drop;

    const ICMP_ERROR: u8 = Next::IcmpError.edge();
    const FRAGMENT: u8 = Next::Fragment.edge();

    #[inline(always)]
    fn take_hop(header: &mut Self::Bytes) -> bool {
        quick::take_hop(header)
    }

    #[inline(always)]
    fn count_hop(header: &mut Ipv6Header) {
        header.decrement_hop_limit();
    }

    #[inline(always)]
    fn is_of_one_link(header: &Ipv6Header) -> bool {
        (header.src[0] == 0xfe) & (header.src[1] & 0xc0 == 0x80)
    }

    fn may_be_cut(_: &Ipv6Header, local: bool) -> bool {
        local
    }
}

/// The node's declaration.
pub const NODE: NodeSpec = NodeSpec {
    name: "ip6-rewrite",
    help: "Forwards IPv6 packets: hop limit, MTU, link-layer header.",
    edges: Next::NAMES,
    drops: Drop::SPECS,
    attach: &[Attach { parent: "ip6-lookup", key: NextHopKind::Rewrite as u32 }],
    starts: &[INTERFACE_OUTPUT],
    make: Rewrite::<V6>::boxed,
    ..NodeSpec::EMPTY
};
