//! UDP (RFC 768).

use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::Header;
use crate::checksum::Partial;
use crate::reason::reasons;

/// UDP header: 8 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct UdpHeader {
    /// Source port.
    pub src_port: U16,
    /// Destination port.
    pub dst_port: U16,
    /// Length of header and data in bytes.
    pub len: U16,
    /// Checksum over pseudo header, header and data; 0 (IPv4 only) means none.
    pub checksum: U16,
}

impl Header for UdpHeader {
    const NAME: &'static str = "UDP";
}

reasons! {
    /// Why a UDP datagram is refused.
    pub enum UdpReason {
        /// UDP datagram is shorter than 8 bytes.
        TooShort = "udp-too-short",
        /// UDP length is below 8 or above what IP carries.
        BadLength = "udp-bad-length",
    }
}

impl UdpHeader {
    /// A header with checksum 0. `len` counts header and data.
    #[must_use]
    pub fn new(src_port: u16, dst_port: u16, len: u16) -> Self {
        Self {
            src_port: U16::new(src_port),
            dst_port: U16::new(dst_port),
            len: U16::new(len),
            checksum: U16::ZERO,
        }
    }

    /// The header at the start of `head`, its length checked against `ip_payload_len`, the bytes IP carries.
    ///
    /// # Errors
    /// The first [`UdpReason`] that applies.
    #[inline]
    pub fn check(head: &[u8], ip_payload_len: usize) -> Result<&Self, UdpReason> {
        let (header, _) = Self::parse(head).map_err(|_| UdpReason::TooShort)?;
        let len = usize::from(header.len.get());
        if len < Self::LEN || len > ip_payload_len {
            return Err(UdpReason::BadLength);
        }
        Ok(header)
    }

    /// What goes into the checksum field for a `sum` of pseudo header, header (checksum 0) and data: never 0,
    /// which would mean "none".
    #[inline]
    #[must_use]
    pub const fn finish_checksum(sum: Partial) -> u16 {
        match sum.checksum() {
            0 => 0xffff,
            checksum => checksum,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::IntoBytes;

    #[test]
    fn length_is_checked() {
        let header = UdpHeader::new(1, 2, 20);
        assert_eq!(UdpHeader::check(header.as_bytes(), 20), Ok(&header));
        assert_eq!(UdpHeader::check(header.as_bytes(), 19), Err(UdpReason::BadLength));
        assert_eq!(UdpHeader::check(UdpHeader::new(1, 2, 7).as_bytes(), 20), Err(UdpReason::BadLength));
        assert_eq!(UdpHeader::check(&header.as_bytes()[..7], 20), Err(UdpReason::TooShort));
    }

    #[test]
    fn a_checksum_is_never_none() {
        assert_eq!(UdpHeader::finish_checksum(Partial::of(&[0xff, 0xff])), 0xffff);
        assert_eq!(UdpHeader::finish_checksum(Partial::of(&[0x12, 0x34])), 0xedcb);
    }
}
