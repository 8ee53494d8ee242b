//! What a packet's first byte is: the link types of capture files.

use core::fmt;

/// Kind of link a packet was seen on, by its number in capture files (the tcpdump.org registry).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LinkType(pub u16);

impl LinkType {
    /// Begins with an Ethernet header.
    pub const ETHERNET: Self = Self(1);
    /// Begins with an IPv4 or IPv6 header.
    pub const RAW: Self = Self(101);
    /// Begins with an IPv4 header.
    pub const IPV4: Self = Self(228);
    /// Begins with an IPv6 header.
    pub const IPV6: Self = Self(229);
}

impl fmt::Display for LinkType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self {
            Self::ETHERNET => "ethernet",
            Self::RAW => "ip",
            Self::IPV4 => "ip4",
            Self::IPV6 => "ip6",
            Self(other) => return write!(f, "link type {other}"),
        })
    }
}
