//! The network that forwarding is tested in; `tests/vectors/ip4.py` and `ip6.py` speak of it.
//!
//! | interface | VRF | mode | MTU | addresses | neighbours |
//! |---|---|---|---|---|---|
//! | 1 | 0 | Ethernet | 1500 | 10.0.1.1/24, 2001:db8:1::1/64, fe80::1/64 | |
//! | 2 | 0 | Ethernet | 1500 | 10.0.2.1/24, 2001:db8:2::1/64, fe80::2/64 | .2, ::2, fe80::22 |
//! | 3 | 0 | IP | 1500 | 10.0.3.1/24, 2001:db8:3::1/64 | |
//! | 4 | 1 | Ethernet | 1500 | 10.0.4.1/24, 2001:db8:4::1/64 | .2, ::2 |
//! | 5 | 0 | Ethernet | 300 (1280 in the tests of IPv6) | 10.0.5.1/24, 2001:db8:5::1/64 | .2, ::2 |
//! | 6 | 0 | Ethernet, down | 1500 | 10.0.6.1/24, 2001:db8:6::1/64 | |
//!
//! Routes: 10.N.0.0/16 and 2001:db8:100N::/48 for N 1 via interface 2's neighbour, 2 by interface 3, 3 blackhole, 4
//! unreachable, 5 prohibit, 6 in VRF 1 (and there via interface 4's neighbour), 7 via an unknown neighbour, 8 via interface
//! 5's neighbour, 9 via interfaces 2's and 5's, 10 in VRF 1 (and there in VRF 0), 11 via interface 6. 169.254.20.10 via
//! interface 2's neighbour.

use super::control::{Forwarding, Path, Prefix, Via};
use crate::interface::{Interface, InterfaceAddress, LinkMode};
use crate::testing::Bench;
use core::net::IpAddr;
use graph::IfIndex;
use std::sync::Arc;
use wire::MacAddr;

pub(crate) fn prefix(text: &str) -> Prefix {
    text.parse().unwrap()
}

pub(crate) fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

pub(crate) fn interface(index: IfIndex, small_mtu: u16) -> Interface {
    let mut addresses = vec![
        InterfaceAddress { address: address(&format!("10.0.{index}.1")), prefix_len: 24 },
        InterfaceAddress { address: address(&format!("2001:db8:{index}::1")), prefix_len: 64 },
    ];
    if index <= 2 {
        addresses.push(InterfaceAddress { address: address(&format!("fe80::{index}")), prefix_len: 64 });
    }
    Interface {
        exists: true,
        up: index != 6,
        mode: if index == 3 { LinkMode::Ip } else { LinkMode::Ethernet },
        mac: MacAddr([2, 0xfe, 0, 0, 0, index as u8]),
        mtu: if index == 5 { small_mtu } else { 1500 },
        vrf: u16::from(index == 4),
        addresses: Arc::new(addresses),
        name: format!("if{index}").into(),
        ..Interface::default()
    }
}

fn next(interface: IfIndex, host: u8, v6: bool) -> Path {
    let text = if v6 { format!("2001:db8:{interface}::{host}") } else { format!("10.0.{interface}.{host}") };
    Path::from(Via::Address { address: address(&text), interface: None })
}

fn routes(v6: bool) -> Vec<(u16, Prefix, Vec<Path>)> {
    let to = |n: u8| prefix(&if v6 { format!("2001:db8:10{n:02}::/48") } else { format!("10.{n}.0.0/16") });
    let out = |interface| Path::from(Via::Interface(interface));
    vec![
        (0, to(1), vec![next(2, 2, v6)]),
        (0, to(2), vec![out(3)]),
        (0, to(3), vec![Via::Blackhole.into()]),
        (0, to(4), vec![Via::Unreachable.into()]),
        (0, to(5), vec![Via::Prohibit.into()]),
        (0, to(6), vec![Via::Vrf(1).into()]),
        (1, to(6), vec![next(4, 2, v6)]),
        (0, to(7), vec![next(2, 3, v6)]),
        (0, to(8), vec![next(5, 2, v6)]),
        (0, to(9), vec![next(2, 2, v6), next(5, 2, v6)]),
        (0, to(10), vec![Via::Vrf(1).into()]),
        (1, to(10), vec![Via::Vrf(0).into()]),
        (0, to(11), vec![out(6)]),
        (0, prefix("169.254.20.10/32"), vec![next(2, 2, false)]),
    ]
}

/// Sets the network up on a bench, node by node, and returns its control side.
pub(crate) fn set_up(bench: &mut Bench, small_mtu: u16) -> Forwarding {
    set_up_at(bench, small_mtu, "ethernet-input")
}

/// The same with another node that Ethernet frames come to.
pub(crate) fn set_up_at(bench: &mut Bench, small_mtu: u16, ethernet: &str) -> Forwarding {
    let mut forwarding = Forwarding::new(&bench.plan.schema).unwrap();
    forwarding.create_vrf(1, "blue", false).unwrap();
    for index in 1..=6 {
        let interface = interface(index, small_mtu);
        let input = if index == 3 { "l3-input" } else { ethernet };
        bench.add_port(index, interface.clone(), input);
        for arc in ["ip4", "ip6"] {
            bench.chain(&format!("{arc}-unicast"), index, &[], &format!("{arc}-lookup"));
        }
        forwarding.set_interface(index, Some(&interface)).unwrap();
    }
    for index in [2, 4, 5] {
        let mac = MacAddr([2, 0, 0, 0, index as u8, 2]);
        for host in [format!("10.0.{index}.2"), format!("2001:db8:{index}::2")] {
            forwarding.set_neighbour(index, address(&host), Some(mac)).unwrap();
        }
    }
    let mac = MacAddr([2, 0, 0, 0, 2, 0x22]);
    forwarding.set_neighbour(2, address("fe80::22"), Some(mac)).unwrap();
    for (vrf, prefix, paths) in [routes(false), routes(true)].concat() {
        forwarding.add_route(vrf, prefix, &paths).unwrap();
    }
    bench.commit(&mut forwarding);
    forwarding
}
