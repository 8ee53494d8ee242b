//! What we read in a packet is what scapy reads in it.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod vectors;

use quiver_wire::checksum::Partial;
use quiver_wire::describe::{Describe, Layer};
use quiver_wire::ipv6::{self, ExtensionSet};
use quiver_wire::{
    ArpPacket, EthernetHeader, Header, IpProtocol, Ipv4Header, Ipv6Header, LinkType, TcpHeader, TcpOption,
    TcpOptions, UdpHeader,
};
use vectors::Vector;

/// The fields of a header in the notation of the vectors.
fn fields(layer: &Layer<'_>) -> Vec<String> {
    match *layer {
        Layer::Ethernet(eth) => vec![
            format!("eth.dst={}", eth.dst),
            format!("eth.src={}", eth.src),
            format!("eth.type={}", eth.ethertype.get()),
        ],
        Layer::Vlan(tag) => vec![
            format!("vlan.id={}", tag.tci.id()),
            format!("vlan.priority={}", tag.tci.priority()),
            format!("vlan.dei={}", u8::from(tag.tci.drop_eligible())),
            format!("vlan.type={}", tag.ethertype.get()),
        ],
        Layer::Arp(arp) => vec![
            format!("arp.op={}", arp.operation.get()),
            format!("arp.sender={}/{}", arp.sender_mac, arp.sender()),
            format!("arp.target={}/{}", arp.target_mac, arp.target()),
        ],
        Layer::Ipv4(ip, _) => vec![
            format!("ip4.src={}", ip.src()),
            format!("ip4.dst={}", ip.dst()),
            format!("ip4.protocol={}", ip.protocol.0),
            format!("ip4.ttl={}", ip.ttl),
            format!("ip4.len={}", ip.total_len),
            format!("ip4.header-len={}", ip.header_len()),
            format!("ip4.id={}", ip.id),
            format!("ip4.flags={}", ip.flags().bits() >> 13),
            format!("ip4.offset={}", ip.fragment_offset()),
            format!("ip4.tos={}", ip.dscp() << 2 | ip.ecn()),
            format!("ip4.checksum={}", ip.checksum),
        ],
        Layer::Ipv6(ip) => vec![
            format!("ip6.src={}", ip.src()),
            format!("ip6.dst={}", ip.dst()),
            format!("ip6.next-header={}", ip.next_header.0),
            format!("ip6.hop-limit={}", ip.hop_limit),
            format!("ip6.payload-len={}", ip.payload_len),
            format!("ip6.class={}", ip.traffic_class()),
            format!("ip6.flow={}", ip.flow_label()),
        ],
        Layer::Extensions(upper) => {
            let mut names: Vec<_> = upper.extensions.iter_names().map(|(name, _)| name).collect();
            names.sort_unstable();
            let mut fields = vec![
                format!("ext.set={}", names.join("+")),
                format!("ext.protocol={}", upper.protocol.0),
                format!("ext.offset={}", upper.offset),
                format!("ext.unfragmentable={}", upper.unfragmentable_len),
            ];
            fields.extend(upper.fragment.map(|fragment| {
                format!("ext.fragment={},{},{}", fragment.id, fragment.offset(), u8::from(fragment.more()))
            }));
            fields
        }
        Layer::Tcp(tcp, rest) => {
            let mut fields = vec![
                format!("tcp.ports={}>{}", tcp.src_port, tcp.dst_port),
                format!("tcp.seq={}", tcp.sequence),
                format!("tcp.ack={}", tcp.acknowledgment),
                format!("tcp.flags={}", tcp.flags().bits()),
                format!("tcp.header-len={}", tcp.header_len()),
                format!("tcp.window={}", tcp.window),
                format!("tcp.checksum={}", tcp.checksum),
            ];
            fields.extend(
                TcpOptions::new(&rest[..tcp.header_len() - 20]).map(|option| tcp_option(option.unwrap())),
            );
            fields
        }
        Layer::Udp(udp) => vec![
            format!("udp.ports={}>{}", udp.src_port, udp.dst_port),
            format!("udp.len={}", udp.len),
            format!("udp.checksum={}", udp.checksum),
        ],
        Layer::Icmpv4(icmp) => vec![
            format!("icmp.type={}", icmp.kind.0),
            format!("icmp.code={}", icmp.code),
            format!("icmp.checksum={}", icmp.checksum),
            format!("icmp.rest={}", u32::from(icmp.rest_high.get()) << 16 | u32::from(icmp.rest_low.get())),
        ],
        Layer::Icmpv6(icmp, _) => vec![
            format!("icmp6.type={}", icmp.kind.0),
            format!("icmp6.code={}", icmp.code),
            format!("icmp6.checksum={}", icmp.checksum),
            format!("icmp6.rest={}", icmp.rest),
        ],
        Layer::OtherEtherType(_) | Layer::OtherProtocol(_) => vec![],
        ref broken => panic!("{broken}"),
    }
}

fn tcp_option(option: TcpOption<'_>) -> String {
    match option {
        TcpOption::MaximumSegmentSize(size) => format!("tcp.option.MSS={size}"),
        TcpOption::WindowScale(shift) => format!("tcp.option.WScale={shift}"),
        TcpOption::SackPermitted => "tcp.option.SAckOK=".into(),
        TcpOption::Sack(blocks) => {
            let edges = blocks.chunks(4).map(|edge| u32::from_be_bytes(edge.try_into().unwrap()).to_string());
            format!("tcp.option.SAck={}", edges.collect::<Vec<_>>().join(","))
        }
        TcpOption::Timestamps { value, echo } => format!("tcp.option.Timestamp={value},{echo}"),
        TcpOption::Other { kind, .. } => format!("tcp.option.{kind}=?"),
    }
}

