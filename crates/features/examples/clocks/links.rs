//! What is behind and between interfaces, beneath `feature_clocks`: VLANs, cross-connects, a bridge's routed leg, reassembly.

use crate::clocks::or_exit;
use crate::{BRIDGE, Case, HOST, IN, OUT, STATION, THIRD, case, echo_of, framed, interface, udp};
use graph::IfIndex;
use quiver_features::bridge::Bridges;
use quiver_features::bridge::control::BridgeConfig;
use quiver_features::interface::control::stack;
use quiver_features::interface::{Interface, Interfaces, Layer2, LinkMode, VlanTags};
use quiver_features::ip::control::{Forwarding, Path, Prefix, Via};
use quiver_features::testing::Bench;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use tables::mac::MacTable;
use wire::ipv4::Ipv4Header;
use wire::{EtherType, IntoBytes, IpProtocol, MacAddr};

/// What is measured of it.
pub const CASES: &[Case] = &[
    case("cross", &["cross-connect"], udp, cross),
    case("vlan-in", &["ethernet-input"], tagged, vlan_in),
    case("vlan-out", &["vlan-output"], udp, vlan_out),
    case("bvi-in", &["bvi-input"], to_leg, bvi_in),
    case("bvi-out", &["bvi-output"], udp, bvi_out),
    case("l3", &["l3-input"], bare, l3),
    Case {
        also: Some(last_fragment),
        ..case("reassembly", &["ip4-local", "ip4-reassembly"], first_fragment, nothing)
    },
];

/// A sub-interface, or the routed leg of a bridge.
const UPPER: IfIndex = 5;
const UPPER_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, UPPER as u8]);
const TAGS: VlanTags = VlanTags { outer_type: 0x8100, outer: 5, inner: 0 };

fn nothing(_: &mut Bench, _: &mut Forwarding) {}

fn cross(bench: &mut Bench, _: &mut Forwarding) {
    bench.set_interface(IN, Interface { layer2: Layer2::CrossConnect { peer: OUT }, ..interface(IN) });
    bench.chain("device-input", IN, &[], "cross-connect");
}

/// An interface above others that routes, and has the ends given.
fn upper(bench: &mut Bench, forwarding: &mut Forwarding, interface: &Interface, output: &str) {
    bench.set_interface(UPPER, interface.clone());
    bench.chain("device-input", UPPER, &[], "ethernet-input");
    bench.chain("interface-output", UPPER, &[], output);
    bench.chain("ip4-unicast", UPPER, &[], "ip4-lookup");
    or_exit(forwarding.set_interface(UPPER, Some(interface)));
    let interfaces = bench.key::<Interfaces>();
    bench.publish(|draft| draft.change(interfaces, |table| or_exit(stack(table))));
}

/// The host is behind the interface above.
fn host_above(forwarding: &mut Forwarding) {
    let beyond = IpAddr::V4(Ipv4Addr::new(192, 168, UPPER as u8, 2));
    or_exit(forwarding.set_neighbour(UPPER, beyond, Some(MacAddr([2, 0, 0, 0, 2, 2]))));
    let via = [Path::from(Via::Address { address: beyond, interface: Some(UPPER) })];
    or_exit(forwarding.add_route(0, Prefix::host(IpAddr::V4(HOST)), &via));
}

fn vlan_in(bench: &mut Bench, forwarding: &mut Forwarding) {
    let sub = Interface { vlan: Some((IN, TAGS)), ..interface(UPPER) };
    upper(bench, forwarding, &sub, "vlan-output");
}

fn vlan_out(bench: &mut Bench, forwarding: &mut Forwarding) {
    let sub = Interface { vlan: Some((OUT, TAGS)), ..interface(UPPER) };
    upper(bench, forwarding, &sub, "vlan-output");
    host_above(forwarding);
}

/// A bridge of the ports given, with a routed leg.
fn bridge(bench: &mut Bench, forwarding: &mut Forwarding, ports: &[IfIndex]) {
    let layer2 = |bvi| Layer2::Bridge { bridge: BRIDGE, split_horizon_group: 0, bvi };
    for index in ports {
        bench.set_interface(*index, Interface { layer2: layer2(false), ..interface(*index) });
        bench.chain("device-input", *index, &[], "bridge-input");
    }
    let leg = Interface { layer2: layer2(true), ..interface(UPPER) };
    upper(bench, forwarding, &leg, "bvi-output");
    let table = Bridges::new(Arc::new(or_exit(MacTable::with_capacity(64))));
    let (bridges, interfaces) = (bench.key::<Bridges>(), bench.key::<Interfaces>());
    bench.publish(|draft| {
        let mut table = table;
        table.set(BRIDGE, Some(or_exit(BridgeConfig::default().build(BRIDGE, draft.get(interfaces)))));
        draft.set(bridges, table);
    });
}

fn bvi_in(bench: &mut Bench, forwarding: &mut Forwarding) {
    bridge(bench, forwarding, &[IN, THIRD]);
}

fn bvi_out(bench: &mut Bench, forwarding: &mut Forwarding) {
    bridge(bench, forwarding, &[OUT, THIRD]);
    host_above(forwarding);
}

fn l3(bench: &mut Bench, _: &mut Forwarding) {
    bench.set_interface(IN, Interface { mode: LinkMode::Ip, ..interface(IN) });
    bench.chain("device-input", IN, &[], "l3-input");
}

fn tagged() -> Vec<u8> {
    let mut frame = udp();
    frame[..6].copy_from_slice(UPPER_MAC.as_bytes());
    frame.splice(12..12, [0x81, 0, 0, 5]);
    frame
}

fn to_leg() -> Vec<u8> {
    framed(UPPER_MAC, EtherType::IPV4, &udp()[14..])
}

fn bare() -> Vec<u8> {
    udp().split_off(14)
}

/// Half of an echo request of 128 bytes to this interface, and the rest.
fn first_fragment() -> Vec<u8> {
    fragment(0, true)
}

fn last_fragment() -> Vec<u8> {
    fragment(64, false)
}

fn fragment(offset: u16, more: bool) -> Vec<u8> {
    let dst = Ipv4Addr::new(192, 168, IN as u8, 1);
    let mut packet = Ipv4Header::new(STATION, dst, IpProtocol::ICMP, 64, 84).as_bytes().to_vec();
    packet[4..6].copy_from_slice(&7_u16.to_be_bytes());
    packet[6..8].copy_from_slice(&((u16::from(more) << 13) | (offset / 8)).to_be_bytes());
    packet[10..12].fill(0);
    let checksum = wire::checksum::Partial::of(&packet).checksum();
    packet[10..12].copy_from_slice(&checksum.to_be_bytes());
    let whole = echo_of(128);
    packet.extend_from_slice(&whole[usize::from(offset)..][..64]);
    framed(interface(IN).mac, EtherType::IPV4, &packet)
}
