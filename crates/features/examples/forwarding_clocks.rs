//! What the forwarding nodes cost: TSC clocks per packet, node by node, for 64-byte packets in vectors of 256.
//!
//! ```sh
//! cargo run --release -p quiver-features --features testing --example forwarding_clocks -- [routes] [rounds] [tier] [4|6]
//! ```
//!
//! Packets are made in memory and end in a sink, so that the figures are those of the nodes in a warm cache; what a port
//! costs is measured with real ports.

mod clocks;
#[path = "clocks/source.rs"]
mod source;

use clocks::{Clocks, Sink, or_exit, print_packets};
use graph::IfIndex;
use graph::port::{Attachment, RxMode, RxPort};
use graph::simd::Tier;
use quiver_features::interface::{Interface, InterfaceAddress, LinkMode};
use quiver_features::ip::control::{Forwarding, Path, Prefix, Via};
use quiver_features::testing::Bench;
use source::Source;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use wire::ipv4::Ipv4Header;
use wire::ipv6::Ipv6Header;
use wire::{EtherType, EthernetHeader, IntoBytes, IpProtocol, MacAddr};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| words.get(at).and_then(|text| text.parse::<u32>().ok());
    let (routes, rounds) = (number(0).unwrap_or(1).max(1), number(1).unwrap_or(20_000));
    let tiers = Tier::available().into_iter();
    for tier in tiers.filter(|tier| words.get(2).is_none_or(|only| only == tier.name())) {
        for v6 in [false, true] {
            if words.get(3).is_none_or(|only| (only == "6") == v6) {
                measure(tier, v6, routes, rounds);
            }
        }
    }
}

fn measure(tier: Tier, v6: bool, routes: u32, rounds: u32) {
    let mut bench = Bench::new(tier);
    let mut forwarding = or_exit(Forwarding::new(&bench.plan.schema));
    let address = |index: IfIndex, host: u8| -> IpAddr {
        if v6 {
            [0x2001, 0xdb8, index, 0, 0, 0, 0, host.into()].into()
        } else {
            [192, 168, index as u8, host].into()
        }
    };
    for index in 1..=2 {
        let own = InterfaceAddress { address: address(index, 1), prefix_len: if v6 { 64 } else { 24 } };
        let interface = Interface {
            exists: true,
            up: true,
            mode: LinkMode::Ethernet,
            mac: MacAddr([2, 0, 0, 0, 0, index as u8]),
            mtu: 1500,
            addresses: Arc::new(vec![own]),
            ..Interface::default()
        };
        bench.add_port(index, interface.clone(), "ethernet-input");
        bench.chain("ip4-unicast", index, &[], "ip4-lookup");
        bench.chain("ip6-unicast", index, &[], "ip6-lookup");
        or_exit(forwarding.set_interface(index, Some(&interface)));
    }
    or_exit(forwarding.set_neighbour(2, address(2, 2), Some(MacAddr([2, 0, 0, 0, 2, 2]))));
    let via = [Path::from(Via::Address { address: address(2, 2), interface: None })];
    let target = |n: u32| -> IpAddr {
        let bits = 0x0a00_0000 + n * 256 % 0x0100_0000;
        if v6 {
            Ipv6Addr::from(u128::from(bits) << 80 | 0x2000 << 112 | 9).into()
        } else {
            Ipv4Addr::from(bits + 9).into()
        }
    };
    for n in 0..routes {
        let prefix = or_exit(Prefix::covering(target(n), if v6 { 48 } else { 24 }));
        or_exit(forwarding.add_route(0, prefix, &via));
    }
    bench.commit(&mut forwarding);
    let mut random = 1u32;
    let frames = (0..routes.clamp(256, 65536)).map(|_| {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        // Hosts of a network differ, so that packets to one route are to many destinations.
        frame(address(1, 9), with_host(target((random >> 8) % routes), (random >> 24) as u8))
    });
    bench.graph.ports.attach(2, Attachment::default(), Box::new(Sink(64)));
    let source = Box::new(Source::new(frames.collect()));
    if let Some(queues) = bench.graph.queues("test-input") {
        queues.list = vec![RxPort::new(1, 0, RxMode::Polling, source)];
    }
    let mut clocks = Clocks::start(&bench);
    for _ in 0..rounds {
        bench.round();
        clocks.note(&bench);
    }
    print!("{:7} IPv{} {routes:8} routes:", tier.name(), if v6 { 6 } else { 4 });
    for (node, median, _) in clocks.of_nodes(&bench) {
        print!("  {node} {median:.1}");
    }
    println!();
    print_packets(&bench);
}

/// The address with another last octet.
fn with_host(address: IpAddr, host: u8) -> IpAddr {
    match address {
        IpAddr::V4(address) => Ipv4Addr::from(address.to_bits() & !0xff | u32::from(host)).into(),
        IpAddr::V6(address) => Ipv6Addr::from(address.to_bits() & !0xff | u128::from(host)).into(),
    }
}

/// 64 bytes of UDP over IP over Ethernet.
fn frame(src: IpAddr, dst: IpAddr) -> Vec<u8> {
    let ethertype = if dst.is_ipv4() { EtherType::IPV4 } else { EtherType::IPV6 };
    let ethernet =
        EthernetHeader { dst: MacAddr([2, 0, 0, 0, 0, 1]), src: MacAddr([2, 0, 0, 0, 1, 9]), ethertype };
    let mut frame = ethernet.as_bytes().to_vec();
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            frame.extend(Ipv4Header::new(src, dst, IpProtocol::UDP, 64, 50).as_bytes());
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            frame.extend(Ipv6Header::new(src, dst, IpProtocol::UDP, 64, 10).as_bytes());
        }
        _ => {}
    }
    frame.extend([0x04, 0xd2, 0, 80]);
    frame.resize(64, 0);
    frame
}
