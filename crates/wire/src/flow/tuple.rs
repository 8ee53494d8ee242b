//! Who speaks with whom: read from a head, hashed.

use super::hash::{endpoint, pair, unordered_pair};
use crate::{Header, IpProtocol, Ipv4Header, Ipv6Header, Truncated, ipv6};

/// Source and destination port: what TCP, UDP and their kin begin with.
#[inline]
fn ports(upper: &[u8]) -> (u16, u16) {
    match *upper {
        [a, b, c, d, ..] => (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])),
        _ => (0, 0),
    }
}

/// The 5-tuple of an IPv4 packet. Ports are 0 for fragments and protocols without ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ipv4Flow {
    /// Source address, first octet highest.
    pub src: u32,
    /// Destination address, first octet highest.
    pub dst: u32,
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Protocol.
    pub protocol: IpProtocol,
}

impl Ipv4Flow {
    /// The flow of the packet whose head begins with an IPv4 header. Ports beyond the head count as 0.
    ///
    /// # Errors
    /// [`Truncated`] when the fixed header isn't there.
    #[inline]
    pub fn of(head: &[u8]) -> Result<Self, Truncated> {
        let (ip, _) = Ipv4Header::parse(head)?;
        let (src_port, dst_port) = if ip.protocol.has_ports() && !ip.is_fragment() {
            ports(head.get(ip.header_len().max(Ipv4Header::LEN)..).unwrap_or_default())
        } else {
            (0, 0)
        };
        let (src, dst) = (u32::from_be_bytes(ip.src), u32::from_be_bytes(ip.dst));
        Ok(Self { src, dst, src_port, dst_port, protocol: ip.protocol })
    }

    /// The other direction.
    #[must_use]
    pub const fn reversed(self) -> Self {
        Self {
            src: self.dst,
            dst: self.src,
            src_port: self.dst_port,
            dst_port: self.src_port,
            protocol: self.protocol,
        }
    }

    /// Hash that differs between the directions.
    #[inline]
    #[must_use]
    pub const fn hash(&self, seed: u64) -> u32 {
        let (a, b) = self.endpoints();
        pair(a, b, self.protocol.0, seed)
    }

    /// Hash that is the same for both directions.
    #[inline]
    #[must_use]
    pub const fn symmetric_hash(&self, seed: u64) -> u32 {
        let (a, b) = self.endpoints();
        unordered_pair(a, b, self.protocol.0, seed)
    }

    #[inline]
    const fn endpoints(&self) -> (u64, u64) {
        let source = (self.src as u64) << 16 | self.src_port as u64;
        let destination = (self.dst as u64) << 16 | self.dst_port as u64;
        (source, destination)
    }
}

/// The 5-tuple of an IPv6 packet. Ports are 0 for fragments and protocols without ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ipv6Flow {
    /// Source address, first octet highest.
    pub src: u128,
    /// Destination address, first octet highest.
    pub dst: u128,
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Upper layer's protocol, behind the extension headers.
    pub protocol: IpProtocol,
}

impl Ipv6Flow {
    /// The flow of the packet whose head begins with an IPv6 header. Ports beyond the head count as 0; where
    /// the chain of extension headers can't be followed, the protocol is the IPv6 header's own next header.
    ///
    /// # Errors
    /// [`Truncated`] when the IPv6 header isn't there.
    #[inline]
    pub fn of(head: &[u8]) -> Result<Self, Truncated> {
        let (ip, _) = Ipv6Header::parse(head)?;
        let (src, dst) = (u128::from_be_bytes(ip.src), u128::from_be_bytes(ip.dst));
        let Ok(upper) = ipv6::walk(head) else {
            return Ok(Self { src, dst, src_port: 0, dst_port: 0, protocol: ip.next_header });
        };
        let (src_port, dst_port) = if upper.protocol.has_ports() && !upper.is_fragment() {
            ports(head.get(upper.offset..).unwrap_or_default())
        } else {
            (0, 0)
        };
        Ok(Self { src, dst, src_port, dst_port, protocol: upper.protocol })
    }

    /// The other direction.
    #[must_use]
    pub const fn reversed(self) -> Self {
        Self {
            src: self.dst,
            dst: self.src,
            src_port: self.dst_port,
            dst_port: self.src_port,
            protocol: self.protocol,
        }
    }

    /// Hash that differs between the directions.
    #[inline]
    #[must_use]
    pub const fn hash(&self, seed: u64) -> u32 {
        let (a, b) = self.endpoints(seed);
        pair(a, b, self.protocol.0, seed)
    }

    /// Hash that is the same for both directions.
    #[inline]
    #[must_use]
    pub const fn symmetric_hash(&self, seed: u64) -> u32 {
        let (a, b) = self.endpoints(seed);
        unordered_pair(a, b, self.protocol.0, seed)
    }

    #[inline]
    const fn endpoints(&self, seed: u64) -> (u64, u64) {
        (endpoint(self.src, self.src_port, seed), endpoint(self.dst, self.dst_port, seed))
    }
}
