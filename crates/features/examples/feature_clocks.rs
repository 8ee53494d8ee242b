//! What nodes cost that not every packet passes: TSC clocks per packet, node by node, in vectors of 256 packets.
//!
//! ```sh
//! cargo run --release -p quiver-features --features testing --example feature_clocks -- [case] [rounds]
//! ```
//!
//! Packets are made in memory and end in a sink, as with `forwarding_clocks`.

mod clocks;
#[path = "clocks/links.rs"]
mod links;
#[path = "clocks/rate.rs"]
mod rate;
#[path = "clocks/six.rs"]
mod six;
#[path = "clocks/source.rs"]
mod source;
#[path = "clocks/tunnels.rs"]
mod tunnels;

use clocks::{Clocks, Sink, or_exit, print_packets};
use graph::IfIndex;
use graph::engine::MAX_VECTOR;
use graph::port::{Attachment, RxMode, RxPort};
use graph::simd::Tier;
use quiver_features::bridge::Bridges;
use quiver_features::bridge::control::BridgeConfig;
use quiver_features::interface::{Interface, InterfaceAddress, Interfaces, Layer2, LinkMode, Rpf};
use quiver_features::ip::control::{Forwarding, Path, Prefix, SplitRule, Via};
use quiver_features::policer::{INTERFACE_POLICER, Policed, Policers};
use quiver_features::port_split::WithoutPeer;
use quiver_features::testing::Bench;
use source::Source;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use tables::mac::MacTable;
use tunnels::{
    geneve_in, geneve_in6, geneve_out, in_geneve, in_geneve6, in_vxlan, in_vxlan6, vxlan_in, vxlan_in6,
    vxlan_out,
};
use wire::ipv4::Ipv4Header;
use wire::{EtherType, EthernetHeader, IntoBytes, IpProtocol, MacAddr};

/// Interfaces: where packets come in, where they leave, and one more.
const IN: IfIndex = 1;
const OUT: IfIndex = 2;
const THIRD: IfIndex = 3;
/// One end of a tunnel.
const TUNNEL: IfIndex = 4;
/// Where packets are sent to: a host behind a router at `OUT`.
const HOST: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 9);
/// The station that sends them.
const STATION: Ipv4Addr = Ipv4Addr::new(192, 168, 1, 9);
const STATION_MAC: MacAddr = MacAddr([2, 0, 0, 0, 1, 9]);
/// A bridge.
const BRIDGE: u16 = 1;

/// What is measured.
struct Case {
    name: &'static str,
    /// The nodes it is for.
    nodes: &'static [&'static str],
    frame: fn() -> Vec<u8>,
    /// What comes in turn with it.
    also: Option<fn() -> Vec<u8>>,
    furnish: fn(&mut Bench, &mut Forwarding),
}

const fn case(
    name: &'static str,
    nodes: &'static [&'static str],
    frame: fn() -> Vec<u8>,
    furnish: fn(&mut Bench, &mut Forwarding),
) -> Case {
    Case { name, nodes, frame, also: None, furnish }
}

const CASES: &[Case] = &[
    case("rpf", &["ip4-rpf"], udp, rpf),
    case("policer", &["interface-policer"], udp, policer),
    case("split", &["ip4-port-split"], udp, split),
    case("split-learn", &["ip4-port-split-learn"], udp, split_learn),
    case("fragment", &["ip4-fragment"], long, narrow),
    case("echo", &["ip4-local", "icmp4-input", "icmp4-echo"], echo, nothing),
    case("error", &["icmp4-error"], expired, nothing),
    case("arp", &["arp-input"], arp, nothing),
    case("resolve", &["ip4-resolve"], udp, unknown),
    case("flood", &["bridge-flood"], broadcast, bridge),
    case("vxlan-out", &["vxlan-output"], udp, vxlan_out),
    case("geneve-out", &["geneve-output"], udp, geneve_out),
    case("vxlan-in", &["ip4-local", "ip4-vxlan-input"], in_vxlan, vxlan_in),
    case("geneve-in", &["ip4-local", "ip4-geneve-input"], in_geneve, geneve_in),
    case("vxlan-in6", &["ip6-local", "ip6-vxlan-input"], in_vxlan6, vxlan_in6),
    case("geneve-in6", &["ip6-local", "ip6-geneve-input"], in_geneve6, geneve_in6),
];

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let rounds = words.get(1).and_then(|text| text.parse().ok()).unwrap_or(20_000);
    let chosen = |case: &&Case| words.first().is_none_or(|name| name == case.name);
    let all = CASES.iter().chain(links::CASES).chain(six::CASES);
    for case in all.filter(chosen) {
        measure(case, rounds);
    }
}

