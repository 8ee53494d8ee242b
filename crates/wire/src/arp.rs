//! ARP for IPv4 over Ethernet (RFC 826, RFC 5227).

use core::fmt;
use core::net::Ipv4Addr;

use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::reason::reasons;
use crate::{EtherType, Header, MacAddr};

/// An ARP packet for IPv4 over Ethernet: 28 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct ArpPacket {
    /// 1 for Ethernet.
    pub hardware_type: U16,
    /// 0x0800 for IPv4.
    pub protocol_type: EtherType,
    /// 6.
    pub hardware_len: u8,
    /// 4.
    pub protocol_len: u8,
    /// Request or reply.
    pub operation: ArpOperation,
    /// Sender's Ethernet address.
    pub sender_mac: MacAddr,
    /// Sender's IPv4 address; see [`ArpPacket::sender`].
    pub sender_ip: [u8; 4],
    /// Target's Ethernet address; without meaning in a request.
    pub target_mac: MacAddr,
    /// Target's IPv4 address; see [`ArpPacket::target`].
    pub target_ip: [u8; 4],
}

impl Header for ArpPacket {
    const NAME: &'static str = "ARP";
}

reasons! {
    /// Why an ARP packet is refused.
    pub enum ArpReason {
        /// ARP packet is shorter than 28 bytes.
        TooShort = "arp-too-short",
        /// ARP hardware type or address length is not Ethernet's.
        NotEthernet = "arp-not-ethernet",
        /// ARP protocol type or address length is not IPv4's.
        NotIpv4 = "arp-not-ip4",
        /// ARP operation is neither request nor reply.
        UnknownOperation = "arp-unknown-operation",
        /// ARP sender's Ethernet address is multicast or zero.
        BadSenderMac = "arp-bad-sender-mac",
        /// ARP sender's IPv4 address is no address a host can have.
        BadSenderIp = "arp-bad-sender-ip",
    }
}

impl ArpPacket {
    const ETHERNET: u16 = 1;

    /// A request for `target`; [`Ipv4Addr::UNSPECIFIED`] as `sender_ip` makes it a probe (RFC 5227).
    #[must_use]
    pub fn request(sender_mac: MacAddr, sender_ip: Ipv4Addr, target_ip: Ipv4Addr) -> Self {
        Self {
            hardware_type: U16::new(Self::ETHERNET),
            protocol_type: EtherType::IPV4,
            hardware_len: 6,
            protocol_len: 4,
            operation: ArpOperation::REQUEST,
            sender_mac,
            sender_ip: sender_ip.octets(),
            target_mac: MacAddr::ZERO,
            target_ip: target_ip.octets(),
        }
    }

    /// The answer to this request: `mac` has the address that was asked for.
    #[must_use]
    pub fn reply(&self, mac: MacAddr) -> Self {
        Self {
            operation: ArpOperation::REPLY,
            sender_mac: mac,
            sender_ip: self.target_ip,
            target_mac: self.sender_mac,
            target_ip: self.sender_ip,
            ..*self
        }
    }

    /// Sender's IPv4 address.
    #[inline]
    #[must_use]
    pub fn sender(&self) -> Ipv4Addr {
        self.sender_ip.into()
    }

    /// Target's IPv4 address.
    #[inline]
    #[must_use]
    pub fn target(&self) -> Ipv4Addr {
        self.target_ip.into()
    }

    /// A request with sender address 0.0.0.0: is the address free? (RFC 5227 section 1.1)
    #[must_use]
    pub fn is_probe(&self) -> bool {
        self.operation == ArpOperation::REQUEST && self.sender_ip == [0; 4]
    }

    /// Sender speaks of itself: sender and target address are the same (RFC 5227 section 1.1).
    #[must_use]
    pub fn is_gratuitous(&self) -> bool {
        self.sender_ip == self.target_ip && !self.is_probe()
    }

