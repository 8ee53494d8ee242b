//! What we build is what scapy builds.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod vectors;

use core::net::{Ipv4Addr, Ipv6Addr};

use quiver_wire::checksum::{self, Partial};
use quiver_wire::icmp::{Icmpv4Error, Icmpv6Error};
use quiver_wire::ipv6::{FragmentHeader, solicited_node};
use quiver_wire::ndp::{
    self, LinkLayerAddress, Mtu, NdpMessage, NdpOption, NdpReason, NeighborAdvertisement, NeighborFlags,
    NeighborSolicitation, PrefixFlags, PrefixInformation, RouterAdvertisement, RouterFlags,
};
use quiver_wire::{
    ArpPacket, EtherType, EthernetHeader, Header, Icmpv4Header, Icmpv6Header, IntoBytes, IpProtocol,
    Ipv4Header, Ipv6Header, MacAddr, Tci, U16, U32, UdpHeader, VlanTag,
};
use vectors::packet;

const MAC_A: MacAddr = MacAddr([2, 0xfe, 0, 0, 0, 1]);
const MAC_B: MacAddr = MacAddr([2, 0xfe, 0, 0, 0, 2]);
const A4: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const B4: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 2);
const A6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
const B6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 2);
const LINK_A: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0xfe, 0xff, 0xfe00, 1);
const LINK_B: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0xfe, 0xff, 0xfe00, 2);

fn ethernet(src: MacAddr, dst: MacAddr, ethertype: EtherType) -> EthernetHeader {
    EthernetHeader { dst, src, ethertype }
}

fn ip4(protocol: IpProtocol, payload_len: usize) -> Ipv4Header {
    let mut ip = Ipv4Header::new(A4, B4, protocol, 64, (20 + payload_len) as u16);
    ip.id = U16::new(1);
    ip.checksum = U16::new(ip.compute_checksum(&[]));
    ip
}

fn udp(pseudo: Partial, src_port: u16, dst_port: u16, data: &[u8]) -> UdpHeader {
    let mut udp = UdpHeader::new(src_port, dst_port, (8 + data.len()) as u16);
    let sum = pseudo.plus(Partial::of_pieces([udp.as_bytes(), data]));
    udp.checksum = U16::new(UdpHeader::finish_checksum(sum));
    udp
}

#[test]
fn arp() {
    let request = ArpPacket::request(MAC_A, A4, Ipv4Addr::new(10, 0, 0, 2));
    let mut frame = [0; 42];
    let rest = ethernet(MAC_A, MacAddr::BROADCAST, EtherType::ARP).emit(&mut frame).unwrap();
    assert!(request.emit(rest).unwrap().is_empty());
    assert_eq!(frame[..], packet("arp-request"));

    let rest = ethernet(MAC_B, MAC_A, EtherType::ARP).emit(&mut frame).unwrap();
    request.reply(MAC_B).emit(rest).unwrap();
    assert_eq!(frame[..], packet("arp-reply"));
}

#[test]
fn vlan_tags() {
    let expected = packet("qinq");
    let mut frame = expected.clone();
    let rest = ethernet(MAC_A, MAC_B, EtherType::SERVICE_VLAN).emit(&mut frame).unwrap();
    let rest = VlanTag { tci: Tci::new(0, false, 7), ethertype: EtherType::VLAN }.emit(rest).unwrap();
    VlanTag { tci: Tci::new(0, false, 100), ethertype: EtherType::IPV4 }.emit(rest).unwrap();
    assert_eq!(frame, expected);
}

