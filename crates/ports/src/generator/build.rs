//! A packet from its addresses.

use std::net::IpAddr;
use wire::checksum::{Partial, pseudo_header_v4, pseudo_header_v6};
use wire::icmp::{Icmpv4Header, Icmpv6Header};
use wire::ipv4::Ipv4Header;
use wire::ipv6::Ipv6Header;
use wire::{
    EtherType, EthernetHeader, Header, IntoBytes, IpProtocol, MacAddr, TcpFlags, TcpHeader, U16, U32,
    UdpHeader,
};

/// What stands above IP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// A UDP datagram.
    #[default]
    Udp,
    /// A TCP segment with SYN.
    TcpSyn,
    /// An ICMP or ICMPv6 echo request; the ports are its identifier and sequence number.
    IcmpEcho,
}

/// A packet to build.
#[derive(Clone, Copy, Debug)]
pub struct PacketSpec {
    /// Source and destination of the Ethernet header; `None`: the packet begins with IP.
    pub ethernet: Option<(MacAddr, MacAddr)>,
    /// IP source.
    pub source: IpAddr,
    /// IP destination, of the same family.
    pub destination: IpAddr,
    /// What stands above IP.
    pub protocol: Protocol,
    /// Source port, or identifier.
    pub source_port: u16,
    /// Destination port, or sequence number.
    pub destination_port: u16,
    /// Length of the whole packet in bytes, without frame check sequence.
    pub len: usize,
}

/// Builds the packet, with right lengths and checksums and a payload of bytes that count up.
///
/// # Errors
/// What is wrong with `spec`: families that differ, or a length that its headers don't fit in or that IP can't carry.
pub fn build(spec: &PacketSpec) -> Result<Vec<u8>, String> {
    let link = spec.ethernet.map_or(0, |_| EthernetHeader::LEN);
    let (ip, v6) = match (spec.source, spec.destination) {
        (IpAddr::V4(_), IpAddr::V4(_)) => (Ipv4Header::LEN, false),
        (IpAddr::V6(_), IpAddr::V6(_)) => (Ipv6Header::LEN, true),
        (source, destination) => {
            return Err(format!("source {source} and destination {destination} must be of one family"));
        }
    };
    let above = match spec.protocol {
        Protocol::Udp | Protocol::IcmpEcho => UdpHeader::LEN,
        Protocol::TcpSyn => TcpHeader::LEN,
    };
    let least = link + ip + above;
    let most = link + usize::from(u16::MAX);
    if !(least..=most).contains(&spec.len) {
        return Err(format!(
            "length {} can't be: the headers take {least} bytes, the most is {most}",
            spec.len
        ));
    }
    let mut packet = Vec::with_capacity(spec.len);
    if let Some((source, destination)) = spec.ethernet {
        let ethertype = if v6 { EtherType::IPV6 } else { EtherType::IPV4 };
        packet.extend_from_slice(EthernetHeader { dst: destination, src: source, ethertype }.as_bytes());
    }
    let upper = upper(spec, spec.len - link - ip, v6);
    match (spec.source, spec.destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let total = (spec.len - link) as u16;
            let header = Ipv4Header::new(source, destination, protocol(spec, false), 64, total);
            packet.extend_from_slice(header.as_bytes());
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let header = Ipv6Header::new(source, destination, protocol(spec, true), 64, upper.len() as u16);
            packet.extend_from_slice(header.as_bytes());
        }
        _ => {}
    }
    packet.extend_from_slice(&upper);
    Ok(packet)
}

const fn protocol(spec: &PacketSpec, v6: bool) -> IpProtocol {
    match spec.protocol {
        Protocol::Udp => IpProtocol::UDP,
        Protocol::TcpSyn => IpProtocol::TCP,
        Protocol::IcmpEcho if v6 => IpProtocol::ICMPV6,
        Protocol::IcmpEcho => IpProtocol::ICMP,
    }
}

/// The bytes above IP, `len` of them.
fn upper(spec: &PacketSpec, len: usize, v6: bool) -> Vec<u8> {
    let (mut bytes, field): (Vec<u8>, usize) = match spec.protocol {
        Protocol::Udp => {
            let header = UdpHeader::new(spec.source_port, spec.destination_port, len as u16);
            (header.as_bytes().to_vec(), 6)
        }
        Protocol::TcpSyn => {
            let header = TcpHeader {
                src_port: U16::new(spec.source_port),
                dst_port: U16::new(spec.destination_port),
                sequence: U32::ZERO,
                acknowledgment: U32::ZERO,
                data_offset: (TcpHeader::LEN as u8 / 4) << 4,
                flag_bits: TcpFlags::SYN.bits(),
                window: U16::new(8192),
                checksum: U16::ZERO,
                urgent: U16::ZERO,
            };
            (header.as_bytes().to_vec(), 16)
        }
        Protocol::IcmpEcho if v6 => {
            let header = Icmpv6Header::echo_request(spec.source_port, spec.destination_port);
            (header.as_bytes().to_vec(), 2)
        }
        Protocol::IcmpEcho => {
            let header = Icmpv4Header::echo_request(spec.source_port, spec.destination_port);
            (header.as_bytes().to_vec(), 2)
        }
    };
    bytes.extend((0..len - bytes.len()).map(|n| n as u8));
    let pseudo = match (spec.source, spec.destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) if spec.protocol != Protocol::IcmpEcho => {
            pseudo_header_v4(source.octets(), destination.octets(), protocol(spec, v6), len as u16)
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            pseudo_header_v6(source.octets(), destination.octets(), protocol(spec, v6), len as u32)
        }
        _ => Partial::ZERO,
    };
    let sum = pseudo.plus(Partial::of(&bytes));
    let checksum =
        if spec.protocol == Protocol::Udp { UdpHeader::finish_checksum(sum) } else { sum.checksum() };
    bytes[field..field + 2].copy_from_slice(&checksum.to_be_bytes());
    bytes
}
