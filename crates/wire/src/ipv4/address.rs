//! Kinds of IPv4 addresses, as a router tells them apart (RFC 1812 sections 4.2.2.11 and 5.3.7, RFC 6890).

use core::net::Ipv4Addr;

/// What an address is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ipv4Kind {
    /// 0.0.0.0: "this host", before it has an address.
    Unspecified,
    /// The rest of 0.0.0.0/8.
    ThisNetwork,
    /// 127.0.0.0/8, never on a wire.
    Loopback,
    /// 169.254.0.0/16, never forwarded (RFC 3927).
    LinkLocal,
    /// 224.0.0.0/24, multicast that is never forwarded (RFC 5771).
    LinkLocalMulticast,
    /// The rest of 224.0.0.0/4.
    Multicast,
    /// 240.0.0.0/4 without its last address.
    Reserved,
    /// 255.255.255.255.
    Broadcast,
    /// Everything else.
    Unicast,
}

/// Classification of addresses; a trait because the address type belongs to `core`.
pub trait Ipv4Class {
    /// What the address is good for.
    fn kind(&self) -> Ipv4Kind;

    /// Must not be the source of a packet on a wire (RFC 1812 section 5.3.7). 0.0.0.0 is one too: only a host
    /// that asks for its address uses it, and that is no business of a router.
    fn is_martian_source(&self) -> bool {
        !matches!(self.kind(), Ipv4Kind::Unicast | Ipv4Kind::LinkLocal)
    }

    /// Must not be the destination of a packet on a wire (RFC 1812 section 5.3.7).
    fn is_martian_destination(&self) -> bool {
        matches!(
            self.kind(),
            Ipv4Kind::Unspecified | Ipv4Kind::ThisNetwork | Ipv4Kind::Loopback | Ipv4Kind::Reserved
        )
    }

    /// May be forwarded from or to, as a unicast packet.
    fn is_forwardable(&self) -> bool {
        self.kind() == Ipv4Kind::Unicast
    }
}

impl Ipv4Class for Ipv4Addr {
    #[inline]
    fn kind(&self) -> Ipv4Kind {
        match self.octets() {
            [0, 0, 0, 0] => Ipv4Kind::Unspecified,
            [0, ..] => Ipv4Kind::ThisNetwork,
            [127, ..] => Ipv4Kind::Loopback,
            [169, 254, ..] => Ipv4Kind::LinkLocal,
            [224, 0, 0, _] => Ipv4Kind::LinkLocalMulticast,
            [224..=239, ..] => Ipv4Kind::Multicast,
            [255, 255, 255, 255] => Ipv4Kind::Broadcast,
            [240..=255, ..] => Ipv4Kind::Reserved,
            _ => Ipv4Kind::Unicast,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_of_the_ranges() {
        let cases = [
            ("0.0.0.0", Ipv4Kind::Unspecified),
            ("0.255.255.255", Ipv4Kind::ThisNetwork),
            ("1.0.0.0", Ipv4Kind::Unicast),
            ("126.255.255.255", Ipv4Kind::Unicast),
            ("127.0.0.0", Ipv4Kind::Loopback),
            ("128.0.0.0", Ipv4Kind::Unicast),
            ("169.253.255.255", Ipv4Kind::Unicast),
            ("169.254.0.0", Ipv4Kind::LinkLocal),
            ("169.255.0.0", Ipv4Kind::Unicast),
            ("223.255.255.255", Ipv4Kind::Unicast),
            ("224.0.0.255", Ipv4Kind::LinkLocalMulticast),
            ("224.0.1.0", Ipv4Kind::Multicast),
            ("239.255.255.255", Ipv4Kind::Multicast),
            ("240.0.0.0", Ipv4Kind::Reserved),
            ("255.255.255.254", Ipv4Kind::Reserved),
            ("255.255.255.255", Ipv4Kind::Broadcast),
        ];
        for (address, kind) in cases {
            assert_eq!(address.parse::<Ipv4Addr>().unwrap().kind(), kind, "{address}");
        }
    }

    #[test]
    fn martians() {
        let source = |text: &str| text.parse::<Ipv4Addr>().unwrap().is_martian_source();
        let destination = |text: &str| text.parse::<Ipv4Addr>().unwrap().is_martian_destination();
        assert!(source("0.0.0.0") && source("127.0.0.1") && source("224.0.0.1") && source("255.255.255.255"));
        assert!(source("240.0.0.1") && !source("10.0.0.1") && !source("169.254.1.1"));
        assert!(destination("0.0.0.0") && destination("127.0.0.1") && destination("240.0.0.1"));
        assert!(!destination("224.0.0.1") && !destination("255.255.255.255") && !destination("10.0.0.1"));
    }
}
