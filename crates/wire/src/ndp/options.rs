//! Options of neighbour discovery (RFC 4861 section 4.6).

use core::net::Ipv6Addr;

use bitflags::bitflags;
use zerocopy::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::{Header, MacAddr};

const SOURCE_LINK_LAYER_ADDRESS: u8 = 1;
const TARGET_LINK_LAYER_ADDRESS: u8 = 2;
const PREFIX_INFORMATION: u8 = 3;
const MTU: u8 = 5;

/// Source or target link-layer address on Ethernet: 8 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct LinkLayerAddress {
    /// 1 source, 2 target.
    pub kind: u8,
    /// 1 (unit 8 bytes).
    pub len: u8,
    /// The address.
    pub mac: MacAddr,
}

impl Header for LinkLayerAddress {
    const NAME: &'static str = "link-layer address option";
}

impl LinkLayerAddress {
    /// The sender's own address.
    #[must_use]
    pub const fn source(mac: MacAddr) -> Self {
        Self { kind: SOURCE_LINK_LAYER_ADDRESS, len: 1, mac }
    }

    /// The target's address.
    #[must_use]
    pub const fn target(mac: MacAddr) -> Self {
        Self { kind: TARGET_LINK_LAYER_ADDRESS, len: 1, mac }
    }
}

/// MTU of the link: 8 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Mtu {
    /// 5.
    pub kind: u8,
    /// 1 (unit 8 bytes).
    pub len: u8,
    /// Zero.
    pub reserved: U16,
    /// In bytes.
    pub mtu: U32,
}

impl Header for Mtu {
    const NAME: &'static str = "MTU option";
}

impl Mtu {
    /// From the MTU in bytes.
    #[must_use]
    pub fn new(mtu: u32) -> Self {
        Self { kind: MTU, len: 1, reserved: U16::ZERO, mtu: U32::new(mtu) }
    }
}

bitflags! {
    /// Flags of a prefix.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct PrefixFlags: u8 {
        /// Addresses of the prefix are on this link.
        const ON_LINK = 0x80;
        /// Hosts may make addresses from it.
        const AUTONOMOUS = 0x40;
    }
}

/// A prefix of the link: 32 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct PrefixInformation {
    /// 3.
    pub kind: u8,
    /// 4 (unit 8 bytes).
    pub len: u8,
    /// Bits of the prefix that count, 0..=128.
    pub prefix_len: u8,
    /// Flags; see [`PrefixInformation::flags`].
    pub flag_bits: u8,
    /// Seconds it is valid; all ones for ever.
    pub valid_lifetime: U32,
    /// Seconds it is preferred; all ones for ever.
    pub preferred_lifetime: U32,
    /// Zero.
    pub reserved: U32,
    /// The prefix.
    pub prefix: [u8; 16],
}

impl Header for PrefixInformation {
    const NAME: &'static str = "prefix information option";
}

impl PrefixInformation {
    /// A prefix with its lifetimes in seconds.
    #[must_use]
    pub fn new(prefix: Ipv6Addr, prefix_len: u8, flags: PrefixFlags, valid: u32, preferred: u32) -> Self {
        Self {
            kind: PREFIX_INFORMATION,
            len: 4,
            prefix_len,
            flag_bits: flags.bits(),
            valid_lifetime: U32::new(valid),
            preferred_lifetime: U32::new(preferred),
            reserved: U32::ZERO,
            prefix: prefix.octets(),
        }
    }

    /// Flags; reserved bits are left out.
    #[must_use]
    pub const fn flags(&self) -> PrefixFlags {
        PrefixFlags::from_bits_truncate(self.flag_bits)
    }

    /// The prefix.
    #[must_use]
    pub const fn prefix(&self) -> Ipv6Addr {
        Ipv6Addr::from_octets(self.prefix)
    }
}

/// One option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NdpOption<'a> {
    /// Link-layer address of the sender.
    Source(MacAddr),
    /// Link-layer address of the target.
    Target(MacAddr),
    /// A prefix of the link.
    Prefix(&'a PrefixInformation),
    /// MTU of the link in bytes.
    Mtu(u32),
    /// Anything else, and known kinds with a length that isn't theirs; must be ignored.
    Other {
        /// Option kind.
        kind: u8,
        /// Bytes after kind and length.
        data: &'a [u8],
    },
}

/// Iterator over options. Ends at the last byte, or with one `Err` (the offset of the broken option) where a
/// length is zero or goes beyond the message: such a message must be dropped (RFC 4861 section 4.6).
#[derive(Clone, Debug)]
pub struct NdpOptions<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> NdpOptions<'a> {
    /// Over the bytes after a message's fixed part.
    #[must_use]
    pub const fn new(options: &'a [u8]) -> Self {
        Self { bytes: options, offset: 0 }
    }

    /// The sender's link-layer address, if it is among the options.
    #[must_use]
    pub fn source(mut self) -> Option<MacAddr> {
        self.find_map(|option| match option {
            Ok(NdpOption::Source(mac)) => Some(mac),
            _ => None,
        })
    }

    /// The target's link-layer address, if it is among the options.
    #[must_use]
    pub fn target(mut self) -> Option<MacAddr> {
        self.find_map(|option| match option {
            Ok(NdpOption::Target(mac)) => Some(mac),
            _ => None,
        })
    }
}

impl<'a> Iterator for NdpOptions<'a> {
    type Item = Result<NdpOption<'a>, usize>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.bytes.is_empty() {
            return None;
        }
        let offset = self.offset;
        let len = self.bytes.get(1).map_or(0, |units| usize::from(*units) * 8);
        let Some((option, after)) = self.bytes.split_at_checked(len).filter(|_| len > 0) else {
            self.bytes = &[];
            return Some(Err(offset));
        };
        self.bytes = after;
        self.offset += len;
        Some(Ok(parse(option)))
    }
}

/// `option` has at least 8 bytes.
fn parse(option: &[u8]) -> NdpOption<'_> {
    let kind = option.first().copied().unwrap_or_default();
    let known = match kind {
        SOURCE_LINK_LAYER_ADDRESS => {
            whole::<LinkLayerAddress>(option).map(|found| NdpOption::Source(found.mac))
        }
        TARGET_LINK_LAYER_ADDRESS => {
            whole::<LinkLayerAddress>(option).map(|found| NdpOption::Target(found.mac))
        }
        PREFIX_INFORMATION => whole::<PrefixInformation>(option).map(NdpOption::Prefix),
        MTU => whole::<Mtu>(option).map(|found| NdpOption::Mtu(found.mtu.get())),
        _ => None,
    };
    known.unwrap_or(NdpOption::Other { kind, data: option.get(2..).unwrap_or_default() })
}

fn whole<H: Header>(option: &[u8]) -> Option<&H> {
    H::ref_from_bytes(option).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn known_kinds_with_another_length_are_other() {
        let mut bytes = [0; 16];
        bytes[..2].copy_from_slice(&[SOURCE_LINK_LAYER_ADDRESS, 2]);
        let found: Vec<_> = NdpOptions::new(&bytes).collect();
        assert_eq!(found, [Ok(NdpOption::Other { kind: 1, data: &bytes[2..] })]);
    }

    #[test]
    fn a_wrong_length_ends_it_once() {
        for bytes in [&[1, 0, 0, 0, 0, 0, 0, 0][..], &[1, 2, 0, 0, 0, 0, 0, 0], &[1]] {
            let found: Vec<_> = NdpOptions::new(bytes).collect();
            assert_eq!(found, [Err(0)], "{bytes:?}");
        }
    }
}
