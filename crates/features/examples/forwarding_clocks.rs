//! What the forwarding nodes cost: TSC clocks per packet, node by node, for 64-byte packets in vectors of 256, or of fewer.
//!
//! ```sh
//! cargo run --release -p quiver-features --features testing --example forwarding_clocks -- [routes] [rounds] [tier] [4|6] [next hops] [long] [vector=N]
//! ```
//!
//! Routes lie side by side (/24 and /48), and lead to the next hops (one by default, at most 200) in turn; `internet` instead of their
//! number stands for an IPv6 table of the Internet's shape, whose packets go to half a million addresses.
//!
//! `long`: they go node by node, and not through `ip-forward`. `vector=N`: N packets a vector, 256 at most.
//!
//! Packets are made in memory and end in a sink, so that the figures are those of the nodes in a warm cache; what a port
//! costs is measured with real ports.

mod clocks;
#[path = "clocks/source.rs"]
mod source;

use clocks::{Clocks, Sink, or_exit, print_packets};
use graph::IfIndex;
use graph::engine::MAX_VECTOR;
use graph::port::{Attachment, RxMode, RxPort};
use graph::simd::Tier;
use quiver_features::interface::{Interface, InterfaceAddress, LinkMode};
use quiver_features::ip::control::{Forwarding, Path, Prefix, Via};
use quiver_features::testing::Bench;
use source::Source;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use wire::ipv4::Ipv4Header;
use wire::ipv6::Ipv6Header;
use wire::{EtherType, EthernetHeader, IntoBytes, IpProtocol, MacAddr};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| words.get(at).and_then(|text| text.parse::<u32>().ok());
    let shape = match words.first().map(String::as_str) {
        Some("internet") => Shape::Internet,
        _ => Shape::Side(number(0).unwrap_or(1).max(1)),
    };
    let rounds = number(1).unwrap_or(20_000);
    let hops = number(4).unwrap_or(1).clamp(1, 200) as u8;
    let way = if words.iter().any(|word| word == "long") { "ethernet-input" } else { "ip-forward" };
    let few = words.iter().find_map(|word| word.strip_prefix("vector=")?.parse().ok());
    let load = Load { rounds, at_once: few.unwrap_or(MAX_VECTOR).clamp(1, MAX_VECTOR) };
    let tiers = Tier::available().into_iter();
    for tier in tiers.filter(|tier| words.get(2).is_none_or(|only| only == tier.name())) {
        for v6 in [false, true] {
            if words.get(3).is_none_or(|only| (only == "6") == v6) && (v6 || shape != Shape::Internet) {
                measure(tier, v6, shape, load, hops, way);
            }
        }
    }
}

/// What routes there are.
#[derive(Clone, Copy, PartialEq)]
enum Shape {
    /// So many, side by side.
    Side(u32),
    /// 250 000 of IPv6 as in the Internet.
    Internet,
}

/// How much comes.
#[derive(Clone, Copy)]
struct Load {
    rounds: u32,
    /// Packets a round.
    at_once: usize,
}

