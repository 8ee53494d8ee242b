//! What a router checks before it believes an IPv6 header.

use super::{Ipv6Class, Ipv6Header};
use crate::Header;
use crate::reason::reasons;

reasons! {
    /// Why an IPv6 packet is refused.
    pub enum Ipv6Reason {
        /// IPv6 packet is shorter than its header.
        TooShort = "ip6-too-short",
        /// IPv6 version field is not 6.
        BadVersion = "ip6-bad-version",
        /// IPv6 payload length is above what arrived.
        BadPayloadLength = "ip6-bad-payload-length",
        /// IPv6 source address must not occur on a wire (RFC 4291 section 2).
        MartianSource = "ip6-martian-source",
        /// IPv6 destination address must not occur on a wire (RFC 4291 section 2).
        MartianDestination = "ip6-martian-destination",
        /// IPv6 extension header goes beyond the packet's payload.
        ExtensionTruncated = "ip6-extension-truncated",
        /// IPv6 packet has more extension headers than are looked at.
        TooManyExtensions = "ip6-too-many-extensions",
        /// IPv6 hop-by-hop options do not come first (RFC 8200 section 4.1).
        HopByHopNotFirst = "ip6-hop-by-hop-not-first",
        /// IPv6 extension headers go beyond the head that was looked at: pull more and look again.
        HeadTooShort = "ip6-head-too-short",
    }
}

impl Ipv6Header {
    /// The header at the start of `head`, its version and payload length checked. Addresses are not looked at.
    ///
    /// `packet_len` is the length of the whole packet from the IP header on, in bytes; it may be larger than
    /// what the header says: Ethernet pads. `head` may end before the packet does.
    ///
    /// # Errors
    /// The first [`Ipv6Reason`] that applies.
    #[inline]
    pub fn check(head: &[u8], packet_len: usize) -> Result<&Self, Ipv6Reason> {
        let (header, _) = Self::parse(head).map_err(|_| Ipv6Reason::TooShort)?;
        if header.version() != 6 {
            return Err(Ipv6Reason::BadVersion);
        }
        if header.total_len() > packet_len {
            return Err(Ipv6Reason::BadPayloadLength);
        }
        Ok(header)
    }

    /// Refuses addresses that must not occur on a wire: a multicast or loopback source, a loopback or
    /// unspecified destination, multicast of scope 0 or 1 (RFC 4291 sections 2.5.2, 2.5.3, 2.7).
    ///
    /// # Errors
    /// [`Ipv6Reason::MartianSource`] or [`Ipv6Reason::MartianDestination`].
    #[inline]
    pub fn check_martians(&self) -> Result<(), Ipv6Reason> {
        if self.src().is_martian_source() {
            return Err(Ipv6Reason::MartianSource);
        }
        if self.dst().is_martian_destination() {
            return Err(Ipv6Reason::MartianDestination);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::IpProtocol;
    use zerocopy::IntoBytes;
    use zerocopy::network_endian::U32;

    fn good() -> Ipv6Header {
        let (src, dst) = ("2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap());
        Ipv6Header::new(src, dst, IpProtocol::UDP, 64, 8)
    }

    #[test]
    fn lengths_and_version() {
        let header = good();
        assert_eq!(Ipv6Header::check(header.as_bytes(), 48), Ok(&header));
        assert_eq!(Ipv6Header::check(header.as_bytes(), 60), Ok(&header), "padding is fine");
        assert_eq!(Ipv6Header::check(header.as_bytes(), 47), Err(Ipv6Reason::BadPayloadLength));
        assert_eq!(Ipv6Header::check(&header.as_bytes()[..39], 48), Err(Ipv6Reason::TooShort));
        let four = Ipv6Header { version_class_flow: U32::new(4 << 28), ..header };
        assert_eq!(Ipv6Header::check(four.as_bytes(), 48), Err(Ipv6Reason::BadVersion));
    }

    #[test]
    fn martians() {
        let from = |src: &str| {
            let src = src.parse::<core::net::Ipv6Addr>().unwrap().octets();
            Ipv6Header { src, ..good() }.check_martians().err()
        };
        let to = |dst: &str| {
            let dst = dst.parse::<core::net::Ipv6Addr>().unwrap().octets();
            Ipv6Header { dst, ..good() }.check_martians().err()
        };
        assert_eq!(from("fe80::1"), None);
        assert_eq!(from("::"), None, "duplicate address detection has no source");
        assert_eq!(from("::1"), Some(Ipv6Reason::MartianSource));
        assert_eq!(from("ff02::1"), Some(Ipv6Reason::MartianSource));
        assert_eq!(to("ff02::1"), None);
        assert_eq!(to("ff01::1"), Some(Ipv6Reason::MartianDestination));
        assert_eq!(to("::"), Some(Ipv6Reason::MartianDestination));
        assert_eq!(to("::1"), Some(Ipv6Reason::MartianDestination));
    }
}
