//! What both IP versions do alike: packets that don't come from a wire, and the choice among equal-cost next hops.

use super::control::Forwarding;
use super::topology;
use crate::testing::{Bench, Row, Verdict, forwarding_nodes, rows};
use crate::{ip4, ip6};
use graph::nodes::Injection;
use graph::packet::{Flags, Gso, Meta, Offload, OwnedPacket};
use graph::simd::Tier;
use graph::trace::{Budget, TraceOrder};
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::BTreeMap;
use wire::{EtherType, EthernetHeader, IntoBytes, IpProtocol, Ipv4Header, MacAddr};

fn injected(name: &str) -> Row {
    let rows = rows(include_str!("../../tests/vectors/injected.txt"));
    rows.into_iter().find(|row| row.name == name).unwrap_or_else(|| panic!("no row {name:?}"))
}

fn bench(tier: Tier) -> (Bench, Forwarding) {
    let mut bench = Bench::with_nodes(tier, &forwarding_nodes());
    let forwarding = topology::set_up(&mut bench, 1500);
    (bench, forwarding)
}

/// Brings the row's packet in at the lookup, with metadata as `change` makes it, and compares what becomes of it.
fn inject(row: &Row, verdict: &Verdict, change: impl Fn(&mut Meta)) {
    for tier in Tier::available() {
        let (mut bench, forwarding) = bench(tier);
        let mut packet = OwnedPacket::new(row.rx_if, row.frame.clone());
        let meta = packet.meta_mut();
        let v6 = row.frame[0] >> 4 == 6;
        meta.l4 = meta.l3 + if v6 { 40 } else { 20 };
        change(meta);
        let target = if v6 { ip6::INJECT_KEY } else { ip4::INJECT_KEY };
        bench.graph.injector().unwrap().send(Injection { target, packet }).unwrap();
        let outcome = bench.run(row.rx_if, &[], 1);
        let place = format!("row {:?}, tier {}", row.name, tier.name());
        match verdict {
            Verdict::Sent(frames) => {
                let want: BTreeMap<_, _> =
                    frames.iter().map(|(to, frame)| (*to, vec![frame.clone()])).collect();
                assert!(outcome.sent == want, "{place}: {:?}", outcome.drops);
                let views = forwarding.adjacencies().list().into_iter();
                let counted = views.map(|view| ((view.hop.tx_if, view.sent.packets), view.sent.bytes));
                let counted: BTreeMap<_, _> = counted.filter(|((_, packets), _)| *packets > 0).collect();
                let lens = frames.iter().map(|(to, frame)| ((*to, 1), frame.len() as u64));
                assert_eq!(counted, lens.collect(), "{place}: counted by next hop");
            }
            Verdict::Dropped(reason) => assert_eq!(outcome.drops, [((*reason).into(), 1)].into(), "{place}"),
            Verdict::Punted(kind) => assert_eq!(outcome.punts, [*kind], "{place}: {:?}", outcome.drops),
            Verdict::SentAndPunted(..) | Verdict::SentAndDropped(..) => {
                panic!("{place}: nothing here is both")
            }
        }
    }
}

#[test]
fn what_was_made_here_keeps_its_time_to_live_and_asks_for_no_errors() {
    let rows = rows(include_str!("../../tests/vectors/injected.txt"));
    let own: Vec<_> = rows.iter().filter(|row| row.name.starts_with("own ")).collect();
    assert!(own.len() > 5);
    for row in own {
        inject(row, &row.verdict, |meta| meta.flags.set(Flags::LOCAL));
    }
}

#[test]
fn super_frames_are_held_against_the_mtu_segment_by_segment() {
    // The MTU is 1500. Headers: 20 or 40, and 32 of TCP with a timestamp or 8 of UDP.
    for (name, gso, fits, too_big) in [
        ("super-frame tcp4", Gso::Tcp4, 1448, "icmp4-error 3 4 1500"),
        ("super-frame udp4", Gso::Udp, 1472, "icmp4-error 3 4 1500"),
        ("super-frame tcp6", Gso::Tcp6, 1428, "icmp6-error 2 0 1500"),
        ("super-frame udp6", Gso::Udp, 1452, "icmp6-error 2 0 1500"),
    ] {
        let row = injected(name);
        let with =
            |gso_size| move |meta: &mut Meta| meta.offload = Offload { gso, gso_size, ..Offload::default() };
        inject(&row, &row.verdict, with(fits));
        inject(&row, &Verdict::Punted(too_big), with(fits + 1));
        inject(&row, &row.verdict, with(1));
    }
}

fn udp(src: [u8; 4], dst: [u8; 4], sport: u16, dport: u16) -> Vec<u8> {
    let ethernet = EthernetHeader {
        dst: MacAddr([2, 0xfe, 0, 0, 0, 1]),
        src: MacAddr([2, 0, 0, 0, 1, 9]),
        ethertype: EtherType::IPV4,
    };
    let ip = Ipv4Header::new(src.into(), dst.into(), IpProtocol::UDP, 64, 28);
    [ethernet.as_bytes(), ip.as_bytes(), &sport.to_be_bytes(), &dport.to_be_bytes(), &[0, 8, 0, 0]].concat()
}