#[test]
fn udp_over_both() {
    let expected = packet("ip4-udp-odd");
    let data = &expected[28..];
    let ip = ip4(IpProtocol::UDP, 8 + data.len());
    let udp_header = udp(ip.pseudo_header(8 + data.len() as u16), 1234, 80, data);
    assert_eq!([ip.as_bytes(), udp_header.as_bytes(), data].concat(), expected);

    let expected = packet("ip4-udp-checksum-ffff");
    let data = &expected[28..];
    let ip = ip4(IpProtocol::UDP, 10);
    let udp_header = udp(ip.pseudo_header(10), 1, 2, data);
    assert_eq!([ip.as_bytes(), udp_header.as_bytes(), data].concat(), expected);

    let expected = packet("ip6-udp");
    let data = &expected[62..];
    let ip = Ipv6Header::new(A6, B6, IpProtocol::UDP, 64, 8 + data.len() as u16);
    let udp_header = udp(ip.pseudo_header(IpProtocol::UDP, 8 + data.len() as u32), 1234, 80, data);
    let ethernet = ethernet(MAC_A, MAC_B, EtherType::IPV6);
    assert_eq!([ethernet.as_bytes(), ip.as_bytes(), udp_header.as_bytes(), data].concat(), expected);
}

#[test]
fn ipv6_class_flow_and_fragment() {
    let expected = packet("ip6-class-flow");
    let mut ip = Ipv6Header::new(A6, Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2), IpProtocol::UDP, 3, 8);
    ip.set_traffic_class(0xb9);
    ip.set_flow_label(0xabcde);
    assert_eq!(ip.as_bytes(), &expected[..40]);

    let fragment = FragmentHeader::new(IpProtocol::UDP, 24, false, 9);
    assert_eq!(fragment.as_bytes(), &packet("ip6-fragment-later")[40..48]);
}

#[test]
fn one_hop_further() {
    for name in ["hop", "hop-wrap"] {
        let mut bytes = packet(&format!("{name}-before"));
        Ipv4Header::parse_mut(&mut bytes).unwrap().0.decrement_ttl();
        assert_eq!(bytes, packet(&format!("{name}-after")), "{name}");
    }
}

#[test]
fn another_source() {
    let mut bytes = packet("nat-before");
    let (ip, rest) = Ipv4Header::parse_mut(&mut bytes).unwrap();
    let (udp, _) = UdpHeader::parse_mut(rest).unwrap();
    let (old, new) = (ip.src, [198, 51, 100, 77]);
    let (old_sum, new_sum) = (Partial::of(&old), Partial::of(&new));
    ip.src = new;
    ip.checksum = U16::new(checksum::update(ip.checksum.get(), old_sum, new_sum));
    let address_changed =
        checksum::update_u32(udp.checksum.get(), u32::from_be_bytes(old), u32::from_be_bytes(new));
    udp.checksum = U16::new(checksum::update_u16(address_changed, udp.src_port.get(), 61234));
    udp.src_port = U16::new(61234);
    assert_eq!(bytes, packet("nat-after"));
}

#[test]
fn echo_replies() {
    let mut bytes = packet("icmp-echo-request");
    Icmpv4Header::parse_mut(&mut bytes[34..]).unwrap().0.turn_into_reply();
    assert_eq!(bytes, packet("icmp-echo-reply"));

    let mut bytes = packet("icmp6-echo-request");
    Icmpv6Header::parse_mut(&mut bytes[40..]).unwrap().0.turn_into_reply();
    assert_eq!(bytes, packet("icmp6-echo-reply"));
}

