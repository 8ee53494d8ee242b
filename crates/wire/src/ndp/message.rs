//! The fixed parts of the five messages, ICMPv6 header included.

use core::net::Ipv6Addr;

use bitflags::bitflags;
use zerocopy::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::Header;
use crate::icmp::Icmpv6Type;

/// Who has this address? (RFC 4861 section 4.3) 24 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct NeighborSolicitation {
    /// 135.
    pub kind: Icmpv6Type,
    /// 0.
    pub code: u8,
    /// ICMPv6 checksum.
    pub checksum: U16,
    /// Zero.
    pub reserved: U32,
    /// The address that is asked for.
    pub target: [u8; 16],
}

impl Header for NeighborSolicitation {
    const NAME: &'static str = "neighbor solicitation";
}

impl NeighborSolicitation {
    /// A question for `target`, checksum 0.
    #[must_use]
    pub fn new(target: Ipv6Addr) -> Self {
        Self {
            kind: Icmpv6Type::NEIGHBOR_SOLICITATION,
            code: 0,
            checksum: U16::ZERO,
            reserved: U32::ZERO,
            target: target.octets(),
        }
    }

    /// The address that is asked for.
    #[must_use]
    pub const fn target(&self) -> Ipv6Addr {
        Ipv6Addr::from_octets(self.target)
    }
}

bitflags! {
    /// Flags of a neighbour advertisement.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct NeighborFlags: u8 {
        /// Sender is a router.
        const ROUTER = 0x80;
        /// Answers a solicitation.
        const SOLICITED = 0x40;
        /// Replaces what is known.
        const OVERRIDE = 0x20;
    }
}

/// I have this address. (RFC 4861 section 4.4) 24 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct NeighborAdvertisement {
    /// 136.
    pub kind: Icmpv6Type,
    /// 0.
    pub code: u8,
    /// ICMPv6 checksum.
    pub checksum: U16,
    /// Flags; see [`NeighborAdvertisement::flags`].
    pub flag_bits: u8,
    /// Zero.
    pub reserved: [u8; 3],
    /// The address that is spoken of.
    pub target: [u8; 16],
}

impl Header for NeighborAdvertisement {
    const NAME: &'static str = "neighbor advertisement";
}

impl NeighborAdvertisement {
    /// An answer for `target`, checksum 0.
    #[must_use]
    pub fn new(target: Ipv6Addr, flags: NeighborFlags) -> Self {
        Self {
            kind: Icmpv6Type::NEIGHBOR_ADVERTISEMENT,
            code: 0,
            checksum: U16::ZERO,
            flag_bits: flags.bits(),
            reserved: [0; 3],
            target: target.octets(),
        }
    }

    /// The address that is spoken of.
    #[must_use]
    pub const fn target(&self) -> Ipv6Addr {
        Ipv6Addr::from_octets(self.target)
    }

    /// Flags; reserved bits are left out.
    #[must_use]
    pub const fn flags(&self) -> NeighborFlags {
        NeighborFlags::from_bits_truncate(self.flag_bits)
    }
}

/// Is there a router? (RFC 4861 section 4.1) 8 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RouterSolicitation {
    /// 133.
    pub kind: Icmpv6Type,
    /// 0.
    pub code: u8,
    /// ICMPv6 checksum.
    pub checksum: U16,
    /// Zero.
    pub reserved: U32,
}

impl Header for RouterSolicitation {
    const NAME: &'static str = "router solicitation";
}

bitflags! {
    /// Flags of a router advertisement.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct RouterFlags: u8 {
        /// Addresses come from DHCPv6.
        const MANAGED = 0x80;
        /// Other configuration comes from DHCPv6.
        const OTHER = 0x40;
    }
}

/// I am a router. (RFC 4861 section 4.2) 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RouterAdvertisement {
    /// 134.
    pub kind: Icmpv6Type,
    /// 0.
    pub code: u8,
    /// ICMPv6 checksum.
    pub checksum: U16,
    /// Hop limit hosts should use; 0 leaves it open.
    pub hop_limit: u8,
    /// Flags; see [`RouterAdvertisement::flags`].
    pub flag_bits: u8,
    /// How long the sender is a default router, in seconds; 0: it is none.
    pub router_lifetime: U16,
    /// How long a neighbour counts as reachable, in milliseconds; 0 leaves it open.
    pub reachable_time: U32,
    /// Time between solicitations, in milliseconds; 0 leaves it open.
    pub retransmit_timer: U32,
}

impl Header for RouterAdvertisement {
    const NAME: &'static str = "router advertisement";
}

impl RouterAdvertisement {
    /// An advertisement with checksum 0 that leaves all timers open.
    #[must_use]
    pub fn new(hop_limit: u8, flags: RouterFlags, router_lifetime: u16) -> Self {
        Self {
            kind: Icmpv6Type::ROUTER_ADVERTISEMENT,
            code: 0,
            checksum: U16::ZERO,
            hop_limit,
            flag_bits: flags.bits(),
            router_lifetime: U16::new(router_lifetime),
            reachable_time: U32::ZERO,
            retransmit_timer: U32::ZERO,
        }
    }

    /// Flags; reserved bits are left out.
    #[must_use]
    pub const fn flags(&self) -> RouterFlags {
        RouterFlags::from_bits_truncate(self.flag_bits)
    }
}

/// There is a better first hop. (RFC 4861 section 4.5) 40 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Redirect {
    /// 137.
    pub kind: Icmpv6Type,
    /// 0.
    pub code: u8,
    /// ICMPv6 checksum.
    pub checksum: U16,
    /// Zero.
    pub reserved: U32,
    /// The better first hop.
    pub target: [u8; 16],
    /// The destination it is better for.
    pub destination: [u8; 16],
}

impl Header for Redirect {
    const NAME: &'static str = "redirect";
}
