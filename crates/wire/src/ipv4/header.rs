//! The fixed part of the IPv4 header.

use core::net::Ipv4Addr;

use bitflags::bitflags;
use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::checksum::{self, Partial};
use crate::{Header, IpProtocol};

/// The 20 bytes every IPv4 packet starts with; up to 40 bytes of options follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Ipv4Header {
    /// Version (4) in the high half, header length in 32-bit words in the low half.
    pub version_ihl: u8,
    /// DSCP (6 bits) and ECN (2 bits).
    pub dscp_ecn: u8,
    /// Length of header and payload in bytes.
    pub total_len: U16,
    /// Identification, common to all fragments of a packet.
    pub id: U16,
    /// Flags (3 bits) and fragment offset in units of 8 bytes (13 bits).
    pub flags_fragment: U16,
    /// Hops left.
    pub ttl: u8,
    /// What the packet carries.
    pub protocol: IpProtocol,
    /// Checksum of header and options.
    pub checksum: U16,
    /// Source address; see [`Ipv4Header::src`].
    pub src: [u8; 4],
    /// Destination address; see [`Ipv4Header::dst`].
    pub dst: [u8; 4],
}

impl Header for Ipv4Header {
    const NAME: &'static str = "IPv4";
}

bitflags! {
    /// The flag bits of `flags_fragment`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Ipv4Flags: u16 {
        /// Reserved, must be zero.
        const RESERVED = 0x8000;
        /// Don't fragment.
        const DONT_FRAGMENT = 0x4000;
        /// More fragments follow.
        const MORE_FRAGMENTS = 0x2000;
    }
}

impl Ipv4Header {
    /// Longest header with options, in bytes.
    pub const MAX_LEN: usize = 60;
    /// `version_ihl` of a header without options.
    pub const VERSION_IHL: u8 = 0x45;

    const OFFSET_MASK: u16 = 0x1fff;

    /// A header without options, not fragmented, don't-fragment clear, id 0, checksum right.
    #[must_use]
    pub fn new(src: Ipv4Addr, dst: Ipv4Addr, protocol: IpProtocol, ttl: u8, total_len: u16) -> Self {
        let mut header = Self {
            version_ihl: Self::VERSION_IHL,
            dscp_ecn: 0,
            total_len: U16::new(total_len),
            id: U16::ZERO,
            flags_fragment: U16::ZERO,
            ttl,
            protocol,
            checksum: U16::ZERO,
            src: src.octets(),
            dst: dst.octets(),
        };
        header.checksum = U16::new(header.compute_checksum(&[]));
        header
    }

    /// IP version.
    #[inline]
    #[must_use]
    pub const fn version(&self) -> u8 {
        self.version_ihl >> 4
    }

    /// Length of the header with options in bytes, as it claims: 0..=60; in a checked header at least 20.
    #[inline]
    #[must_use]
    pub const fn header_len(&self) -> usize {
        (self.version_ihl & 0x0f) as usize * 4
    }

    /// Source address.
    #[inline]
    #[must_use]
    pub const fn src(&self) -> Ipv4Addr {
        Ipv4Addr::from_octets(self.src)
    }

    /// Destination address.
    #[inline]
    #[must_use]
    pub const fn dst(&self) -> Ipv4Addr {
        Ipv4Addr::from_octets(self.dst)
    }

    /// Differentiated services code point, 0..=63 (RFC 2474).
    #[inline]
    #[must_use]
    pub const fn dscp(&self) -> u8 {
        self.dscp_ecn >> 2
    }

    /// Explicit congestion notification, 0..=3 (RFC 3168).
    #[inline]
    #[must_use]
    pub const fn ecn(&self) -> u8 {
        self.dscp_ecn & 3
    }

    /// Fragmentation flags.
    #[inline]
    #[must_use]
    pub fn flags(&self) -> Ipv4Flags {
        Ipv4Flags::from_bits_truncate(self.flags_fragment.get())
    }

    /// Where this fragment's payload belongs in the whole packet's, in bytes.
    #[inline]
    #[must_use]
    pub fn fragment_offset(&self) -> usize {
        usize::from(self.flags_fragment.get() & Self::OFFSET_MASK) * 8
    }

    /// Whether this is one of several fragments, the first included: ports must not be relied on.
    #[inline]
    #[must_use]
    pub fn is_fragment(&self) -> bool {
        self.flags_fragment.get() & (Self::OFFSET_MASK | Ipv4Flags::MORE_FRAGMENTS.bits()) != 0
    }

    /// Whether the payload starts in the middle of the upper layer: no upper header is here.
    #[inline]
    #[must_use]
    pub fn is_later_fragment(&self) -> bool {
        self.flags_fragment.get() & Self::OFFSET_MASK != 0
    }

    /// Writes flags and fragment offset (in bytes; cut to a multiple of 8 below 65536). Not the checksum.
    pub fn set_fragment(&mut self, flags: Ipv4Flags, offset: usize) {
        let units = (offset / 8) as u16 & Self::OFFSET_MASK;
        self.flags_fragment = U16::new(flags.bits() | units);
    }

    /// Sum of the header as it stands, checksum field included, with its `options`.
    #[inline(always)]
    #[must_use]
    pub fn sum(&self, options: &[u8]) -> Partial {
        let fixed = Partial::of_header::<{ Self::LEN }>(zerocopy::transmute_ref!(self));
        if options.is_empty() { fixed } else { fixed.plus(Partial::of(options)) }
    }

    /// Whether the checksum is right. `options` are the `header_len() - 20` bytes after the fixed part.
    #[inline(always)]
    #[must_use]
    pub fn verify_checksum(&self, options: &[u8]) -> bool {
        self.sum(options).is_valid()
    }

    /// What the checksum field must be; its present value doesn't matter.
    #[inline]
    #[must_use]
    pub fn compute_checksum(&self, options: &[u8]) -> u16 {
        self.sum(options).minus(Partial::of_u16(self.checksum.get())).checksum()
    }

    /// Takes one from the TTL and updates the checksum, the forwarding step in a few instructions.
    ///
    /// The TTL must not be 0 (it would wrap); a router looks at it first.
    #[inline]
    pub fn decrement_ttl(&mut self) {
        self.ttl = self.ttl.wrapping_sub(1);
        // RFC 1624 with m' = m - 0x0100: the checksum grows by 0x0100, with end-around carry, and 0xffff is
        // written as 0, the form that summing the header anew gives.
        let sum = u32::from(self.checksum.get()) + 0x0100;
        self.checksum = U16::new((sum + u32::from(sum >= 0xffff)) as u16);
    }

    /// Replaces DSCP and ECN and updates the checksum.
    pub fn set_dscp_ecn(&mut self, value: u8) {
        let old = u16::from_be_bytes([self.version_ihl, self.dscp_ecn]);
        self.dscp_ecn = value;
        let new = u16::from_be_bytes([self.version_ihl, self.dscp_ecn]);
        self.checksum = U16::new(checksum::update_u16(self.checksum.get(), old, new));
    }

    /// Sum of the pseudo header for an upper layer of `len` bytes of this packet's protocol.
    #[inline]
    #[must_use]
    pub fn pseudo_header(&self, len: u16) -> Partial {
        checksum::pseudo_header_v4(self.src, self.dst, self.protocol, len)
    }
}
