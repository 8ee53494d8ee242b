//! Outer headers: all that packets of one tunnel have in common is written down once.

use super::table::{Dscp, Encapsulation, Tunnel};
use crate::interface::LinkMode;
use core::net::IpAddr;
use wire::checksum::Partial;
use wire::ipv4::Ipv4Flags;
use wire::{EtherType, GeneveHeader, Header, IntoBytes, IpProtocol, Ipv4Header, Ipv6Header, UdpHeader};
use wire::{U16, VxlanHeader};

/// The longest: IPv6, UDP, and eight bytes of VXLAN or Geneve.
const MAX: usize = Ipv6Header::LEN + UdpHeader::LEN + 8;

/// The headers of one tunnel, as they stand in front of each of its packets but for lengths, checksums, source port,
/// congestion notification and, for Geneve with IP packets, the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outer {
    bytes: [u8; MAX],
    /// Bytes of the IP header: 20 or 40.
    ip: u8,
    /// What a packet inside begins with.
    pub(super) mode: LinkMode,
    /// VRF of the way to the other end.
    pub(super) vrf: u16,
    dscp: Dscp,
    checksum: bool,
}

/// What differs from packet to packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    /// Bytes that are carried.
    pub(super) len: u32,
    /// UDP source port.
    pub(super) src_port: u16,
    /// DSCP and ECN of the packet inside; 0 where it has none.
    pub(super) class: u8,
    /// What it is, where it is an IP packet.
    pub(super) protocol: EtherType,
}

impl Outer {
    /// The headers of a tunnel that carries packets of `mode`.
    pub(super) fn new(tunnel: &Tunnel, mode: LinkMode) -> Self {
        let mut bytes = Vec::with_capacity(MAX);
        match (tunnel.local, tunnel.remote) {
            (IpAddr::V4(local), IpAddr::V4(remote)) => {
                let mut ip = Ipv4Header::new(local, remote, IpProtocol::UDP, tunnel.ttl, 0);
                // Ends of tunnels don't fragment (RFC 7348 section 4.3), and routers must not either.
                ip.set_fragment(Ipv4Flags::DONT_FRAGMENT, 0);
                bytes.extend_from_slice(ip.as_bytes());
            }
            (local, remote) => {
                let [local, remote] = [local, remote].map(|address| match address {
                    IpAddr::V4(address) => address.to_ipv6_mapped(),
                    IpAddr::V6(address) => address,
                });
                let ip = Ipv6Header::new(local, remote, IpProtocol::UDP, tunnel.ttl, 0);
                bytes.extend_from_slice(ip.as_bytes());
            }
        }
        let ip = bytes.len() as u8;
        bytes.extend_from_slice(UdpHeader::new(0, tunnel.port, 0).as_bytes());
        match tunnel.encapsulation {
            Encapsulation::Vxlan => bytes.extend_from_slice(VxlanHeader::new(tunnel.vni).as_bytes()),
            Encapsulation::Geneve => {
                let header = GeneveHeader::new(tunnel.vni, EtherType::TRANSPARENT_ETHERNET);
                bytes.extend_from_slice(header.as_bytes());
            }
        }
        bytes.resize(MAX, 0);
        let mut array = [0; MAX];
        array.copy_from_slice(&bytes);
        Self { bytes: array, ip, mode, vrf: tunnel.vrf, dscp: tunnel.dscp, checksum: tunnel.checksum }
    }

    /// Bytes of all headers: 36 or 56.
    #[inline]
    pub(super) fn len(&self) -> u16 {
        u16::from(self.ip) + UdpHeader::LEN as u16 + 8
    }

    /// Bytes of the IP header.
    #[inline]
    pub(super) fn ip_len(&self) -> u16 {
        self.ip.into()
    }

    /// Whether the outer header is IPv4's.
    #[inline]
    pub(super) fn is_v4(&self) -> bool {
        usize::from(self.ip) == Ipv4Header::LEN
    }

    /// Whether a UDP checksum is wanted.
    #[inline]
    pub(super) fn wants_checksum(&self) -> bool {
        self.checksum
    }

    /// Writes the headers of `packet` to `room`, which is [`len`](Self::len) bytes long. The UDP checksum is 0. False, and
    /// nothing of use written, where the packet is longer than lengths can say.
    #[must_use]
    pub(super) fn write(&self, room: &mut [u8], packet: Packet) -> bool {
        let len = usize::from(self.len());
        let udp_len = packet.len + u32::from(self.len() - self.ip_len());
        let Ok(total) = u16::try_from(udp_len + u32::from(self.ip_len())) else { return false };
        let (Some(room), Some(template)) = (room.get_mut(..len), self.bytes.get(..len)) else { return false };
        room.copy_from_slice(template);
        let dscp = match self.dscp {
            Dscp::Fixed(dscp) => dscp << 2,
            Dscp::Copied => packet.class & !3,
        };
        // ECN is copied (RFC 6040 section 4.1, normal mode).
        let class = dscp | packet.class & 3;
        let rest = if self.is_v4() {
            let Ok((ip, rest)) = Ipv4Header::parse_mut(room) else { return false };
            ip.total_len = U16::new(total);
            ip.dscp_ecn = class;
            ip.checksum = U16::new(ip.compute_checksum(&[]));
            rest
        } else {
            let Ok((ip, rest)) = Ipv6Header::parse_mut(room) else { return false };
            ip.payload_len = U16::new(udp_len as u16);
            ip.set_traffic_class(class);
            rest
        };
        let Ok((udp, rest)) = UdpHeader::parse_mut(rest) else { return false };
        udp.src_port = U16::new(packet.src_port);
        udp.len = U16::new(udp_len as u16);
        if self.mode == LinkMode::Ip
            && let Ok((geneve, _)) = GeneveHeader::parse_mut(rest)
        {
            geneve.protocol = packet.protocol;
        }
        true
    }

    /// Writes the UDP checksum into `headers`, which [`write`](Self::write) has written, for what they carry.
    pub(super) fn finish_checksum(&self, headers: &mut [u8], carried: Partial) {
        let Some((ip, rest)) = headers.split_at_mut_checked(self.ip_len().into()) else { return };
        let len = u16::try_from(rest.len()).unwrap_or_default();
        let Ok((udp, _)) = UdpHeader::parse_mut(rest) else { return };
        udp.checksum = U16::ZERO;
        let all = udp.len.get();
        let pseudo = if self.is_v4() {
            Ipv4Header::parse(ip).map(|(ip, _)| ip.pseudo_header(all))
        } else {
            Ipv6Header::parse(ip).map(|(ip, _)| ip.pseudo_header(IpProtocol::UDP, all.into()))
        };
        let Ok(pseudo) = pseudo else { return };
        let sum = pseudo.plus(Partial::of(rest)).plus(carried.at(len.into()));
        if let Ok((udp, _)) = UdpHeader::parse_mut(rest) {
            udp.checksum = U16::new(UdpHeader::finish_checksum(sum));
        }
    }
}
