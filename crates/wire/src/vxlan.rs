//! VXLAN (RFC 7348).

use zerocopy::network_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::Header;

/// VXLAN header: 8 bytes behind UDP; an Ethernet frame follows (RFC 7348 section 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct VxlanHeader {
    /// Flags; all but [`VxlanHeader::VALID`] are 0 when sent and ignored when received.
    pub flags: u8,
    /// Reserved: 0 when sent, ignored when received.
    pub reserved: [u8; 3],
    /// Network identifier (24 bits), and 8 reserved bits below; see [`VxlanHeader::vni`].
    pub vni_reserved: U32,
}

impl Header for VxlanHeader {
    const NAME: &'static str = "VXLAN";
}

impl VxlanHeader {
    /// The I flag: there is a network identifier. Without it the packet is invalid.
    pub const VALID: u8 = 0x08;
    /// UDP port of tunnel endpoints (IANA).
    pub const PORT: u16 = 4789;

    /// The header of frames of network `vni`, of which 24 bits count.
    #[must_use]
    pub fn new(vni: u32) -> Self {
        Self { flags: Self::VALID, reserved: [0; 3], vni_reserved: U32::new(vni << 8) }
    }

    /// Whether the network identifier counts.
    #[inline]
    #[must_use]
    pub const fn is_valid(&self) -> bool {
        self.flags & Self::VALID != 0
    }

    /// Network identifier, 24 bits.
    #[inline]
    #[must_use]
    pub fn vni(&self) -> u32 {
        self.vni_reserved.get() >> 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The header that scapy 2.5.0 makes of `VXLAN(vni=0x123456)`.
    #[test]
    fn the_identifier_is_in_the_upper_bits() {
        let bytes = [0x08, 0, 0, 0, 0x12, 0x34, 0x56, 0];
        assert_eq!(VxlanHeader::new(0x12_3456).as_bytes(), bytes);
        let (header, _) = VxlanHeader::parse(&bytes).unwrap();
        assert_eq!((header.vni(), header.is_valid()), (0x12_3456, true));
        let reserved = VxlanHeader::parse(&[0xf7, 1, 2, 3, 0, 0, 7, 9]).unwrap().0;
        assert_eq!((reserved.vni(), reserved.is_valid()), (7, false));
    }
}