fn measure(case: &Case, rounds: u32) {
    let mut bench = Bench::new(Tier::detect());
    let mut forwarding = or_exit(Forwarding::new(&bench.plan.schema));
    for index in [IN, OUT, THIRD] {
        let interface = interface(index);
        bench.add_port(index, interface.clone(), "ethernet-input");
        bench.chain("ip4-unicast", index, &[], "ip4-lookup");
        or_exit(forwarding.set_interface(index, Some(&interface)));
        bench.graph.ports.attach(index, Attachment::default(), Box::new(Sink(64)));
    }
    or_exit(forwarding.set_neighbour(IN, STATION.into(), Some(STATION_MAC)));
    or_exit(forwarding.set_neighbour(OUT, router().into(), Some(MacAddr([2, 0, 0, 0, 2, 2]))));
    let via = [Path::from(Via::Address { address: router().into(), interface: None })];
    or_exit(forwarding.add_route(0, or_exit(Prefix::covering(HOST.into(), 24)), &via));
    (case.furnish)(&mut bench, &mut forwarding);
    bench.commit(&mut forwarding);
    if let Some(queues) = bench.graph.queues("test-input") {
        let frames = [Some(case.frame), case.also].into_iter().flatten();
        let source = Box::new(Source::new(frames.map(|frame| frame()).collect(), MAX_VECTOR));
        queues.take(|_| true);
        queues.add(RxPort::new(IN, 0, RxMode::Polling, source));
    }
    let mut clocks = Clocks::start(&bench);
    for _ in 0..rounds {
        // A second a round: what is limited by time never is.
        bench.now += 1_000_000_000;
        bench.round();
        clocks.note(&bench);
        // What the control thread would be told.
        while bench.events.try_recv().is_ok() {}
    }
    print!("{:12}", case.name);
    let wanted = |(node, ..): &(&str, f64, f64)| case.nodes.contains(node);
    let costs: Vec<_> = clocks.of_nodes(&bench).filter(wanted).collect();
    for (node, median, _) in &costs {
        print!("  {node} {median:.1}");
    }
    println!();
    if costs.len() < case.nodes.len() {
        eprintln!("feature_clocks: packets of {} passed only {} of {:?}", case.name, costs.len(), case.nodes);
        std::process::exit(1);
    }
    print_packets(&bench);
}

fn interface(index: IfIndex) -> Interface {
    let address = Ipv4Addr::new(192, 168, index as u8, 1).into();
    Interface {
        exists: true,
        up: true,
        mode: LinkMode::Ethernet,
        mac: MacAddr([2, 0, 0, 0, 0, index as u8]),
        mtu: 1500,
        addresses: Arc::new(vec![InterfaceAddress { address, prefix_len: 24 }]),
        ..Interface::default()
    }
}

fn router() -> Ipv4Addr {
    Ipv4Addr::new(192, 168, OUT as u8, 2)
}

fn nothing(_: &mut Bench, _: &mut Forwarding) {}

/// Nobody has found out where the router is.
fn unknown(_: &mut Bench, forwarding: &mut Forwarding) {
    or_exit(forwarding.set_neighbour(OUT, router().into(), None));
}

fn rpf(bench: &mut Bench, _: &mut Forwarding) {
    bench.set_interface(IN, Interface { rpf: Rpf::Strict, ..interface(IN) });
    bench.chain("ip4-unicast", IN, &["ip4-rpf"], "ip4-lookup");
}

/// A rate that all packets keep to.
fn policer(bench: &mut Bench, _: &mut Forwarding) {
    let policed = Arc::new(Policed::new(&rate::profile(), Arc::default(), bench.now));
    bench.chain("device-input", IN, &[INTERFACE_POLICER], "ethernet-input");
    let key = bench.key::<Policers>();
    bench.publish(|draft| draft.change(key, |all| all.set(IN, policed, true)));
}

fn split_rule() -> SplitRule {
    SplitRule {
        ports: Arc::new([or_exit("udp:80".parse())]),
        matching: Some(Via::Address { address: router().into(), interface: Some(OUT) }),
        others: Via::Interface(THIRD),
        without_peer: WithoutPeer::AsOthers,
    }
}