#[test]
fn icmp_errors() {
    let cases = [
        ("icmp-ttl-exceeded", Icmpv4Error::TtlExceeded),
        ("icmp-fragmentation-needed", Icmpv4Error::FragmentationNeeded { mtu: 1400 }),
        ("icmp-port-unreachable", Icmpv4Error::PortUnreachable),
        ("icmp-prohibited", Icmpv4Error::AdministrativelyProhibited),
        ("icmp-parameter-problem", Icmpv4Error::ParameterProblem { pointer: 21 }),
    ];
    for (name, error) in cases {
        let expected = packet(name);
        let mut icmp = error.header();
        icmp.checksum = U16::new(Partial::of_pieces([icmp.as_bytes(), &expected[28..]]).checksum());
        assert_eq!(icmp.as_bytes(), &expected[20..28], "{name}");
        assert!(icmp.kind.is_error(), "{name}");
    }

    let cases = [
        ("icmp6-packet-too-big", Icmpv6Error::PacketTooBig { mtu: 1300 }),
        ("icmp6-hop-limit-exceeded", Icmpv6Error::HopLimitExceeded),
        ("icmp6-no-route", Icmpv6Error::NoRoute),
        ("icmp6-unknown-next-header", Icmpv6Error::UnknownNextHeader { pointer: 40 }),
    ];
    for (name, error) in cases {
        let expected = packet(name);
        let (ip, message) = Ipv6Header::parse(&expected).unwrap();
        let mut icmp = error.header();
        let pseudo = ip.pseudo_header(IpProtocol::ICMPV6, message.len() as u32);
        let sum = pseudo.plus(Partial::of_pieces([icmp.as_bytes(), &message[8..]]));
        icmp.checksum = U16::new(sum.checksum());
        assert_eq!(icmp.as_bytes(), &message[..8], "{name}");
        assert!(icmp.kind.is_error(), "{name}");
    }
}

/// A neighbour discovery packet from its parts; `zero` has checksum 0 at bytes 2 and 3.
fn ndp_packet(src: Ipv6Addr, dst: Ipv6Addr, zero: &[&[u8]]) -> Vec<u8> {
    let mut message = zero.concat();
    let ip = Ipv6Header::new(src, dst, IpProtocol::ICMPV6, 255, message.len() as u16);
    let sum = ip.pseudo_header(IpProtocol::ICMPV6, message.len() as u32).plus(Partial::of(&message));
    message[2..4].copy_from_slice(&sum.checksum().to_be_bytes());
    [ip.as_bytes(), &message].concat()
}

#[test]
fn neighbour_discovery() {
    let group = solicited_node(LINK_B);
    let question = NeighborSolicitation::new(LINK_B);
    let source = LinkLayerAddress::source(MAC_A);
    let built = ndp_packet(LINK_A, group, &[question.as_bytes(), source.as_bytes()]);
    let header = ethernet(MAC_A, MacAddr::from_ipv6_multicast(group), EtherType::IPV6);
    assert_eq!([header.as_bytes(), &built].concat(), packet("ndp-solicitation"));

    let built = ndp_packet(Ipv6Addr::UNSPECIFIED, group, &[question.as_bytes()]);
    assert_eq!([header.as_bytes(), &built].concat(), packet("ndp-duplicate-detection"));

    let answer = NeighborAdvertisement::new(LINK_B, NeighborFlags::all());
    let built = ndp_packet(LINK_B, LINK_A, &[answer.as_bytes(), LinkLayerAddress::target(MAC_B).as_bytes()]);
    let header = ethernet(MAC_B, MAC_A, EtherType::IPV6);
    assert_eq!([header.as_bytes(), &built].concat(), packet("ndp-advertisement"));

    let mut router = RouterAdvertisement::new(64, RouterFlags::OTHER, 1800);
    router.reachable_time = U32::new(30_000);
    let prefix = Ipv6Addr::new(0x2001, 0xdb8, 7, 0, 0, 0, 0, 0);
    let prefix = PrefixInformation::new(prefix, 64, PrefixFlags::all(), 86400, 14400);
    let (source, mtu) = (LinkLayerAddress::source(MAC_B), Mtu::new(1500));
    let all_nodes = "ff02::1".parse().unwrap();
    let parts = [router.as_bytes(), source.as_bytes(), mtu.as_bytes(), prefix.as_bytes()];
    let built = ndp_packet(LINK_B, all_nodes, &parts);
    assert_eq!(built, packet("ndp-router-advertisement"));
}