fn measure(tier: Tier, v6: bool, shape: Shape, load: Load, hops: u8, way: &str) {
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
        bench.add_port(index, interface.clone(), way);
        bench.chain("ip4-unicast", index, &[], "ip4-lookup");
        bench.chain("ip6-unicast", index, &[], "ip6-lookup");
        or_exit(forwarding.set_interface(index, Some(&interface)));
    }
    let routers = 2..2 + hops;
    for router in routers.clone() {
        or_exit(forwarding.set_neighbour(2, address(2, router), Some(MacAddr([2, 0, 0, 0, 2, router]))));
    }
    let via = |router| [Path::from(Via::Address { address: address(2, router), interface: None })];
    let target = |n: u32| -> IpAddr {
        let bits = 0x0a00_0000 + n * 256 % 0x0100_0000;
        if v6 {
            Ipv6Addr::from(u128::from(bits) << 80 | 0x2000 << 112 | 9).into()
        } else {
            Ipv4Addr::from(bits + 9).into()
        }
    };
    let side_by_side = |n| (target(n), if v6 { 48 } else { 24 });
    let networks: Vec<(IpAddr, u8)> = match shape {
        Shape::Side(routes) => (0..routes).map(side_by_side).collect(),
        Shape::Internet => internet(),
    };
    for ((network, len), router) in networks.iter().zip(routers.cycle()) {
        let prefix = or_exit(Prefix::covering(*network, *len));
        or_exit(forwarding.add_route(0, prefix, &via(router)));
    }
    bench.commit(&mut forwarding);
    let mut random = Random(1);
    let frames: Vec<Vec<u8>> = match shape {
        // Hosts of a network differ, so that packets to one route are to many destinations.
        Shape::Side(routes) => (0..routes.clamp(256, 65536))
            .map(|_| frame(address(1, 9), with_host(target(random.below(routes)), random.next() as u8)))
            .collect(),
        Shape::Internet => {
            let drawn = (0..500_000).map(|_| networks[random.below(networks.len() as u32) as usize]);
            let drawn: Vec<(IpAddr, u8)> = drawn.collect();
            drawn
                .iter()
                .map(|(network, len)| frame(address(1, 9), within(*network, *len, &mut random)))
                .collect()
        }
    };
    bench.graph.ports.attach(2, Attachment::default(), Box::new(Sink(64)));
    let source = Box::new(Source::new(frames, load.at_once));
    if let Some(queues) = bench.graph.queues("test-input") {
        queues.take(|_| true);
        queues.add(RxPort::new(1, 0, RxMode::Polling, source));
    }
    let mut clocks = Clocks::start(&bench);
    for _ in 0..load.rounds {
        bench.round();
        clocks.note(&bench);
    }
    print!("{:7} IPv{} {:8} routes:", tier.name(), if v6 { 6 } else { 4 }, networks.len());
    for (node, median, _) in clocks.of_nodes(&bench) {
        print!("  {node} {median:.1}");
    }
    println!();
    print_packets(&bench);
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, limit: u32) -> u32 {
        (self.next() % u64::from(limit)) as u32
    }
}

/// Networks and their lengths as `quiver-bench` has them for the case `ip6internet`: /32s in the seven ranges of the registries, half of what
/// is longer in an eighth of them.
fn internet() -> Vec<(IpAddr, u8)> {
    const REGISTRIES: [u32; 7] =
        [0x2000_0000, 0x2400_0000, 0x2600_0000, 0x2800_0000, 0x2a00_0000, 0x2a10_0000, 0x2c00_0000];
    const LENGTHS: [(u8, usize); 17] = [
        (24, 250),
        (28, 1500),
        (29, 7500),
        (30, 1500),
        (31, 1000),
        (33, 4500),
        (34, 4250),
        (35, 3000),
        (36, 12_500),
        (38, 3750),
        (40, 26_250),
        (42, 5000),
        (44, 27_500),
        (45, 3000),
        (46, 6250),
        (47, 6250),
        (48, 104_749),
    ];
    let mut random = Random(6);
    let mut allocations = BTreeSet::new();
    while allocations.len() < 31_250 {
        allocations.insert(REGISTRIES[random.below(7) as usize] | random.below(1 << 20));
    }
    let mut allocations: Vec<u32> = allocations.into_iter().collect();
    for at in 1..allocations.len() {
        allocations.swap(at, random.below(at as u32 + 1) as usize);
    }
    let mut all: BTreeSet<(u128, u8)> =
        allocations.iter().map(|network| (u128::from(*network) << 96, 32)).collect();
    for (len, count) in LENGTHS {
        let until = all.len() + count;
        while all.len() < until {
            let many =
                if random.next().is_multiple_of(2) { allocations.len() / 8 } else { allocations.len() };
            let network = u128::from(allocations[random.below(many as u32) as usize]) << 96;
            let network = network | u128::from(random.next()) << 32;
            all.insert((network & (u128::MAX << (128 - len)), len));
        }
    }
    all.into_iter().map(|(network, len)| (Ipv6Addr::from(network).into(), len)).collect()
}

/// An address anywhere in a network.
fn within(network: IpAddr, len: u8, random: &mut Random) -> IpAddr {
    let IpAddr::V6(network) = network else { return network };
    let host = u128::from(random.next()) << 64 | u128::from(random.next());
    Ipv6Addr::from(network.to_bits() | host & (u128::MAX >> len)).into()
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
