//! Pseudo headers: the addresses that upper-layer checksums cover.

use super::Partial;
use crate::IpProtocol;

/// Sum of the IPv4 pseudo header (RFC 9293 section 3.1, RFC 768). `len` is that of the upper layer in bytes.
#[inline]
#[must_use]
pub fn pseudo_header_v4(src: [u8; 4], dst: [u8; 4], protocol: IpProtocol, len: u16) -> Partial {
    Partial::of(&src)
        .plus(Partial::of(&dst))
        .plus(Partial::of_u16(protocol.0.into()))
        .plus(Partial::of_u16(len))
}

/// Sum of the IPv6 pseudo header (RFC 8200 section 8.1). `len` is that of the upper layer in bytes, `protocol`
/// the upper layer's, not that of an extension header.
#[inline]
#[must_use]
pub fn pseudo_header_v6(src: [u8; 16], dst: [u8; 16], protocol: IpProtocol, len: u32) -> Partial {
    Partial::of(&src)
        .plus(Partial::of(&dst))
        .plus(Partial::of_u16(protocol.0.into()))
        .plus(Partial::of_u32(len))
}
