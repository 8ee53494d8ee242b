//! `ip4-rpf`: drops packets whose source address isn't behind the interface they came in by (RFC 3704).
//!
//! | edge | packets |
//! |---|---|
//! | *arc `ip4-unicast`* | believed |
//! | `drop` | see [`rpf::Drop`] |
//!
//! An interface's [`Rpf`](crate::interface::Rpf) says how strict it is; with several ways back each of them
//! counts, also one that other VRFs lead to. The default route is a route back like any other.

use crate::ip::family::V4;
use crate::ip::rpf::{self, ReversePath};
use graph::{Feature, NodeSpec};

graph::edges! {
    /// Where packets go besides the arc.
    enum Next {
        Drop => "drop",
    }
}

/// The node's declaration.
pub const NODE: NodeSpec = NodeSpec {
    name: "ip4-rpf",
    help: "Checks that a route leads back to the source of IPv4 packets.",
    edges: Next::NAMES,
    drops: rpf::Drop::SPECS,
    features: &[Feature { arc: super::UNICAST, runs_before: &[], runs_after: &[] }],
    make: |cx| ReversePath::<V4>::boxed(cx, super::UNICAST),
    ..NodeSpec::EMPTY
};

#[cfg(test)]
mod tests {
    use crate::interface::{Interface, Rpf};
    use crate::ip::control::{Path, Via};
    use crate::ip::topology::{self, address, prefix};
    use crate::testing::{Bench, forwarding_nodes, rows, run_table_on};
    use graph::simd::Tier;
    use std::sync::Arc;
    use wire::{EtherType, EthernetHeader, IntoBytes, IpProtocol, Ipv4Header, MacAddr};

    /// What interface 1 may send from besides: a foreign network, some hosts of interface 2's, and one of our own addresses.
    const ALLOWED: &[(&str, &str)] =
        &[("198.51.100.0", "198.51.100.255"), ("10.0.2.20", "10.0.2.22"), ("10.0.3.1", "10.0.3.1")];

    #[test]
    fn sources_are_believed_where_a_route_leads_back() {
        let rows = rows(include_str!("../../tests/vectors/rpf4.txt"));
        run_table_on(&forwarding_nodes(), &rows, |bench| {
            topology::set_up(bench, 1500);
            for (index, rpf) in [(1, Rpf::Strict), (2, Rpf::Strict), (3, Rpf::Loose), (5, Rpf::Strict)] {
                let allowed = if index == 1 { ALLOWED } else { &[] };
                let range = |(first, last): &(&str, &str)| (address(first), address(last));
                let allowed_sources = Arc::new(allowed.iter().map(range).collect());
                let interface = Interface { rpf, allowed_sources, ..topology::interface(index, 1500) };
                bench.set_interface(index, interface);
                bench.chain(super::super::UNICAST, index, &["ip4-rpf"], "ip4-lookup");
            }
        });
    }

    /// A packet from `source` to interface 2's neighbour, as interface `rx_if` receives it.
    fn frame(rx_if: u8, source: &str) -> Vec<u8> {
        let (dst, src) = (MacAddr([2, 0xfe, 0, 0, 0, rx_if]), MacAddr([2, 0, 0, 0, rx_if, 9]));
        let ethernet = EthernetHeader { dst, src, ethertype: EtherType::IPV4 };
        let (source, destination) = (source.parse().unwrap(), "10.0.2.2".parse().unwrap());
        let header = Ipv4Header::new(source, destination, IpProtocol::UDP, 64, 40);
        [ethernet.as_bytes(), header.as_bytes(), &[0; 20]].concat()
    }

    /// 10.12.0.0/16 is behind interface 2 and in VRF 1, where half of it is behind interface 1, which may lead to VRF 1 again; 10.13.0.0/16 is behind interfaces 2
    /// and 5, of which one has so little weight that nothing is sent there.
    #[test]
    fn of_several_ways_back_each_counts() {
        for tier in Tier::available() {
            let mut bench = Bench::with_nodes(tier, &forwarding_nodes());
            let mut forwarding = topology::set_up(&mut bench, 1500);
            let hop = |text| Via::Address { address: address(text), interface: None };
            let mut add = |vrf, to, paths: &[Path]| forwarding.add_route(vrf, prefix(to), paths).unwrap();
            add(0, "10.12.0.0/16", &[hop("10.0.2.2").into(), Via::Vrf(1).into()]);
            add(1, "10.12.0.0/17", &[Via::Interface(1).into(), Via::Vrf(0).into()]);
            add(1, "10.12.128.0/17", &[Via::Vrf(0).into()]);
            let weighty = Path { weight: 65_535, ..Path::from(hop("10.0.2.2")) };
            add(0, "10.13.0.0/16", &[weighty, hop("10.0.5.2").into()]);
            bench.commit(&mut forwarding);
            for index in [1, 2, 5] {
                bench
                    .set_interface(index, Interface { rpf: Rpf::Strict, ..topology::interface(index, 1500) });
                bench.chain(super::super::UNICAST, index, &["ip4-rpf"], "ip4-lookup");
            }
            let mut passes = |rx_if: u8, sources: &[&str]| {
                let frames: Vec<_> = sources.iter().map(|source| frame(rx_if, source)).collect();
                let outcome = bench.run(rx_if.into(), &frames, frames.len());
                let wrong = outcome.drops.get("ip4-rpf wrong-interface").copied().unwrap_or_default();
                assert_eq!(outcome.drops.values().sum::<u64>(), wrong, "{:?}", outcome.drops);
                frames.len() as u64 - wrong
            };
            assert_eq!(passes(2, &["10.12.0.9", "10.12.128.9"]), 2, "by the interface hop");
            assert_eq!(passes(1, &["10.12.0.9", "10.12.0.10"]), 2, "by what the other VRF says");
            assert_eq!(passes(1, &["10.12.128.9"]), 0, "the other VRF says something else");
            // One way of the route holds for the next packet, another VRF's word doesn't.
            assert_eq!(passes(1, &["10.12.0.9", "10.12.128.9", "10.12.0.9", "10.12.128.9"]), 2);
            assert_eq!(passes(5, &["10.12.0.9"]), 0);
            assert_eq!(passes(2, &["10.13.0.9"]), 1);
            assert_eq!(passes(5, &["10.13.0.9"]), 1, "by the next hop without a bucket");
            assert_eq!(passes(1, &["10.13.0.9"]), 0);
        }
    }
}
