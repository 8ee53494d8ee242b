//! ARP termination.

use super::*;
use crate::ip::{Fibs, NextHop, NextHopKind, NextHops, VrfTables};
use crate::testing::run_table;
use core::net::Ipv4Addr;
use tables::fib4::{Fib4Writer, NextHopId};
use tables::fib6::Fib6Writer;

/// What routing has of its neighbours: 10.0.0.2 and fd00::2 are B, behind the BVI; 10.0.0.9 is routed through
/// 10.0.0.2; 10.0.0.3 and fd00::3 are neighbours on another interface.
pub(super) fn neighbours(bench: &mut Bench) {
    let hop = |tx_if, address: core::net::Ipv6Addr| {
        let mut header = [0; crate::ip::MAX_REWRITE];
        header[..6].copy_from_slice(&MAC_B.0);
        header[6..12].copy_from_slice(&MAC_BVI.0);
        let kind = NextHopKind::Rewrite;
        NextHop {
            kind,
            header_len: 14,
            tx_if,
            mtu: 200,
            header,
            address: address.octets(),
            ..NextHop::default()
        }
    };
    let (four, six) = (Ipv4Addr::new(10, 0, 0, 2), "fd00::2".parse().unwrap());
    let list = vec![
        NextHop::default(),
        hop(BVI, four.to_ipv6_mapped()),
        hop(BVI, six),
        hop(TRUNK, Ipv4Addr::new(10, 0, 0, 3).to_ipv6_mapped()),
        hop(TRUNK, "fd00::3".parse().unwrap()),
    ];
    let mut v4 = Fib4Writer::with_capacity(64).unwrap();
    let mut v6 = Fib6Writer::with_capacity(64).unwrap();
    for (last, id) in [(2, 1), (9, 1), (3, 3)] {
        v4.insert(Ipv4Addr::new(10, 0, 0, last).to_bits(), 32, NextHopId(id)).unwrap();
    }
    for (last, id) in [(2, 2), (3, 4)] {
        v6.insert(0xfd00 << 112 | last, 128, NextHopId(id)).unwrap();
    }
    let vrf = VrfTables { v4: v4.reader(), v6: v6.reader(), symmetric_hash: false, name: "pods".into() };
    let (fibs, hops) = (bench.key::<Fibs>(), bench.key::<NextHops>());
    bench.publish(|draft| {
        draft.change(fibs, |fibs| fibs.set(VRF, Some(vrf)));
        draft.change(hops, |hops| hops.list = list);
    });
}

fn setup(bench: &mut Bench, config: &BridgeConfig) {
    ports(bench);
    bvi(bench);
    neighbours(bench);
    bridge(bench, config);
}

/// Where questions of A go that nobody answers for the station that was asked: to B, C and the BVI, where they end, as
/// its address is another.
fn flooded(name: &'static str) -> (&'static str, Option<&'static str>) {
    (name, None)
}

#[test]
fn questions_for_known_neighbours_are_answered_and_others_flooded() {
    let v = vectors();
    let cases = [
        ("arp-for-2", Some("arp-answer-of-2")),
        ("arp-for-2-padded", Some("arp-answer-of-2")),
        ("ns-for-2", Some("na-of-2")),
        ("ns-for-2-without-option", Some("na-of-2")),
        flooded("arp-for-3"),
        flooded("arp-for-9"),
        flooded("ns-for-3"),
        // These may be the neighbour itself.
        flooded("arp-probe-for-2"),
        flooded("arp-gratuitous-2"),
        flooded("ns-free-2"),
        flooded("arp-for-2-from-b"),
        // These say two things.
        flooded("arp-for-2-pretending"),
        flooded("ns-for-2-pretending"),
        flooded("ns-for-2-bad-checksum"),
        // And these ask nothing.
        flooded("arp-answer-to-all"),
        flooded("arp-for-2-tagged"),
        flooded("echo-to-group"),
        flooded("a-to-all"),
    ];
    for (name, answer) in cases {
        let frame = v.get(name);
        for flood in [true, false] {
            let config = BridgeConfig { arp_termination: true, flood, ..BridgeConfig::default() };
            for tier in graph::simd::Tier::available() {
                for count in [1, 256] {
                    let mut bench = Bench::new(tier);
                    setup(&mut bench, &config);
                    let outcome = bench.run(A, &vec![frame.clone(); count], count);
                    let answered = counter(&bench, "bridge-answer", "answered");
                    match answer {
                        Some(answer) => {
                            assert_eq!(outcome.sent, [(A, vec![v.get(answer); count])].into(), "{name}");
                            assert_eq!(answered, count as u64);
                        }
                        None if flood => {
                            let members = outcome.sent.iter().filter(|(index, _)| [A, B, C].contains(index));
                            let copies = vec![frame.clone(); count];
                            let want = [(&B, &copies), (&C, &copies)];
                            assert_eq!(members.collect::<Vec<_>>(), want, "{name}");
                            assert_eq!(answered, 0, "{name}");
                        }
                        None => {
                            let want = [("bridge-answer flood-off".to_string(), count as u64)];
                            assert_eq!((outcome.drops, by(&outcome.sent)), (want.into(), vec![]), "{name}");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn the_bvi_asks_its_neighbours_themselves() {
    let v = vectors();
    let config = BridgeConfig { arp_termination: true, ..BridgeConfig::default() };
    run_table(&[sent("from the BVI", ROUTER, v.get("arp-for-2"), &[A, B, C])], |bench| setup(bench, &config));
}

#[test]
fn nothing_is_answered_without_termination_or_without_a_bvi() {
    let v = vectors();
    let on = BridgeConfig { arp_termination: true, ..BridgeConfig::default() };
    run_table(&[sent("no BVI", A, v.get("arp-for-2"), &[B, C])], |bench| {
        ports(bench);
        neighbours(bench);
        bridge(bench, &on);
    });
    let mut bench = Bench::new(graph::simd::Tier::detect());
    setup(&mut bench, &BridgeConfig::default());
    let outcome = bench.run(A, &[v.get("arp-for-2")], 1);
    assert!(outcome.sent[&B] == [v.get("arp-for-2")] && !outcome.sent.contains_key(&A));
}
