//! Tunnels within tunnels: taken off one by one as long as each leads to an end of another, up to [`NESTING_LIMIT`].

use super::tests::publish_tunnels;
use super::{Encapsulation, NESTING_LIMIT, Tunnel};
use crate::bridge::control::{BridgeConfig, set_addresses};
use crate::bridge::{Bridges, Member};
use crate::interface::{Interface, Interfaces, Layer2, LinkMode};
use crate::ip::topology;
use crate::testing::{Bench, Vectors};
use graph::IfIndex;
use graph::nodes::Injection;
use graph::packet::OwnedPacket;
use graph::simd::Tier;
use std::sync::Arc;
use tables::mac::MacTable;
use wire::MacAddr;

const BRIDGE: u16 = 1;
/// Member of the bridge, and its routed leg.
const BRIDGED: IfIndex = 55;
const BVI: IfIndex = 56;

/// Tunnels 50 to 55 of `tests/vectors/tunnel.py`, all between the addresses of interface 2 and its neighbor.
fn setup(bench: &mut Bench) {
    let mut forwarding = topology::set_up(bench, 1280);
    let tunnels = [
        (50, Encapsulation::Vxlan, false, 300),
        (51, Encapsulation::Vxlan, true, 300),
        (52, Encapsulation::Geneve, false, 300),
        (53, Encapsulation::Geneve, true, 300),
        (54, Encapsulation::Geneve, false, 301),
        (BRIDGED, Encapsulation::Vxlan, false, 302),
    ];
    for (index, encapsulation, v6, vni) in tunnels {
        let tunnel = Tunnel { vni, ..super::tests::tunnel(encapsulation, 2, v6, vni) };
        let interface = Interface {
            exists: true,
            up: true,
            mac: MacAddr([2, 0xfe, 0, 0, 0, index as u8]),
            mtu: 1400,
            mode: if index == 54 { LinkMode::Ip } else { LinkMode::Ethernet },
            tunnel: Some(tunnel),
            ..Interface::default()
        };
        if index == BRIDGED {
            let layer2 = Layer2::Bridge { bridge: BRIDGE, split_horizon_group: 0, bvi: false };
            bench.set_interface(index, Interface { layer2, ..interface });
            bench.chain("device-input", index, &[], "bridge-input");
            continue;
        }
        bench.set_interface(index, interface.clone());
        routed(bench, index, interface.mode);
        forwarding.set_interface(index, Some(&interface)).unwrap();
    }
    let leg = Interface {
        exists: true,
        up: true,
        mac: MacAddr([2, 0xfe, 0, 0, 0, BVI as u8]),
        mtu: 1400,
        layer2: Layer2::Bridge { bridge: BRIDGE, split_horizon_group: 0, bvi: true },
        ..Interface::default()
    };
    bench.set_interface(BVI, leg.clone());
    routed(bench, BVI, LinkMode::Ethernet);
    forwarding.set_interface(BVI, Some(&leg)).unwrap();
    bench.commit(&mut forwarding);
    publish_tunnels(bench);
    let (bridges, interfaces) = (bench.key::<Bridges>(), bench.key::<Interfaces>());
    bench.publish(|draft| {
        let config = BridgeConfig { name: "b".into(), ..BridgeConfig::default() };
        let built = config.build(BRIDGE, draft.get(interfaces)).unwrap();
        assert_eq!(
            built.members.iter().map(|Member { interface, .. }| *interface).collect::<Vec<_>>(),
            [55, 56]
        );
        let mut table = Bridges::new(Arc::new(MacTable::with_capacity(64).unwrap()));
        table.set(BRIDGE, Some(built));
        set_addresses(table.macs().unwrap(), [(BRIDGE, &config)], draft.get(interfaces));
        draft.set(bridges, table);
    });
}

fn routed(bench: &mut Bench, index: IfIndex, mode: LinkMode) {
    let input = if mode == LinkMode::Ip { "l3-input" } else { "ethernet-input" };
    bench.chain("device-input", index, &[], input);
    for arc in ["ip4", "ip6"] {
        bench.chain(&format!("{arc}-unicast"), index, &[], &format!("{arc}-lookup"));
    }
}

fn vectors() -> Vectors {
    Vectors::read(include_str!("../../tests/vectors/tunnel.txt"))
}

fn bench() -> Bench {
    let mut bench = Bench::new(Tier::detect());
    setup(&mut bench);
    bench
}

#[test]
fn as_many_headers_come_off_as_the_limit_says_whatever_they_are() {
    let v = vectors();
    let mut bench = bench();
    let expected = v.get("forwarded-10.1");
    let (mut passed, mut dropped) = (0, 0);
    for name in v.names().filter(|name| name.starts_with("nested-")) {
        let outcome = bench.run(2, &[v.get(name)], 1);
        let deeper = name.starts_with("nested-5");
        if deeper {
            let reasons: Vec<_> = outcome.drops.iter().collect();
            let [(reason, 1)] = reasons[..] else { panic!("{name}: {outcome:?}") };
            assert!(reason.ends_with("-input recursion"), "{name}: {reason}");
            dropped += 1;
        } else {
            assert_eq!(outcome.drops, [].into(), "{name}");
            assert_eq!(outcome.sent[&2], std::slice::from_ref(&expected), "{name}");
            passed += 1;
        }
    }
    assert_eq!((passed, dropped), (12, 12));
}

/// Injects a frame's packet that has come out of so many tunnels.
fn inject(bench: &mut Bench, frame: &[u8], decapsulated: u8) {
    let (target, headers) = match frame[12] {
        8 => (crate::ip4::INJECT_KEY, 20),
        _ => (crate::ip6::INJECT_KEY, 40),
    };
    let mut packet = OwnedPacket::new(2, frame[14..].to_vec());
    let meta = packet.meta_mut();
    (meta.l4, meta.decapsulated) = (meta.l3 + headers, decapsulated);
    bench.graph.injector().unwrap().send(Injection { target, packet }).unwrap();
}

/// A packet that waited, was injected, or came from another worker is as deep in tunnels as before.
#[test]
fn a_detour_does_not_start_the_count_again() {
    let v = vectors();
    for (name, before, passes) in [
        ("nested-4-50", 0, true),
        ("nested-4-50", 1, false),
        ("nested-5-53", 0, false),
        ("nested-4-53", 0, true),
    ] {
        let mut bench = bench();
        inject(&mut bench, &v.get(name), before);
        let outcome = bench.run(2, &[], 1);
        assert_eq!(outcome.sent.contains_key(&2), passes, "{name} {before}: {outcome:?}");
    }
}

/// Options that are longer than a head area have the packet copied into another slot.
#[test]
fn copies_of_long_packets_inherit_the_count() {
    let v = vectors();
    let mut bench = bench();
    super::tests::setup(&mut bench);
    for (before, passes) in [(NESTING_LIMIT - 1, true), (NESTING_LIMIT, false)] {
        inject(&mut bench, &v.get("from-geneve4-many-long"), before);
        let outcome = bench.run(2, &[], 1);
        assert_eq!(outcome.sent.contains_key(&22), passes, "{before}: {outcome:?}");
    }
}
