//! Ethernet II header and EtherTypes (IEEE 802.3, RFC 894, RFC 9542).

use core::fmt;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::{Header, MacAddr};

/// Destination, source, EtherType: 14 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct EthernetHeader {
    /// Destination address.
    pub dst: MacAddr,
    /// Source address.
    pub src: MacAddr,
    /// What follows; below 0x0600 a length (IEEE 802.3 with LLC).
    pub ethertype: EtherType,
}

impl Header for EthernetHeader {
    const NAME: &'static str = "Ethernet";
}

/// What follows in a frame, as on the wire (big endian).
#[derive(Clone, Copy, PartialEq, Eq, Hash, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(transparent)]
pub struct EtherType([u8; 2]);

impl EtherType {
    /// IPv4 (RFC 894).
    pub const IPV4: Self = Self::new(0x0800);
    /// ARP (RFC 826).
    pub const ARP: Self = Self::new(0x0806);
    /// Customer VLAN tag (IEEE 802.1Q).
    pub const VLAN: Self = Self::new(0x8100);
    /// IPv6 (RFC 2464).
    pub const IPV6: Self = Self::new(0x86dd);
    /// MPLS unicast (RFC 3032).
    pub const MPLS: Self = Self::new(0x8847);
    /// Ethernet frames in something else (RFC 1701, "Transparent Ethernet Bridging").
    pub const TRANSPARENT_ETHERNET: Self = Self::new(0x6558);
    /// Service VLAN tag (IEEE 802.1ad, "QinQ").
    pub const SERVICE_VLAN: Self = Self::new(0x88a8);
    /// Link Layer Discovery Protocol (IEEE 802.1AB).
    pub const LLDP: Self = Self::new(0x88cc);

    /// From the number as people write it, e.g. `0x0800`.
    #[must_use]
    pub const fn new(value: u16) -> Self {
        Self(value.to_be_bytes())
    }

    /// The number as people write it.
    #[inline]
    #[must_use]
    pub const fn get(self) -> u16 {
        u16::from_be_bytes(self.0)
    }

    /// Whether a VLAN tag follows (0x8100 or 0x88a8).
    #[inline]
    #[must_use]
    pub const fn is_vlan(self) -> bool {
        matches!(self, Self::VLAN | Self::SERVICE_VLAN)
    }

    /// Whether the field is a length and not a type (IEEE 802.3: below 0x0600).
    #[inline]
    #[must_use]
    pub const fn is_length(self) -> bool {
        self.get() < 0x0600
    }
}

impl fmt::Display for EtherType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match *self {
            Self::IPV4 => "IP4",
            Self::ARP => "ARP",
            Self::VLAN => "802.1Q",
            Self::IPV6 => "IP6",
            Self::MPLS => "MPLS",
            Self::SERVICE_VLAN => "802.1ad",
            Self::LLDP => "LLDP",
            other => return write!(f, "{:#06x}", other.get()),
        };
        f.write_str(name)
    }
}

impl fmt::Debug for EtherType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#06x}", self.get())
    }
}
