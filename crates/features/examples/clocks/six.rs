//! IPv6 beneath `feature_clocks`: what its nodes take of the same packets.

use crate::clocks::or_exit;
use crate::{Case, IN, OUT, STATION_MAC, THIRD, case, interface};
use graph::IfIndex;
use quiver_features::interface::{Interface, InterfaceAddress, Rpf};
use quiver_features::ip::control::{Forwarding, Path, Prefix, SplitRule, Via};
use quiver_features::port_split::WithoutPeer;
use quiver_features::testing::Bench;
use std::net::Ipv6Addr;
use std::sync::Arc;
use wire::checksum::Partial;
use wire::ipv6::{FragmentHeader, Ipv6Header, solicited_node};
use wire::ndp::{LinkLayerAddress, NeighborSolicitation};
use wire::{EtherType, EthernetHeader, Header, Icmpv6Header, IntoBytes, IpProtocol, MacAddr, UdpHeader};

/// What is measured of it.
pub const CASES: &[Case] = &[
    case("rpf6", &["ip6-rpf"], udp, rpf),
    case("split6", &["ip6-port-split"], udp, split),
    case("split-learn6", &["ip6-port-split-learn"], udp, split_learn),
    case("fragment6", &["ip6-fragment"], long_echo, narrow),
    Case {
        also: Some(last_fragment),
        ..case("reassembly6", &["ip6-local", "ip6-reassembly"], first_fragment, network)
    },
    case("echo6", &["ip6-local", "icmp6-input", "icmp6-echo"], echo, network),
    case("error6", &["icmp6-error"], expired, network),
    case("resolve6", &["ip6-resolve"], udp, unknown),
    case("nd", &["ip6-nd"], solicitation, network),
];

/// Where packets are sent to: a host behind the router at `OUT`.
const HOST: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0x10, 0, 0, 0, 0, 9);

fn address(index: IfIndex, host: u16) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, index, 0, 0, 0, 0, host)
}

fn station() -> Ipv6Addr {
    address(IN, 9)
}

fn dual(index: IfIndex) -> Interface {
    let own = InterfaceAddress { address: address(index, 1).into(), prefix_len: 64 };
    Interface { addresses: Arc::new(vec![own]), ..interface(index) }
}

/// Both ends of a tunnel: ours, and the station.
pub fn ends() -> (Ipv6Addr, Ipv6Addr) {
    (address(IN, 1), station())
}

/// A datagram from the station to us: the UDP header, whose checksum isn't there yet, and what follows.
pub fn summed(content: &[u8]) -> Vec<u8> {
    let (len, mut content) = (content.len(), content.to_vec());
    let header = Ipv6Header::new(station(), address(IN, 1), IpProtocol::UDP, 64, len as u16);
    let sum = header.pseudo_header(IpProtocol::UDP, len as u32).plus(Partial::of(&content));
    content[6..8].copy_from_slice(&sum.checksum().to_be_bytes());
    ip(address(IN, 1), IpProtocol::UDP, 64, &content)
}

/// The network of IPv4, by IPv6.
pub fn network(bench: &mut Bench, forwarding: &mut Forwarding) {
    for index in [IN, OUT, THIRD] {
        bench.set_interface(index, dual(index));
        bench.chain("ip6-unicast", index, &[], "ip6-lookup");
        or_exit(forwarding.set_interface(index, Some(&dual(index))));
    }
    or_exit(forwarding.set_neighbour(IN, station().into(), Some(STATION_MAC)));
    or_exit(forwarding.set_neighbour(OUT, address(OUT, 2).into(), Some(MacAddr([2, 0, 0, 0, 2, 2]))));
    let via = [Path::from(Via::Address { address: address(OUT, 2).into(), interface: None })];
    or_exit(forwarding.add_route(0, or_exit(Prefix::covering(HOST.into(), 64)), &via));
}

fn unknown(bench: &mut Bench, forwarding: &mut Forwarding) {
    network(bench, forwarding);
    or_exit(forwarding.set_neighbour(OUT, address(OUT, 2).into(), None));
}

fn rpf(bench: &mut Bench, forwarding: &mut Forwarding) {
    network(bench, forwarding);
    bench.set_interface(IN, Interface { rpf: Rpf::Strict, ..dual(IN) });
    bench.chain("ip6-unicast", IN, &["ip6-rpf"], "ip6-lookup");
}

