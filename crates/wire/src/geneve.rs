//! Geneve (RFC 8926).

use zerocopy::network_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::reason::reasons;
use crate::{EtherType, Header};

/// The 8 bytes of a Geneve header behind UDP; up to 252 bytes of options follow (RFC 8926 section 3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct GeneveHeader {
    /// Version (2 bits, 0) and length of the options in words of 4 bytes (6 bits).
    pub version_len: u8,
    /// Flags: control packet, critical options present; the others are ignored when received.
    pub flags: u8,
    /// What is carried, as an ethertype: 0x6558 for an Ethernet frame.
    pub protocol: EtherType,
    /// Network identifier (24 bits), and 8 reserved bits below; see [`GeneveHeader::vni`].
    pub vni_reserved: U32,
}

impl Header for GeneveHeader {
    const NAME: &'static str = "Geneve";
}

/// What each option begins with (RFC 8926 section 3.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct GeneveOption {
    /// Who has defined the type.
    pub class: [u8; 2],
    /// Type; its highest bit says that the option is critical.
    pub kind: u8,
    /// Bytes of data that follow, in words of 4 bytes (lower 5 bits).
    pub len: u8,
}

impl Header for GeneveOption {
    const NAME: &'static str = "Geneve option";
}

reasons! {
    /// Why the options of a Geneve header are refused.
    pub enum GeneveReason {
        /// Geneve options don't end where the header says.
        BadOptions = "geneve-bad-options",
        /// Geneve option is critical, and nothing here knows it.
        CriticalOption = "geneve-critical-option",
    }
}

impl GeneveHeader {
    /// UDP port of tunnel endpoints (IANA).
    pub const PORT: u16 = 6081;
    /// Longest header with options, in bytes.
    pub const MAX_LEN: usize = 260;

    const CONTROL: u8 = 0x80;

    /// A header without options for packets of `protocol` of network `vni`, of which 24 bits count.
    #[must_use]
    pub fn new(vni: u32, protocol: EtherType) -> Self {
        Self { version_len: 0, flags: 0, protocol, vni_reserved: U32::new(vni << 8) }
    }

    /// Version; only 0 is defined.
    #[inline]
    #[must_use]
    pub const fn version(&self) -> u8 {
        self.version_len >> 6
    }

    /// Length of header and options in bytes, 8..=260.
    #[inline]
    #[must_use]
    pub const fn header_len(&self) -> usize {
        Self::LEN + (self.version_len & 0x3f) as usize * 4
    }

    /// Whether it is a control packet (O flag): for the endpoint itself, nothing to pass on.
    #[inline]
    #[must_use]
    pub const fn is_control(&self) -> bool {
        self.flags & Self::CONTROL != 0
    }

    /// Network identifier, 24 bits.
    #[inline]
    #[must_use]
    pub fn vni(&self) -> u32 {
        self.vni_reserved.get() >> 8
    }

    /// Looks through `options`, the `header_len() - 8` bytes behind the header, for what an endpoint must know that knows
    /// none of them.
    ///
    /// # Errors
    /// The first [`GeneveReason`] that applies.
    pub fn check_options(options: &[u8]) -> Result<(), GeneveReason> {
        let mut rest = options;
        while !rest.is_empty() {
            let (option, behind) = GeneveOption::parse(rest).map_err(|_| GeneveReason::BadOptions)?;
            rest = behind.get(option.data_len()..).ok_or(GeneveReason::BadOptions)?;
            if option.is_critical() {
                return Err(GeneveReason::CriticalOption);
            }
        }
        Ok(())
    }
}

impl GeneveOption {
    /// Bytes of data behind it, 0..=124.
    #[inline]
    #[must_use]
    pub const fn data_len(&self) -> usize {
        (self.len & 0x1f) as usize * 4
    }

    /// Whether who doesn't know it must drop the packet.
    #[inline]
    #[must_use]
    pub const fn is_critical(&self) -> bool {
        self.kind & 0x80 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The header that scapy 2.5.0 makes of `GENEVE(vni=0x123456, proto=0x6558)`.
    #[test]
    fn the_identifier_is_in_the_upper_bits() {
        let bytes = [0, 0, 0x65, 0x58, 0x12, 0x34, 0x56, 0];
        assert_eq!(GeneveHeader::new(0x12_3456, EtherType::TRANSPARENT_ETHERNET).as_bytes(), bytes);
        let header = GeneveHeader::parse(&[0x43, 0x80, 8, 0, 0, 0, 7, 9]).unwrap().0;
        assert_eq!((header.version(), header.header_len(), header.is_control()), (1, 20, true));
        assert_eq!((header.vni(), header.protocol), (7, EtherType::IPV4));
    }

    #[test]
    fn options_end_where_the_header_says_and_are_not_critical() {
        let (plain, critical) = ([1, 2, 0x7f, 0xe1, 9, 9, 9, 9], [1, 2, 0x80, 0]);
        let check = |parts: &[&[u8]]| GeneveHeader::check_options(&parts.concat());
        assert_eq!(check(&[]), Ok(()));
        assert_eq!(check(&[&plain, &plain]), Ok(()), "reserved bits of the length don't count");
        assert_eq!(check(&[&plain, &critical]), Err(GeneveReason::CriticalOption));
        assert_eq!(check(&[&plain[..4]]), Err(GeneveReason::BadOptions), "its data are missing");
        assert_eq!(check(&[&plain, &plain[..3]]), Err(GeneveReason::BadOptions));
    }
}