#[test]
fn neighbour_discovery_is_checked() {
    let bytes = packet("ndp-solicitation");
    let (ip, message) = Ipv6Header::parse(&bytes[14..]).unwrap();
    let Ok(NdpMessage::NeighborSolicitation(found, options)) = ndp::check(ip, message) else { panic!() };
    assert_eq!((found.target(), options.source()), (LINK_B, Some(MAC_A)));

    let bytes = packet("ndp-advertisement");
    let (ip, message) = Ipv6Header::parse(&bytes[14..]).unwrap();
    let Ok(NdpMessage::NeighborAdvertisement(found, options)) = ndp::check(ip, message) else { panic!() };
    assert_eq!(
        (found.target(), found.flags(), options.target()),
        (LINK_B, NeighborFlags::all(), Some(MAC_B))
    );

    let bytes = packet("ndp-router-solicitation");
    let (ip, message) = Ipv6Header::parse(&bytes).unwrap();
    let Ok(NdpMessage::RouterSolicitation(_, options)) = ndp::check(ip, message) else { panic!() };
    assert_eq!(options.source(), Some(MAC_A));

    let bytes = packet("ndp-router-advertisement");
    let (ip, message) = Ipv6Header::parse(&bytes).unwrap();
    let Ok(NdpMessage::RouterAdvertisement(found, options)) = ndp::check(ip, message) else { panic!() };
    assert_eq!((found.hop_limit, found.flags()), (64, RouterFlags::OTHER));
    let options: Vec<_> = options.map(|option| option.unwrap()).collect();
    let [NdpOption::Source(MAC_B), NdpOption::Mtu(1500), NdpOption::Prefix(prefix)] = options[..] else {
        panic!()
    };
    assert_eq!((prefix.prefix_len, prefix.flags()), (64, PrefixFlags::all()));
}

#[test]
fn neighbour_discovery_that_is_refused() {
    let question = NeighborSolicitation::new(LINK_B);
    let source = LinkLayerAddress::source(MAC_A);
    let group = solicited_node(LINK_B);
    let reason = |bytes: &[u8]| {
        let (ip, message) = Ipv6Header::parse(bytes).unwrap();
        ndp::check(ip, message).unwrap_err()
    };
    let good = ndp_packet(LINK_A, group, &[question.as_bytes(), source.as_bytes()]);
    let mut hop = good.clone();
    hop[7] = 254;
    assert_eq!(reason(&hop), NdpReason::BadHopLimit);
    let mut sum = good.clone();
    sum[70] ^= 1;
    assert_eq!(reason(&sum), NdpReason::BadChecksum);
    assert_eq!(reason(&good[..47]), NdpReason::TooShort);
    assert_eq!(reason(&ndp_packet(LINK_A, group, &[&question.as_bytes()[..20]])), NdpReason::TooShort);
    assert_eq!(reason(&packet("icmp6-echo-request")), NdpReason::NotNdp);

    let refuse = |src, dst, parts: &[&[u8]]| reason(&ndp_packet(src, dst, parts));
    let coded = NeighborSolicitation { code: 1, ..question };
    assert_eq!(refuse(LINK_A, group, &[coded.as_bytes()]), NdpReason::BadCode);
    assert_eq!(
        refuse(LINK_A, group, &[question.as_bytes(), &[1, 0, 0, 0, 0, 0, 0, 0]]),
        NdpReason::BadOption
    );
    assert_eq!(refuse(LINK_A, group, &[NeighborSolicitation::new(group).as_bytes()]), NdpReason::BadTarget);
    let nobody = Ipv6Addr::UNSPECIFIED;
    assert_eq!(refuse(nobody, LINK_B, &[question.as_bytes()]), NdpReason::BadDestination);
    let parts: [&[u8]; 2] = [question.as_bytes(), source.as_bytes()];
    assert_eq!(refuse(nobody, group, &parts), NdpReason::UnexpectedSourceOption);
    let solicited = NeighborAdvertisement::new(LINK_B, NeighborFlags::SOLICITED);
    assert_eq!(
        refuse(LINK_B, "ff02::1".parse().unwrap(), &[solicited.as_bytes()]),
        NdpReason::BadDestination
    );
    let router = RouterAdvertisement::new(64, RouterFlags::empty(), 0);
    assert_eq!(refuse(A6, "ff02::1".parse().unwrap(), &[router.as_bytes()]), NdpReason::BadSource);
}