#[test]
fn every_field_is_what_scapy_reads() {
    for Vector { name, link, bytes, fields: expected } in vectors::packets() {
        let found: Vec<_> = Describe::new(link, &bytes).layers().flat_map(|layer| fields(&layer)).collect();
        assert_eq!(found, expected, "{name}");
    }
}

/// The IP packet of a vector.
fn ip(vector: &Vector) -> Option<&[u8]> {
    if vector.link == LinkType::RAW {
        return Some(&vector.bytes);
    }
    let (ethernet, mut rest) = EthernetHeader::parse(&vector.bytes).unwrap();
    let mut ethertype = ethernet.ethertype;
    while ethertype.is_vlan() {
        let (tag, after) = quiver_wire::VlanTag::parse(rest).unwrap();
        (ethertype, rest) = (tag.ethertype, after);
    }
    (ethertype != quiver_wire::EtherType::ARP).then_some(rest)
}

/// Pseudo header and upper layer, where the checksum covers just what is in the packet: not in fragments, and
/// not with a route in the packet, for then it is made for the last address of that route.
fn upper_layer(packet: &[u8]) -> Option<(IpProtocol, Partial, &[u8])> {
    if packet[0] >> 4 == 4 {
        let (ip, options) = Ipv4Header::check(packet, packet.len()).unwrap();
        let routed = options.into_iter().any(|option| option.unwrap().is_source_route());
        let upper = &packet[ip.header_len()..];
        let pseudo = match ip.protocol {
            IpProtocol::ICMP => Partial::ZERO,
            _ => ip.pseudo_header(upper.len() as u16),
        };
        (!ip.is_fragment() && !routed).then_some((ip.protocol, pseudo, upper))
    } else {
        let ip = Ipv6Header::check(packet, packet.len()).unwrap();
        let found = ipv6::walk(packet).unwrap();
        let routed = found.extensions.contains(ExtensionSet::ROUTING);
        let upper = &packet[found.offset..];
        let pseudo = ip.pseudo_header(found.protocol, upper.len() as u32);
        (!found.is_fragment() && !routed).then_some((found.protocol, pseudo, upper))
    }
}

#[test]
fn every_checksum_holds_wherever_the_packet_is_cut() {
    let mut seen = 0;
    for vector in vectors::packets() {
        let Some((protocol, pseudo, upper)) = ip(&vector).and_then(upper_layer) else { continue };
        let has_checksum = match protocol {
            IpProtocol::UDP => UdpHeader::parse(upper).unwrap().0.checksum.get() != 0,
            IpProtocol::TCP | IpProtocol::ICMP | IpProtocol::ICMPV6 => true,
            _ => false,
        };
        if !has_checksum {
            continue;
        }
        seen += 1;
        for first in 0..=upper.len() {
            let (head, body) = upper.split_at(first);
            let second = first + (upper.len() - first) / 3;
            let (middle, tail) = body.split_at(second - first);
            let sum = pseudo.plus(Partial::of_pieces([head, middle, tail]));
            assert!(sum.is_valid(), "{} cut at {first} and {second}", vector.name);
            let by_hand =
                Partial::of(tail).at(second).plus(Partial::of(middle).at(first)).plus(Partial::of(head));
            assert!(by_hand.plus(pseudo).is_valid(), "{} cut at {first} and {second}", vector.name);
        }
        let mut broken = upper.to_vec();
        broken[0] ^= 1;
        assert!(!pseudo.plus(Partial::of(&broken)).is_valid(), "{}", vector.name);
    }
    assert!(seen > 35, "{seen}");
}

#[test]
fn every_good_packet_passes_the_checks() {
    for vector in vectors::packets() {
        let Some(packet) = ip(&vector) else {
            let arp = &vector.bytes[vector.bytes.len() - ArpPacket::LEN..];
            assert!(ArpPacket::check(arp).is_ok(), "{}", vector.name);
            continue;
        };
        let upper = if packet[0] >> 4 == 4 {
            let (ip, options) = Ipv4Header::check(packet, packet.len()).expect(vector.name);
            ip.check_martians().expect(vector.name);
            assert!(options.into_iter().all(|option| option.is_ok()), "{}", vector.name);
            let upper = packet.get(ip.header_len()..).unwrap();
            (!ip.is_fragment()).then_some((ip.protocol, upper))
        } else {
            Ipv6Header::check(packet, packet.len()).and_then(Ipv6Header::check_martians).expect(vector.name);
            let found = ipv6::walk(packet).expect(vector.name);
            (!found.is_fragment()).then_some((found.protocol, &packet[found.offset..]))
        };
        match upper {
            Some((IpProtocol::UDP, upper)) => {
                assert!(UdpHeader::check(upper, upper.len()).is_ok(), "{}", vector.name)
            }
            Some((IpProtocol::TCP, upper)) => {
                assert!(TcpHeader::check(upper, upper.len()).is_ok(), "{}", vector.name)
            }
            _ => {}
        }
    }
}