fn split_rule() -> SplitRule {
    SplitRule {
        ports: Arc::new([or_exit("udp:80".parse())]),
        matching: Some(Via::Address { address: address(OUT, 2).into(), interface: Some(OUT) }),
        others: Via::Interface(THIRD),
        without_peer: WithoutPeer::AsOthers,
    }
}

fn split(bench: &mut Bench, forwarding: &mut Forwarding) {
    network(bench, forwarding);
    or_exit(forwarding.add_split_route(0, Prefix::host(HOST.into()), &split_rule()));
}

fn split_learn(bench: &mut Bench, forwarding: &mut Forwarding) {
    network(bench, forwarding);
    let matching = Some(Via::Address { address: station().into(), interface: Some(IN) });
    let rule = SplitRule { matching, ..split_rule() };
    or_exit(forwarding.add_split_route(0, Prefix::host(station().into()), &rule));
    bench.chain("ip6-unicast", IN, &["ip6-port-split-learn"], "ip6-lookup");
}

/// A reply becomes two.
fn narrow(bench: &mut Bench, forwarding: &mut Forwarding) {
    network(bench, forwarding);
    let narrow = Interface { mtu: 1280, ..dual(IN) };
    bench.set_interface(IN, narrow.clone());
    or_exit(forwarding.set_interface(IN, Some(&narrow)));
}

fn framed(mac: MacAddr, packet: &[u8]) -> Vec<u8> {
    let header = EthernetHeader { dst: mac, src: STATION_MAC, ethertype: EtherType::IPV6 };
    let mut frame = header.as_bytes().to_vec();
    frame.extend_from_slice(packet);
    frame
}

fn ip(dst: Ipv6Addr, protocol: IpProtocol, hops: u8, content: &[u8]) -> Vec<u8> {
    let mut packet =
        Ipv6Header::new(station(), dst, protocol, hops, content.len() as u16).as_bytes().to_vec();
    packet.extend_from_slice(content);
    let mac = match dst.octets() {
        [0xff, .., a, b, c, d] => MacAddr([0x33, 0x33, a, b, c, d]),
        _ => interface(IN).mac,
    };
    framed(mac, &packet)
}

fn datagram() -> Vec<u8> {
    let mut datagram = UdpHeader::new(1234, 80, 26).as_bytes().to_vec();
    datagram.resize(26, 0);
    datagram
}

fn udp() -> Vec<u8> {
    ip(HOST, IpProtocol::UDP, 64, &datagram())
}

fn expired() -> Vec<u8> {
    ip(HOST, IpProtocol::UDP, 1, &datagram())
}

/// A message with its checksum.
fn icmp(dst: Ipv6Addr, hops: u8, mut content: Vec<u8>) -> Vec<u8> {
    let len = content.len();
    let header = Ipv6Header::new(station(), dst, IpProtocol::ICMPV6, hops, len as u16);
    let sum = header.pseudo_header(IpProtocol::ICMPV6, len as u32).plus(Partial::of(&content));
    content[2..4].copy_from_slice(&sum.checksum().to_be_bytes());
    ip(dst, IpProtocol::ICMPV6, hops, &content)
}

fn echo_of(len: usize) -> Vec<u8> {
    let mut content = Icmpv6Header::echo_request(1, 1).as_bytes().to_vec();
    content.resize(len, 0);
    icmp(address(IN, 1), 64, content)
}

fn echo() -> Vec<u8> {
    echo_of(26)
}

fn long_echo() -> Vec<u8> {
    echo_of(1400)
}

fn solicitation() -> Vec<u8> {
    let mut content = NeighborSolicitation::new(address(IN, 1)).as_bytes().to_vec();
    content.extend_from_slice(LinkLayerAddress::source(STATION_MAC).as_bytes());
    icmp(solicited_node(address(IN, 1)), 255, content)
}

/// Half of an echo request of 128 bytes to this interface, and the rest.
fn first_fragment() -> Vec<u8> {
    fragment(0, true)
}

fn last_fragment() -> Vec<u8> {
    fragment(64, false)
}

fn fragment(offset: usize, more: bool) -> Vec<u8> {
    let mut content = FragmentHeader::new(IpProtocol::ICMPV6, offset, more, 7).as_bytes().to_vec();
    let whole = echo_of(128).split_off(14 + Ipv6Header::LEN);
    content.extend_from_slice(&whole[offset..offset + 64]);
    ip(address(IN, 1), IpProtocol::FRAGMENT, 64, &content)
}
