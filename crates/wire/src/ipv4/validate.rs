//! What a router checks before it believes an IPv4 header (RFC 1812 section 5.2.2).

use super::{Ipv4Class, Ipv4Header, Ipv4Options};
use crate::Header;
use crate::reason::reasons;

reasons! {
    /// Why an IPv4 packet is refused.
    pub enum Ipv4Reason {
        /// IPv4 packet is shorter than its header.
        TooShort = "ip4-too-short",
        /// IPv4 version field is not 4.
        BadVersion = "ip4-bad-version",
        /// IPv4 header length field is below 5 words.
        BadHeaderLength = "ip4-bad-header-length",
        /// IPv4 total length is below the header's or above what arrived.
        BadTotalLength = "ip4-bad-total-length",
        /// IPv4 header checksum is wrong.
        BadChecksum = "ip4-bad-checksum",
        /// IPv4 options go beyond the head that was looked at: pull more of the packet and look again.
        HeadTooShort = "ip4-head-too-short",
        /// IPv4 source address must not occur on a wire (RFC 1812 section 5.3.7).
        MartianSource = "ip4-martian-source",
        /// IPv4 destination address must not occur on a wire (RFC 1812 section 5.3.7).
        MartianDestination = "ip4-martian-destination",
    }
}

impl Ipv4Header {
    /// The header at the start of `head` and its options, checked as RFC 1812 section 5.2.2 demands: length,
    /// version, header length, total length, checksum. Addresses are not looked at.
    ///
    /// `packet_len` is the length of the whole packet from the IP header on, in bytes; it may be larger than
    /// what the header says: Ethernet pads. `head` may end before the packet does.
    ///
    /// # Errors
    /// The first [`Ipv4Reason`] that applies.
    #[inline]
    pub fn check(head: &[u8], packet_len: usize) -> Result<(&Self, Ipv4Options<'_>), Ipv4Reason> {
        let (header, rest) = Self::parse(head).map_err(|_| Ipv4Reason::TooShort)?;
        if header.version_ihl == Self::VERSION_IHL {
            // nearly every packet
            header.check_len(Self::LEN, packet_len)?;
            if !header.verify_checksum(&[]) {
                return Err(Ipv4Reason::BadChecksum);
            }
            return Ok((header, Ipv4Options::new(&[])));
        }
        header.check_with_options(rest, packet_len)
    }

    #[cold]
    fn check_with_options<'a>(
        &'a self,
        rest: &'a [u8],
        packet_len: usize,
    ) -> Result<(&'a Self, Ipv4Options<'a>), Ipv4Reason> {
        if self.version() != 4 {
            return Err(Ipv4Reason::BadVersion);
        }
        let header_len = self.header_len();
        let Some(options_len) = header_len.checked_sub(Self::LEN) else {
            return Err(Ipv4Reason::BadHeaderLength);
        };
        if header_len > packet_len {
            return Err(Ipv4Reason::TooShort);
        }
        self.check_len(header_len, packet_len)?;
        let options = rest.get(..options_len).ok_or(Ipv4Reason::HeadTooShort)?;
        if !self.verify_checksum(options) {
            return Err(Ipv4Reason::BadChecksum);
        }
        Ok((self, Ipv4Options::new(options)))
    }

    #[inline]
    fn check_len(&self, header_len: usize, packet_len: usize) -> Result<(), Ipv4Reason> {
        let total_len = usize::from(self.total_len.get());
        if total_len < header_len || total_len > packet_len {
            return Err(Ipv4Reason::BadTotalLength);
        }
        Ok(())
    }

    /// Refuses addresses that must not occur on a wire (RFC 1812 section 5.3.7).
    ///
    /// # Errors
    /// [`Ipv4Reason::MartianSource`] or [`Ipv4Reason::MartianDestination`].
    #[inline]
    pub fn check_martians(&self) -> Result<(), Ipv4Reason> {
        if self.src().is_martian_source() {
            return Err(Ipv4Reason::MartianSource);
        }
        if self.dst().is_martian_destination() {
            return Err(Ipv4Reason::MartianDestination);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::IpProtocol;
    use core::net::Ipv4Addr;
    use zerocopy::IntoBytes;
    use zerocopy::network_endian::U16;

    fn good(total_len: u16) -> Ipv4Header {
        let (src, dst) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
        Ipv4Header::new(src, dst, IpProtocol::UDP, 64, total_len)
    }

    fn reason(header: Ipv4Header, packet_len: usize) -> Option<Ipv4Reason> {
        let mut bytes = [0; 60];
        bytes[..20].copy_from_slice(header.as_bytes());
        Ipv4Header::check(&bytes, packet_len).err()
    }

    fn with_checksum(mut header: Ipv4Header) -> Ipv4Header {
        header.checksum = U16::new(header.compute_checksum(&[]));
        header
    }

    #[test]
    fn every_reason_occurs() {
        assert_eq!(reason(good(28), 28), None);
        assert_eq!(reason(good(28), 46), None, "padding is fine");
        assert_eq!(reason(good(28), 27), Some(Ipv4Reason::BadTotalLength));
        assert_eq!(reason(good(19), 28), Some(Ipv4Reason::BadTotalLength));
        assert_eq!(reason(Ipv4Header { version_ihl: 0x55, ..good(28) }, 28), Some(Ipv4Reason::BadVersion));
        assert_eq!(
            reason(Ipv4Header { version_ihl: 0x44, ..good(28) }, 28),
            Some(Ipv4Reason::BadHeaderLength)
        );
        assert_eq!(reason(Ipv4Header { ttl: 63, ..good(28) }, 28), Some(Ipv4Reason::BadChecksum));
        let long = with_checksum(Ipv4Header { version_ihl: 0x4f, ..good(60) });
        assert_eq!(reason(long, 60), None);
        assert_eq!(reason(long, 59), Some(Ipv4Reason::TooShort));
        assert_eq!(reason(Ipv4Header { ttl: 63, ..long }, 60), Some(Ipv4Reason::BadChecksum));
        assert_eq!(Ipv4Header::check(&long.as_bytes()[..19], 60).err(), Some(Ipv4Reason::TooShort));
        assert_eq!(Ipv4Header::check(long.as_bytes(), 60).err(), Some(Ipv4Reason::HeadTooShort));
    }

    #[test]
    fn martians() {
        let from = |src| Ipv4Header { src, ..good(28) }.check_martians().err();
        let to = |dst| Ipv4Header { dst, ..good(28) }.check_martians().err();
        assert_eq!(from([10, 0, 0, 1]), None);
        assert_eq!(from([127, 0, 0, 1]), Some(Ipv4Reason::MartianSource));
        assert_eq!(to([127, 0, 0, 1]), Some(Ipv4Reason::MartianDestination));
        assert_eq!(to([224, 0, 0, 1]), None);
    }

    #[test]
    fn doc_and_name() {
        assert_eq!(Ipv4Reason::BadChecksum.doc(), "IPv4 header checksum is wrong.");
        assert_eq!(Ipv4Reason::BadChecksum.name(), "ip4-bad-checksum");
        for (index, reason) in Ipv4Reason::ALL.iter().enumerate() {
            assert_eq!(*reason as usize, index);
        }
    }
}