/// The interface that each flow leaves by.
fn ways(bench: &mut Bench, flows: impl Iterator<Item = Vec<u8>>) -> Vec<u16> {
    let way = |frame| {
        let outcome = bench.run(1, &[frame], 1);
        assert_eq!(outcome.sent.len(), 1, "{:?}", outcome.drops);
        *outcome.sent.keys().next().unwrap()
    };
    flows.map(way).collect()
}

#[test]
fn flows_are_spread_and_each_stays_on_its_way() {
    let (mut bench, _) = bench(Tier::detect());
    let flows = || (0..400).map(|port| udp([10, 0, 1, 9], [10, 9, 0, 1], 1000 + port, 80));
    let first = ways(&mut bench, flows());
    let by_two = first.iter().filter(|way| **way == 2).count();
    assert!((120..280).contains(&by_two), "{by_two} of 400 by interface 2");
    assert_eq!(ways(&mut bench, flows()), first, "the same again");
    let all: Vec<_> = flows().collect();
    let vector = bench.run(1, &all[..256], 256);
    assert_eq!(vector.sent[&2].len(), first[..256].iter().filter(|way| **way == 2).count(), "in a vector");
}

#[test]
fn both_directions_of_a_flow_take_the_same_way_where_the_vrf_asks_for_it() {
    for symmetric in [true, false] {
        let (mut bench, mut forwarding) = bench(Tier::detect());
        forwarding.set_symmetric_hash(0, symmetric).unwrap();
        bench.commit(&mut forwarding);
        let (a, b) = ([10, 9, 0, 1], [10, 9, 0, 2]);
        let there = ways(&mut bench, (0..200).map(|port| udp(a, b, 1000 + port, 80)));
        let back = ways(&mut bench, (0..200).map(|port| udp(b, a, 80, 1000 + port)));
        let same = there.iter().zip(&back).filter(|(there, back)| there == back).count();
        assert!(
            if symmetric { same == 200 } else { (50..150).contains(&same) },
            "{symmetric}: {same} of 200"
        );
    }
}

#[test]
fn a_trace_tells_what_each_node_saw() {
    let (mut bench, _) = bench(Tier::detect());
    let nodes = vec![bench.plan.node("ip4-input").unwrap()];
    bench.graph.tracer.order(TraceOrder { nodes, interface: None, budget: Budget::new(1) });
    let _ = bench.run(1, &[udp([10, 0, 1, 9], [10, 1, 0, 1], 1000, 80)], 1);
    let finished = bench.graph.tracer.finished();
    let traces = finished.lock().unwrap();
    let steps: Vec<_> =
        traces[0].steps.iter().map(|step| (step.node, step.text.as_str(), step.next)).collect();
    let hop = steps[1].1.strip_prefix("table 0 next hop ").unwrap().parse::<u32>();
    assert!(hop.is_ok(), "{steps:?}");
    assert_eq!(
        [steps[0], steps[2]],
        [
            (
                "ip4-input",
                "IP4: 10.0.1.9 -> 10.1.0.1 UDP ttl 64 len 28\nUDP: 1000 -> 80 len 8",
                Some("ip4-lookup")
            ),
            ("ip4-rewrite", "interface 2 header 02000000020202fe000000020800", Some("test-tx")),
        ]
    );
}

proptest! {
    #[test]
    fn damaged_packets_are_survived_and_none_is_lost(
        row in any::<proptest::sample::Index>(),
        damage in proptest::collection::vec((14..90usize, any::<u8>()), 0..4),
        cut in proptest::option::of(14..120usize),
    ) {
        thread_local! {
            static BENCH: RefCell<Bench> = RefCell::new(bench(Tier::detect()).0);
            static ROWS: Vec<Row> =
                [include_str!("../../tests/vectors/ip4.txt"), include_str!("../../tests/vectors/ip6.txt")]
                    .into_iter()
                    .flat_map(rows)
                    .collect();
        }
        let row = ROWS.with(|rows| rows[row.index(rows.len())].clone());
        let mut frame = row.frame.clone();
        for (at, value) in damage {
            if let Some(byte) = frame.get_mut(at) {
                *byte = value;
            }
        }
        frame.truncate(cut.unwrap_or(frame.len()));
        let outcome = BENCH.with_borrow_mut(|bench| bench.run(row.rx_if, &[frame], 1));
        let (sent, dropped) = (outcome.sent.values().flatten().count(), outcome.drops.values().sum::<u64>());
        // A packet that is punted is dropped behind that by the stand-in; one that is cut comes out in pieces.
        prop_assert!((sent > 0) != (dropped == 1), "{:?}: {sent} sent, {:?}", row.name, outcome.drops);
    }
}
