//! Ethernet addresses (IEEE 802 EUI-48).

use core::fmt;
use core::net::{Ipv4Addr, Ipv6Addr};
use core::str::FromStr;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// A 48-bit Ethernet address, in the order of the wire.
#[derive(
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    FromBytes,
    IntoBytes,
    KnownLayout,
    Immutable,
    Unaligned,
)]
#[repr(transparent)]
pub struct MacAddr(pub [u8; 6]);

impl MacAddr {
    /// `ff:ff:ff:ff:ff:ff`.
    pub const BROADCAST: Self = Self([0xff; 6]);
    /// `00:00:00:00:00:00`, "not known" (as in the target of an ARP request).
    pub const ZERO: Self = Self([0; 6]);

    /// The address from the low 48 bits of a number, first octet highest.
    #[must_use]
    pub const fn from_u64(value: u64) -> Self {
        let [_, _, a, b, c, d, e, f] = value.to_be_bytes();
        Self([a, b, c, d, e, f])
    }

    /// The address as a number below 2^48, first octet highest. One register, so the cheap form of a table key.
    #[inline]
    #[must_use]
    pub const fn to_u64(self) -> u64 {
        let [a, b, c, d, e, f] = self.0;
        u64::from_be_bytes([0, 0, a, b, c, d, e, f])
    }

    /// Group bit (first bit on the wire) set: multicast or broadcast.
    #[inline]
    #[must_use]
    pub const fn is_multicast(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// All ones.
    #[inline]
    #[must_use]
    pub const fn is_broadcast(self) -> bool {
        self.to_u64() == 0xffff_ffff_ffff
    }

    /// An address one station can have: neither group bit nor all zeros.
    #[inline]
    #[must_use]
    pub const fn is_unicast(self) -> bool {
        !self.is_multicast() && self.to_u64() != 0
    }

    /// Universal/local bit set: made up here, not assigned by a manufacturer.
    #[must_use]
    pub const fn is_local(self) -> bool {
        self.0[0] & 2 != 0
    }

    /// Where an IPv4 multicast group is sent to: `01:00:5e` and the low 23 bits (RFC 1112 section 6.4).
    #[must_use]
    pub const fn from_ipv4_multicast(group: Ipv4Addr) -> Self {
        let [_, b, c, d] = group.octets();
        Self([0x01, 0x00, 0x5e, b & 0x7f, c, d])
    }

    /// Where an IPv6 multicast group is sent to: `33:33` and the low 32 bits (RFC 2464 section 7).
    #[must_use]
    pub const fn from_ipv6_multicast(group: Ipv6Addr) -> Self {
        let [.., a, b, c, d] = group.octets();
        Self([0x33, 0x33, a, b, c, d])
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, f] = self.0;
        write!(out, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}")
    }
}

impl fmt::Debug for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that is no Ethernet address. Remedy: six pairs of hex digits with `:` or `-` between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseMacError;

impl fmt::Display for ParseMacError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not an Ethernet address: give six pairs of hex digits, as in 02:fe:00:00:00:01")
    }
}

impl core::error::Error for ParseMacError {}

impl FromStr for MacAddr {
    type Err = ParseMacError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let separator = if text.contains('-') { '-' } else { ':' };
        let mut octets = [0; 6];
        let mut parts = text.split(separator);
        for octet in &mut octets {
            let part = parts.next().ok_or(ParseMacError)?;
            // from_str_radix alone would take a sign
            if part.len() != 2 || !part.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                return Err(ParseMacError);
            }
            *octet = u8::from_str_radix(part, 16).map_err(|_| ParseMacError)?;
        }
        match parts.next() {
            None => Ok(Self(octets)),
            Some(_) => Err(ParseMacError),
        }
    }
}

impl From<[u8; 6]> for MacAddr {
    fn from(octets: [u8; 6]) -> Self {
        Self(octets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn text_goes_both_ways() {
        let mac: MacAddr = "02:FE:00:00:0a:01".parse().unwrap();
        assert_eq!(mac, MacAddr([2, 0xfe, 0, 0, 10, 1]));
        assert_eq!(mac.to_string(), "02:fe:00:00:0a:01");
        assert_eq!("02-fe-00-00-0a-01".parse(), Ok(mac));
        for bad in [
            "",
            "02:fe:00:00:0a",
            "02:fe:00:00:0a:01:02",
            "2:fe:0:0:a:1",
            "02:fe:00-00:0a:01",
            "+2:fe:00:00:0a:01",
        ] {
            assert_eq!(bad.parse::<MacAddr>(), Err(ParseMacError), "{bad}");
        }
    }

    #[test]
    fn number_goes_both_ways() {
        let mac = MacAddr([2, 3, 4, 5, 6, 7]);
        assert_eq!(mac.to_u64(), 0x0203_0405_0607);
        assert_eq!(MacAddr::from_u64(mac.to_u64()), mac);
    }

    #[test]
    fn kinds() {
        assert!(MacAddr::BROADCAST.is_broadcast() && MacAddr::BROADCAST.is_multicast());
        assert!(!MacAddr::ZERO.is_unicast() && !MacAddr::ZERO.is_multicast());
        assert!(MacAddr([2, 0, 0, 0, 0, 1]).is_unicast() && MacAddr([2, 0, 0, 0, 0, 1]).is_local());
        assert!(!MacAddr([0, 0x1b, 0x21, 0, 0, 1]).is_local());
    }

    #[test]
    fn multicast_maps() {
        // RFC 1112: only 23 bits of the group survive
        let mac = MacAddr::from_ipv4_multicast(Ipv4Addr::new(239, 129, 2, 3));
        assert_eq!(mac, MacAddr([0x01, 0x00, 0x5e, 0x01, 2, 3]));
        let mac = MacAddr::from_ipv6_multicast("ff02::1:ff12:3456".parse().unwrap());
        assert_eq!(mac, MacAddr([0x33, 0x33, 0xff, 0x12, 0x34, 0x56]));
    }
}
