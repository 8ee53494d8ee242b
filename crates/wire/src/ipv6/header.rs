//! The IPv6 header.

use core::net::Ipv6Addr;

use zerocopy::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::checksum::{self, Partial};
use crate::{Header, IpProtocol};

/// The 40 bytes every IPv6 packet starts with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Ipv6Header {
    /// Version (4 bits, 6), traffic class (8 bits), flow label (20 bits).
    pub version_class_flow: U32,
    /// Bytes after this header, extension headers included.
    pub payload_len: U16,
    /// What follows: an extension header or the upper layer.
    pub next_header: IpProtocol,
    /// Hops left.
    pub hop_limit: u8,
    /// Source address; see [`Ipv6Header::src`].
    pub src: [u8; 16],
    /// Destination address; see [`Ipv6Header::dst`].
    pub dst: [u8; 16],
}

impl Header for Ipv6Header {
    const NAME: &'static str = "IPv6";
}

impl Ipv6Header {
    /// Least MTU of a link that carries IPv6, in bytes (RFC 8200 section 5).
    pub const MIN_MTU: usize = 1280;

    /// A header with traffic class and flow label 0.
    #[must_use]
    pub fn new(
        src: Ipv6Addr,
        dst: Ipv6Addr,
        next_header: IpProtocol,
        hop_limit: u8,
        payload_len: u16,
    ) -> Self {
        Self {
            version_class_flow: U32::new(6 << 28),
            payload_len: U16::new(payload_len),
            next_header,
            hop_limit,
            src: src.octets(),
            dst: dst.octets(),
        }
    }

    /// IP version.
    #[inline]
    #[must_use]
    pub fn version(&self) -> u8 {
        (self.version_class_flow.get() >> 28) as u8
    }

    /// Source address.
    #[inline]
    #[must_use]
    pub const fn src(&self) -> Ipv6Addr {
        Ipv6Addr::from_octets(self.src)
    }

    /// Destination address.
    #[inline]
    #[must_use]
    pub const fn dst(&self) -> Ipv6Addr {
        Ipv6Addr::from_octets(self.dst)
    }

    /// Traffic class: DSCP (6 bits) and ECN (2 bits).
    #[inline]
    #[must_use]
    pub fn traffic_class(&self) -> u8 {
        (self.version_class_flow.get() >> 20) as u8
    }

    /// Differentiated services code point, 0..=63 (RFC 2474).
    #[inline]
    #[must_use]
    pub fn dscp(&self) -> u8 {
        self.traffic_class() >> 2
    }

    /// Explicit congestion notification, 0..=3 (RFC 3168).
    #[inline]
    #[must_use]
    pub fn ecn(&self) -> u8 {
        self.traffic_class() & 3
    }

    /// Flow label, 20 bits (RFC 6437).
    #[inline]
    #[must_use]
    pub fn flow_label(&self) -> u32 {
        self.version_class_flow.get() & 0x000f_ffff
    }

    /// Writes the traffic class.
    pub fn set_traffic_class(&mut self, class: u8) {
        let others = self.version_class_flow.get() & !(0xff << 20);
        self.version_class_flow = U32::new(others | u32::from(class) << 20);
    }

    /// Writes the flow label; bits beyond 20 are cut off.
    pub fn set_flow_label(&mut self, label: u32) {
        let others = self.version_class_flow.get() & !0x000f_ffff;
        self.version_class_flow = U32::new(others | label & 0x000f_ffff);
    }

    /// Length of header and payload in bytes.
    #[inline]
    #[must_use]
    pub fn total_len(&self) -> usize {
        Self::LEN + usize::from(self.payload_len.get())
    }

    /// Takes one from the hop limit, which must not be 0 (it would wrap); a router looks at it first.
    #[inline]
    pub fn decrement_hop_limit(&mut self) {
        self.hop_limit = self.hop_limit.wrapping_sub(1);
    }

    /// Sum of the pseudo header for an upper layer `protocol` of `len` bytes.
    #[inline]
    #[must_use]
    pub fn pseudo_header(&self, protocol: IpProtocol, len: u32) -> Partial {
        checksum::pseudo_header_v6(self.src, self.dst, protocol, len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_word_has_three_fields() {
        let mut header = Ipv6Header::new(Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST, IpProtocol::TCP, 1, 0);
        header.set_traffic_class(0xb9);
        header.set_flow_label(0xfff1_2345);
        assert_eq!(header.version_class_flow.get(), 0x6b91_2345);
        assert_eq!((header.version(), header.dscp(), header.ecn()), (6, 46, 1));
        assert_eq!(header.flow_label(), 0x12345);
    }
}
