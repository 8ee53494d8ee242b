//! VLAN tags: IEEE 802.1Q and, stacked, 802.1ad.

use core::fmt;

use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::{EtherType, Header};

/// The four bytes that follow a tag's EtherType: tag control information, then the next EtherType.
///
/// The EtherType *in front* (0x8100, 0x88a8) belongs to the header before, so tags stack by repeated parsing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct VlanTag {
    /// Priority, drop eligibility, VLAN id.
    pub tci: Tci,
    /// What follows the tag.
    pub ethertype: EtherType,
}

impl Header for VlanTag {
    const NAME: &'static str = "VLAN";
}

/// Tag control information: 3 bits priority, 1 bit drop eligible, 12 bits VLAN id.
#[derive(Clone, Copy, PartialEq, Eq, Hash, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(transparent)]
pub struct Tci(U16);

impl Tci {
    /// The largest VLAN id that may be configured; 4095 is reserved.
    pub const MAX_ID: u16 = 4094;

    /// From priority (0..=7), drop eligible indicator and VLAN id (0..=4095); higher bits are cut off.
    #[must_use]
    pub fn new(priority: u8, drop_eligible: bool, id: u16) -> Self {
        let bits = u16::from(priority & 7) << 13 | u16::from(drop_eligible) << 12 | (id & 0x0fff);
        Self(U16::new(bits))
    }

    /// VLAN id; 0 means "priority tag, no VLAN".
    #[inline]
    #[must_use]
    pub fn id(self) -> u16 {
        self.0.get() & 0x0fff
    }

    /// Priority code point, 0..=7.
    #[must_use]
    pub fn priority(self) -> u8 {
        (self.0.get() >> 13) as u8
    }

    /// Drop eligible indicator.
    #[must_use]
    pub fn drop_eligible(self) -> bool {
        self.0.get() & 0x1000 != 0
    }

    /// The same tag with another VLAN id; higher bits of `id` are cut off.
    #[must_use]
    pub fn with_id(self, id: u16) -> Self {
        Self(U16::new(self.0.get() & 0xf000 | id & 0x0fff))
    }

    /// All 16 bits.
    #[must_use]
    pub fn get(self) -> u16 {
        self.0.get()
    }
}

impl From<u16> for Tci {
    fn from(bits: u16) -> Self {
        Self(U16::new(bits))
    }
}

impl fmt::Debug for Tci {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Tci(id {}, priority {}, drop_eligible {})",
            self.id(),
            self.priority(),
            self.drop_eligible()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces() {
        let tci = Tci::new(5, true, 0x123);
        assert_eq!(tci.get(), 0xb123);
        assert_eq!((tci.priority(), tci.drop_eligible(), tci.id()), (5, true, 0x123));
        assert_eq!(tci.with_id(0xffff).get(), 0xbfff);
        assert_eq!(Tci::new(9, false, 0xf001).get(), 0x2001, "bits beyond a field are cut off");
    }
}
