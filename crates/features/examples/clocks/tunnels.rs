//! Tunnels beneath `feature_clocks`: what goes into them, and what comes out.

use crate::clocks::or_exit;
use crate::{HOST, IN, OUT, STATION, TUNNEL, framed, interface, ip, router, six, udp};
use quiver_features::interface::{Interface, Interfaces};
use quiver_features::ip::control::{Forwarding, Path, Prefix, Via};
use quiver_features::testing::Bench;
use quiver_features::tunnel::{Dscp, Encapsulation, Tunnel, Tunnels};
use std::net::{IpAddr, Ipv4Addr};
use wire::{EtherType, GeneveHeader, IntoBytes, IpProtocol, MacAddr, UdpHeader, VxlanHeader};

/// Network identifier of all of them.
const VNI: u32 = 100;

/// Packets for the host behind the tunnel go into it.
pub fn vxlan_out(bench: &mut Bench, forwarding: &mut Forwarding) {
    out(bench, forwarding, Encapsulation::Vxlan);
}

/// The same by Geneve.
pub fn geneve_out(bench: &mut Bench, forwarding: &mut Forwarding) {
    out(bench, forwarding, Encapsulation::Geneve);
}

/// Packets come out of a tunnel from the station.
pub fn vxlan_in(bench: &mut Bench, forwarding: &mut Forwarding) {
    lay(bench, forwarding, Encapsulation::Vxlan, (own(IN), STATION));
}

/// The same by Geneve.
pub fn geneve_in(bench: &mut Bench, forwarding: &mut Forwarding) {
    lay(bench, forwarding, Encapsulation::Geneve, (own(IN), STATION));
}

/// The same over IPv6.
pub fn vxlan_in6(bench: &mut Bench, forwarding: &mut Forwarding) {
    six::network(bench, forwarding);
    lay(bench, forwarding, Encapsulation::Vxlan, six::ends());
}

/// The same by Geneve.
pub fn geneve_in6(bench: &mut Bench, forwarding: &mut Forwarding) {
    six::network(bench, forwarding);
    lay(bench, forwarding, Encapsulation::Geneve, six::ends());
}

/// What the station sends through a VXLAN tunnel.
pub fn in_vxlan() -> Vec<u8> {
    carried(VxlanHeader::PORT, VxlanHeader::new(VNI).as_bytes(), v4)
}

/// What it sends through a Geneve tunnel.
pub fn in_geneve() -> Vec<u8> {
    carried(GeneveHeader::PORT, GeneveHeader::new(VNI, EtherType::TRANSPARENT_ETHERNET).as_bytes(), v4)
}

/// What it sends through a VXLAN tunnel over IPv6, with a checksum.
pub fn in_vxlan6() -> Vec<u8> {
    carried(VxlanHeader::PORT, VxlanHeader::new(VNI).as_bytes(), six::summed)
}

/// The same by Geneve.
pub fn in_geneve6() -> Vec<u8> {
    carried(
        GeneveHeader::PORT,
        GeneveHeader::new(VNI, EtherType::TRANSPARENT_ETHERNET).as_bytes(),
        six::summed,
    )
}

fn v4(content: &[u8]) -> Vec<u8> {
    ip(own(IN), IpProtocol::UDP, 64, content)
}

fn own(index: u16) -> Ipv4Addr {
    Ipv4Addr::new(192, 168, index as u8, 1)
}

fn out(bench: &mut Bench, forwarding: &mut Forwarding, encapsulation: Encapsulation) {
    lay(bench, forwarding, encapsulation, (own(OUT), router()));
    let beyond = IpAddr::V4(Ipv4Addr::new(192, 168, TUNNEL as u8, 2));
    or_exit(forwarding.set_neighbour(TUNNEL, beyond, Some(MacAddr([2, 0, 0, 0, TUNNEL as u8, 2]))));
    let via = [Path::from(Via::Address { address: beyond, interface: Some(TUNNEL) })];
    or_exit(forwarding.add_route(0, Prefix::host(IpAddr::V4(HOST)), &via));
}

/// An interface that is one end of a tunnel between these addresses.
fn lay<A: Into<IpAddr>>(
    bench: &mut Bench,
    forwarding: &mut Forwarding,
    encapsulation: Encapsulation,
    (local, remote): (A, A),
) {
    let port = match encapsulation {
        Encapsulation::Vxlan => VxlanHeader::PORT,
        Encapsulation::Geneve => GeneveHeader::PORT,
    };
    let tunnel = Tunnel {
        encapsulation,
        local: local.into(),
        remote: remote.into(),
        vni: VNI,
        port,
        vrf: 0,
        ttl: 64,
        dscp: Dscp::Fixed(0),
        checksum: false,
    };
    let end = Interface { mtu: 1450, tunnel: Some(tunnel), ..interface(TUNNEL) };
    bench.set_interface(TUNNEL, end.clone());
    bench.chain("device-input", TUNNEL, &[], "ethernet-input");
    bench.chain("interface-output", TUNNEL, &[], encapsulation.output());
    bench.chain("ip4-unicast", TUNNEL, &[], "ip4-lookup");
    or_exit(forwarding.set_interface(TUNNEL, Some(&end)));
    let (interfaces, tunnels) = (bench.key::<Interfaces>(), bench.key::<Tunnels>());
    bench.publish(|draft| {
        let all = Tunnels::of(draft.get(interfaces));
        draft.set(tunnels, all);
    });
}

fn carried(port: u16, header: &[u8], by: fn(&[u8]) -> Vec<u8>) -> Vec<u8> {
    let inside = framed(interface(TUNNEL).mac, EtherType::IPV4, &udp()[14..]);
    let len = size_of::<UdpHeader>() + header.len() + inside.len();
    let mut content = UdpHeader::new(49_152, port, len as u16).as_bytes().to_vec();
    content.extend_from_slice(header);
    content.extend_from_slice(&inside);
    by(&content)
}