fn split(_: &mut Bench, forwarding: &mut Forwarding) {
    or_exit(forwarding.add_split_route(0, Prefix::host(IpAddr::V4(HOST)), &split_rule()));
}

/// The packets come from an interface that a split leads to.
fn split_learn(bench: &mut Bench, forwarding: &mut Forwarding) {
    let station = IpAddr::V4(STATION);
    let matching = Some(Via::Address { address: station, interface: Some(IN) });
    or_exit(forwarding.add_split_route(0, Prefix::host(station), &SplitRule { matching, ..split_rule() }));
    bench.chain("ip4-unicast", IN, &["ip4-port-split-learn"], "ip4-lookup");
}

/// Each packet becomes three.
fn narrow(bench: &mut Bench, forwarding: &mut Forwarding) {
    let narrow = Interface { mtu: 576, ..interface(OUT) };
    bench.set_interface(OUT, narrow.clone());
    or_exit(forwarding.set_interface(OUT, Some(&narrow)));
}

/// Each frame goes to two others.
fn bridge(bench: &mut Bench, _: &mut Forwarding) {
    let layer2 = Layer2::Bridge { bridge: BRIDGE, split_horizon_group: 0, bvi: false };
    for index in [IN, OUT, THIRD] {
        bench.set_interface(index, Interface { layer2, ..interface(index) });
        bench.chain("device-input", index, &[], "bridge-input");
    }
    let table = Bridges::new(Arc::new(or_exit(MacTable::with_capacity(64))));
    let (bridges, interfaces) = (bench.key::<Bridges>(), bench.key::<Interfaces>());
    bench.publish(|draft| {
        let mut table = table;
        table.set(BRIDGE, Some(or_exit(BridgeConfig::default().build(BRIDGE, draft.get(interfaces)))));
        draft.set(bridges, table);
    });
}

/// An Ethernet frame from the station to this interface, or to all.
fn framed(dst: MacAddr, ethertype: EtherType, content: &[u8]) -> Vec<u8> {
    let mut frame = EthernetHeader { dst, src: STATION_MAC, ethertype }.as_bytes().to_vec();
    frame.extend_from_slice(content);
    frame.resize(frame.len().max(64), 0);
    frame
}

fn ip(dst: Ipv4Addr, protocol: IpProtocol, ttl: u8, content: &[u8]) -> Vec<u8> {
    let len = (size_of::<Ipv4Header>() + content.len()) as u16;
    let mut packet = Ipv4Header::new(STATION, dst, protocol, ttl, len).as_bytes().to_vec();
    packet.extend_from_slice(content);
    framed(interface(IN).mac, EtherType::IPV4, &packet)
}

/// To port 80, without a checksum.
fn datagram(len: u16) -> Vec<u8> {
    let mut datagram = wire::UdpHeader::new(1234, 80, len).as_bytes().to_vec();
    datagram.resize(len.into(), 0);
    datagram
}

fn udp() -> Vec<u8> {
    ip(HOST, IpProtocol::UDP, 64, &datagram(26))
}

fn long() -> Vec<u8> {
    ip(HOST, IpProtocol::UDP, 64, &datagram(1480))
}

fn expired() -> Vec<u8> {
    ip(HOST, IpProtocol::UDP, 1, &datagram(26))
}

/// An echo request.
fn echo_of(len: usize) -> Vec<u8> {
    let mut content = wire::Icmpv4Header::echo_request(1, 1).as_bytes().to_vec();
    content.resize(len, 0);
    let checksum = wire::checksum::Partial::of(&content).checksum();
    content[2..4].copy_from_slice(&checksum.to_be_bytes());
    content
}

fn echo() -> Vec<u8> {
    ip(Ipv4Addr::new(192, 168, IN as u8, 1), IpProtocol::ICMP, 64, &echo_of(26))
}

fn arp() -> Vec<u8> {
    let request = wire::ArpPacket::request(STATION_MAC, STATION, Ipv4Addr::new(192, 168, IN as u8, 1));
    framed(MacAddr::BROADCAST, EtherType::ARP, request.as_bytes())
}

fn broadcast() -> Vec<u8> {
    framed(MacAddr::BROADCAST, EtherType::new(0x88b5), &[])
}
