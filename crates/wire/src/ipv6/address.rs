//! Kinds of IPv6 addresses (RFC 4291) and those that are made from others.

use core::net::Ipv6Addr;

use crate::MacAddr;

/// What an address is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ipv6Kind {
    /// `::`, no address yet.
    Unspecified,
    /// `::1`, never on a wire.
    Loopback,
    /// `::ffff:0:0/96`, an IPv4 address inside a program; never on a wire.
    Ipv4Mapped,
    /// `fe80::/10`, never forwarded.
    LinkLocal,
    /// `fc00::/7`, for one site (RFC 4193).
    UniqueLocal,
    /// `ff00::/8`.
    Multicast(MulticastScope),
    /// Everything else.
    Unicast,
}

/// How far a multicast packet goes: the 4-bit scope (RFC 7346).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MulticastScope(pub u8);

impl MulticastScope {
    /// Within one node.
    pub const INTERFACE: Self = Self(1);
    /// On one link; never forwarded.
    pub const LINK: Self = Self(2);
    /// The smallest scope that must be configured.
    pub const ADMIN: Self = Self(4);
    /// One site.
    pub const SITE: Self = Self(5);
    /// Everywhere.
    pub const GLOBAL: Self = Self(14);
}

/// Classification of addresses; a trait because the address type belongs to `core`.
pub trait Ipv6Class {
    /// What the address is good for.
    fn kind(&self) -> Ipv6Kind;

    /// Must not be the source of a packet on a wire. `::` may: duplicate address detection uses it.
    fn is_martian_source(&self) -> bool {
        matches!(self.kind(), Ipv6Kind::Loopback | Ipv6Kind::Ipv4Mapped | Ipv6Kind::Multicast(_))
    }

    /// Must not be the destination of a packet on a wire.
    fn is_martian_destination(&self) -> bool {
        match self.kind() {
            Ipv6Kind::Unspecified | Ipv6Kind::Loopback | Ipv6Kind::Ipv4Mapped => true,
            Ipv6Kind::Multicast(scope) => scope <= MulticastScope::INTERFACE,
            _ => false,
        }
    }

    /// May be forwarded from or to, as a unicast packet.
    fn is_forwardable(&self) -> bool {
        matches!(self.kind(), Ipv6Kind::Unicast | Ipv6Kind::UniqueLocal)
    }

    /// `ff02::1:ff00:0/104`, where neighbour solicitations go.
    fn is_solicited_node(&self) -> bool;
}

/// All nodes of the link (RFC 4291 section 2.7.1).
pub const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
/// All routers of the link (RFC 4291 section 2.7.1).
pub const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);

const SOLICITED_NODE: [u8; 13] = [0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff];

impl Ipv6Class for Ipv6Addr {
    #[inline]
    fn kind(&self) -> Ipv6Kind {
        match self.octets() {
            [0xff, flags_scope, ..] => Ipv6Kind::Multicast(MulticastScope(flags_scope & 0x0f)),
            [0xfe, 0x80..=0xbf, ..] => Ipv6Kind::LinkLocal,
            [0xfc | 0xfd, ..] => Ipv6Kind::UniqueLocal,
            [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, ..] => Ipv6Kind::Ipv4Mapped,
            [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1] => Ipv6Kind::Loopback,
            [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0] => Ipv6Kind::Unspecified,
            _ => Ipv6Kind::Unicast,
        }
    }

    #[inline]
    fn is_solicited_node(&self) -> bool {
        self.octets().starts_with(&SOLICITED_NODE)
    }
}

/// The solicited-node multicast address of `address` (RFC 4291 section 2.7.1).
#[must_use]
pub fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let mut octets = address.octets();
    octets[..13].copy_from_slice(&SOLICITED_NODE);
    octets.into()
}

/// Modified EUI-64 interface identifier of a station (RFC 4291 appendix A): `ff:fe` in the middle,
/// universal/local bit turned.
#[must_use]
pub const fn interface_id(mac: MacAddr) -> [u8; 8] {
    let [a, b, c, d, e, f] = mac.0;
    [a ^ 2, b, c, 0xff, 0xfe, d, e, f]
}

/// The link-local address `fe80::/64` with the station's [`interface_id`].
#[must_use]
pub const fn link_local(mac: MacAddr) -> Ipv6Addr {
    let [a, b, c, d, e, f, g, h] = interface_id(mac);
    Ipv6Addr::from_octets([0xfe, 0x80, 0, 0, 0, 0, 0, 0, a, b, c, d, e, f, g, h])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Ipv6Addr {
        text.parse().unwrap()
    }

    #[test]
    fn edges_of_the_ranges() {
        let cases = [
            ("::", Ipv6Kind::Unspecified),
            ("::1", Ipv6Kind::Loopback),
            ("::2", Ipv6Kind::Unicast),
            ("::ffff:10.0.0.1", Ipv6Kind::Ipv4Mapped),
            ("fbff::1", Ipv6Kind::Unicast),
            ("fc00::", Ipv6Kind::UniqueLocal),
            ("fdff::1", Ipv6Kind::UniqueLocal),
            ("fe7f::1", Ipv6Kind::Unicast),
            ("fe80::", Ipv6Kind::LinkLocal),
            ("febf::1", Ipv6Kind::LinkLocal),
            ("fec0::1", Ipv6Kind::Unicast),
            ("ff02::1", Ipv6Kind::Multicast(MulticastScope::LINK)),
            ("ff3e::1", Ipv6Kind::Multicast(MulticastScope::GLOBAL)),
            ("2001:db8::1", Ipv6Kind::Unicast),
        ];
        for (text, kind) in cases {
            assert_eq!(address(text).kind(), kind, "{text}");
        }
    }

    /// The example of RFC 4291 section 2.7.1.
    #[test]
    fn solicited_node_of_the_rfc() {
        let group = solicited_node(address("4037::01:800:200e:8c6c"));
        assert_eq!(group, address("ff02::1:ff0e:8c6c"));
        assert!(group.is_solicited_node());
        assert!(!address("ff02::1").is_solicited_node());
    }

    /// The example of RFC 2464 section 4.
    #[test]
    fn interface_id_of_the_rfc() {
        let mac = "34:56:78:9A:BC:DE".parse().unwrap();
        assert_eq!(interface_id(mac), [0x36, 0x56, 0x78, 0xff, 0xfe, 0x9a, 0xbc, 0xde]);
        assert_eq!(link_local(mac), address("fe80::3656:78ff:fe9a:bcde"));
    }
}