    /// The packet at the start of `bytes`, with its contents checked.
    ///
    /// A probe's sender address 0.0.0.0 is fine; loopback, multicast and broadcast addresses are not.
    ///
    /// # Errors
    /// The first [`ArpReason`] that applies.
    pub fn check(bytes: &[u8]) -> Result<&Self, ArpReason> {
        let (arp, _) = Self::parse(bytes).map_err(|_| ArpReason::TooShort)?;
        if arp.hardware_type.get() != Self::ETHERNET || arp.hardware_len != 6 {
            return Err(ArpReason::NotEthernet);
        }
        if arp.protocol_type != EtherType::IPV4 || arp.protocol_len != 4 {
            return Err(ArpReason::NotIpv4);
        }
        if !matches!(arp.operation, ArpOperation::REQUEST | ArpOperation::REPLY) {
            return Err(ArpReason::UnknownOperation);
        }
        if !arp.sender_mac.is_unicast() {
            return Err(ArpReason::BadSenderMac);
        }
        let sender = arp.sender();
        if sender.is_loopback() || sender.is_multicast() || sender.is_broadcast() {
            return Err(ArpReason::BadSenderIp);
        }
        Ok(arp)
    }
}

/// ARP operation code, as on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Hash, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(transparent)]
pub struct ArpOperation([u8; 2]);

impl ArpOperation {
    /// Who has this address?
    pub const REQUEST: Self = Self::new(1);
    /// I have.
    pub const REPLY: Self = Self::new(2);

    /// From the number.
    #[must_use]
    pub const fn new(value: u16) -> Self {
        Self(value.to_be_bytes())
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u16 {
        u16::from_be_bytes(self.0)
    }
}

impl fmt::Debug for ArpOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ArpOperation({})", self.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::IntoBytes;

    const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
    const A: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
    const B: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

    #[test]
    fn kinds_of_request() {
        assert!(ArpPacket::request(MAC, Ipv4Addr::UNSPECIFIED, A).is_probe());
        assert!(ArpPacket::request(MAC, A, A).is_gratuitous());
        let ordinary = ArpPacket::request(MAC, A, B);
        assert!(!ordinary.is_probe() && !ordinary.is_gratuitous());
    }

    #[test]
    fn reply_turns_the_packet_around() {
        let other = MacAddr([2, 0, 0, 0, 0, 2]);
        let reply = ArpPacket::request(MAC, A, B).reply(other);
        assert_eq!((reply.sender(), reply.target()), (B, A));
        assert_eq!((reply.sender_mac, reply.target_mac), (other, MAC));
        assert_eq!(ArpPacket::check(reply.as_bytes()), Ok(&reply));
    }

    #[test]
    fn every_reason_occurs() {
        let good = ArpPacket::request(MAC, A, B);
        let cases = [
            (ArpPacket { hardware_type: U16::new(6), ..good }, ArpReason::NotEthernet),
            (ArpPacket { hardware_len: 8, ..good }, ArpReason::NotEthernet),
            (ArpPacket { protocol_type: EtherType::IPV6, ..good }, ArpReason::NotIpv4),
            (ArpPacket { protocol_len: 16, ..good }, ArpReason::NotIpv4),
            (ArpPacket { operation: ArpOperation::new(3), ..good }, ArpReason::UnknownOperation),
            (ArpPacket { sender_mac: MacAddr::BROADCAST, ..good }, ArpReason::BadSenderMac),
            (ArpPacket { sender_ip: [127, 0, 0, 1], ..good }, ArpReason::BadSenderIp),
        ];
        for (packet, reason) in cases {
            assert_eq!(ArpPacket::check(packet.as_bytes()), Err(reason));
        }
        assert_eq!(ArpPacket::check(&good.as_bytes()[..27]), Err(ArpReason::TooShort));
        assert_eq!(ArpPacket::check(good.as_bytes()), Ok(&good));
    }
}
