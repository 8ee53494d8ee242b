//! Port splits in the graph: packets made by scapy, on every SIMD tier, alone and 256 in a vector.

use super::{PortRange, WithoutPeer};
use crate::interface::{Interface, Rpf, VlanTags};
use crate::ip::control::{Forwarding, Prefix, SplitRule, Via};
use crate::ip::topology::{self, address};
use crate::testing::{Bench, Row, Verdict, rows, run_table};
use crate::tunnel::{Dscp, Encapsulation, Tunnel};
use core::net::IpAddr;
use graph::simd::Tier;
use wire::MacAddr;

const V4: &str = include_str!("../../tests/vectors/port_split4.txt");
const V6: &str = include_str!("../../tests/vectors/port_split6.txt");
const SECOND: u64 = 1_000_000_000;

/// The pod's addresses, and those of its peer on interface 1.
const POD: [&str; 2] = ["10.50.0.1", "2001:db8:50::1"];
const PEER: [&str; 2] = ["10.0.1.2", "2001:db8:1::2"];

fn rule(pod: IpAddr, without_peer: WithoutPeer) -> SplitRule {
    let ports: Vec<PortRange> =
        ["tcp:5000-5010", "udp:6081"].iter().map(|text| text.parse().unwrap()).collect();
    let matching = Some(Via::Address { address: pod, interface: Some(2) });
    SplitRule { ports: ports.into(), matching, others: Via::Interface(3), without_peer }
}

/// The network, and a pod whose address is behind interfaces 2 and 3.
fn furnish(bench: &mut Bench, without_peer: WithoutPeer) -> Forwarding {
    let mut forwarding = topology::set_up(bench, 1500);
    for text in POD {
        let pod = address(text);
        forwarding.set_neighbour(2, pod, Some(MacAddr([2, 0, 0, 0, 0, 1]))).unwrap();
        forwarding.add_split_route(0, Prefix::host(pod), &rule(pod, without_peer)).unwrap();
    }
    for text in PEER.iter().chain(&["10.0.1.77", "2001:db8:1::77"]) {
        forwarding.set_neighbour(1, address(text), Some(MacAddr([2, 0, 0, 0, 1, 2]))).unwrap();
    }
    bench.commit(&mut forwarding);
    assert_eq!(forwarding.split_interfaces(), [2, 3].into());
    for index in 1..=3 {
        let rpf = Rpf::Strict;
        bench.set_interface(index, Interface { rpf, ..topology::interface(index, 1500) });
        for ip in ["ip4", "ip6"] {
            let features = [format!("{ip}-rpf"), format!("{ip}-port-split-learn")];
            let features: Vec<_> = features.iter().map(String::as_str).collect();
            bench.chain(&format!("{ip}-unicast"), index, &features, &format!("{ip}-lookup"));
        }
    }
    forwarding
}

fn bench(tier: Tier) -> (Bench, Forwarding) {
    let mut bench = Bench::new(tier);
    let forwarding = furnish(&mut bench, WithoutPeer::AsOthers);
    (bench, forwarding)
}

/// Sends the packet of a row 256 times, and sees that it leaves where the row says.
fn pass(bench: &mut Bench, text: &'static str, name: &str) {
    let Row { rx_if, frame, verdict, .. } = row(text, name);
    let Verdict::Sent(expected) = verdict else { panic!("{name}: {verdict:?}") };
    let outcome = bench.run(rx_if, &vec![frame; 256], 256);
    let expected = expected.into_iter().map(|(to, frame)| (to, vec![frame; 256])).collect();
    assert_eq!(outcome.sent, expected, "{name}: dropped {:?}", outcome.drops);
}

fn row(text: &'static str, name: &str) -> Row {
    rows(text).into_iter().find(|row| row.name == name).unwrap_or_else(|| panic!("no row {name:?}"))
}

fn count(bench: &Bench, node: &str, counter: &str) -> u64 {
    let at =
        bench.plan.counters.iter().position(|(at, spec)| {
            bench.plan.nodes[usize::from(*at)].spec.name == node && spec.name == counter
        });
    bench.graph.counters().node(at.unwrap_or_else(|| panic!("{node} {counter}")) as u16).get()
}

/// For both IP versions and every tier: the rows, and the name of the version's nodes.
fn everywhere(test: impl Fn(Tier, &'static str, &'static str)) {
    for tier in Tier::available() {
        test(tier, V4, "ip4-port-split");
        test(tier, V6, "ip6-port-split");
    }
}

#[test]
fn packets_go_by_their_destination_port() {
    for text in [V4, V6] {
        let rows: Vec<Row> = rows(text).into_iter().filter(|row| !row.name.starts_with("then ")).collect();
        assert!(rows.len() > 25);
        run_table(&rows, |bench| drop(furnish(bench, WithoutPeer::AsOthers)));
    }
}

#[test]
fn answers_return_to_whom_has_sent_last() {
    everywhere(|tier, text, node| {
        let (mut bench, _) = bench(tier);
        let learn = format!("{node}-learn");
        pass(&mut bench, text, "then the tun is answered");
        pass(&mut bench, text, "then the memif asks");
        pass(&mut bench, text, "then the memif is answered");
        pass(&mut bench, text, "then another flow is answered");
        assert_eq!((count(&bench, node, "by-flow"), count(&bench, &learn, "learned")), (256, 1));
        pass(&mut bench, text, "then the tun asks");
        assert_eq!(count(&bench, &learn, "forgotten"), 1);
        pass(&mut bench, text, "then the tun is answered");
        pass(&mut bench, text, "then the memif asks");
        pass(&mut bench, text, "then the memif is answered");
    });
}

#[test]
fn what_the_memif_sends_from_its_own_ports_needs_no_memory() {
    everywhere(|tier, text, node| {
        let (mut bench, _) = bench(tier);
        pass(&mut bench, text, "then the memif answers from a port of the split");
        assert_eq!(count(&bench, &format!("{node}-learn"), "learned"), 0);
    });
}

#[test]
fn errors_about_a_flow_follow_it() {
    everywhere(|tier, text, node| {
        let (mut bench, _) = bench(tier);
        pass(&mut bench, text, "then the tun is told of an error");
        pass(&mut bench, text, "then the memif asks");
        pass(&mut bench, text, "then the memif is told of an error");
        assert_eq!(count(&bench, node, "errors"), 256);
    });
}

#[test]
fn an_echo_returns_to_whom_has_asked() {
    everywhere(|tier, text, _| {
        let (mut bench, _) = bench(tier);
        pass(&mut bench, text, "then the tun's ping is answered");
        pass(&mut bench, text, "then the memif pings");
        pass(&mut bench, text, "then the memif's ping is answered");
        pass(&mut bench, text, "then the peer pings under the same number");
    });
}

#[test]
fn silent_flows_are_forgotten_in_time() {
    everywhere(|tier, text, _| {
        let (mut bench, _) = bench(tier);
        pass(&mut bench, text, "then the memif asks");
        pass(&mut bench, text, "then the memif connects");
        for _ in 0..3 {
            bench.now += 300 * SECOND;
            pass(&mut bench, text, "then the memif is answered");
        }
        bench.now += 301 * SECOND;
        pass(&mut bench, text, "then the tun is answered");
        bench.now += 6000 * SECOND;
        pass(&mut bench, text, "then the memif is connected");
        bench.now += 7441 * SECOND;
        pass(&mut bench, text, "then the tun is connected");
    });
}

#[test]
fn later_fragments_follow_the_first() {
    everywhere(|tier, text, node| {
        let (mut bench, _) = bench(tier);
        pass(&mut bench, text, "then last of none");
        assert_eq!(count(&bench, node, "later-fragments-of-others"), 256);
        for name in ["then first", "then second", "then last", "then last of another"] {
            pass(&mut bench, text, name);
        }
        assert_eq!(count(&bench, node, "fragments"), 512);
        // Another packet under the same number.
        pass(&mut bench, text, "then first of others");
        pass(&mut bench, text, "then last of none");
        pass(&mut bench, text, "then first");
        bench.now += 31 * SECOND;
        pass(&mut bench, text, "then last of none");
    });
}

#[test]
fn while_nobody_is_connected_packets_go_where_others_go() {
    everywhere(|tier, text, node| {
        let (mut bench, _) = bench(tier);
        let gone = bench.graph.ports.detach(2).unwrap();
        let Row { frame, .. } = row(text, "tcp 5000");
        let outcome = bench.run(1, &[frame], 1);
        assert_eq!(outcome.sent.keys().collect::<Vec<_>>(), [&3], "{:?}", outcome.drops);
        assert_eq!((count(&bench, node, "fell-back"), count(&bench, node, "by-port")), (1, 0));
        bench.graph.ports.attach(2, Default::default(), gone);
        pass(&mut bench, text, "tcp 5000");
        assert_eq!((count(&bench, node, "fell-back"), count(&bench, node, "by-port")), (1, 256));
    });
}

/// A tunnel has no queues of its own, nor has a VLAN on one: whether somebody is at its other end isn't known.
#[test]
fn somebody_is_at_the_other_end_of_a_tunnel() {
    let tunnel = Tunnel {
        encapsulation: Encapsulation::Geneve,
        local: address("10.0.3.1"),
        remote: address("10.0.3.2"),
        vni: 7,
        port: 6081,
        vrf: 0,
        ttl: 64,
        dscp: Dscp::Fixed(0),
        checksum: false,
    };
    everywhere(|tier, text, node| {
        let (mut bench, _) = bench(tier);
        bench.graph.ports.detach(2);
        let plain = topology::interface(2, 1500);
        let tags = VlanTags { outer: 7, ..VlanTags::default() };
        for (index, interface) in [
            (2, Interface { tunnel: Some(tunnel), ..plain.clone() }),
            (9, Interface { tunnel: Some(tunnel), ..plain.clone() }),
            (2, Interface { vlan: Some((9, tags)), ..plain }),
        ] {
            bench.set_interface(index, interface);
            let before = count(&bench, node, "by-port");
            let Row { frame, .. } = row(text, "tcp 5000");
            bench.run(1, &[frame], 1);
            assert_eq!((count(&bench, node, "by-port"), count(&bench, node, "fell-back")), (before + 1, 0));
        }
    });
}

#[test]
fn or_are_dropped_where_the_route_says_so() {
    everywhere(|tier, text, node| {
        let mut bench = Bench::new(tier);
        furnish(&mut bench, WithoutPeer::Drop);
        bench.graph.ports.detach(2);
        let Row { frame, .. } = row(text, "tcp 5000");
        let outcome = bench.run(1, &[frame], 1);
        assert_eq!(outcome.drops, [(format!("{node} no-peer"), 1)].into());
        assert!(outcome.sent.is_empty());
        pass(&mut bench, text, "tcp 4999");
    });
}

#[test]
fn an_interface_that_goes_leaves_the_other() {
    everywhere(|tier, text, node| {
        let (mut bench, mut forwarding) = bench(tier);
        let down = |index| Interface { up: false, ..topology::interface(index, 1500) };
        forwarding.set_interface(2, Some(&down(2))).unwrap();
        bench.commit(&mut forwarding);
        let Row { frame, .. } = row(text, "tcp 5000");
        let outcome = bench.run(1, &[frame], 1);
        assert_eq!(outcome.sent.keys().collect::<Vec<_>>(), [&3], "{:?}", outcome.drops);
        forwarding.set_interface(2, Some(&topology::interface(2, 1500))).unwrap();
        forwarding.set_interface(3, Some(&down(3))).unwrap();
        bench.commit(&mut forwarding);
        pass(&mut bench, text, "tcp 5000");
        let Row { frame, .. } = row(text, "tcp 4999");
        let outcome = bench.run(1, &[frame], 1);
        assert_eq!(outcome.drops, [(format!("{node} no-way"), 1)].into());
    });
}

#[test]
fn both_interfaces_may_use_the_address_and_nobody_else() {
    everywhere(|tier, text, node| {
        let (mut bench, _) = bench(tier);
        pass(&mut bench, text, "then the memif asks");
        pass(&mut bench, text, "then the tun asks");
        // The same packet from elsewhere.
        let rpf = node.replace("port-split", "rpf");
        let Row { frame, .. } = row(text, "then the tun asks");
        let (mac, kind) = if text == V4 { ([0x08, 0x00], 4) } else { ([0x86, 0xdd], 6) };
        assert_eq!(frame[0] >> 4, kind);
        let ethernet = [&[2, 0xfe, 0, 0, 0, 1, 2, 0, 0, 0, 1, 2][..], &mac, &frame].concat();
        let outcome = bench.run(1, &[ethernet], 1);
        assert_eq!(outcome.drops, [(format!("{rpf} wrong-interface"), 1)].into());
    });
}

#[test]
fn routes_with_one_rule_share_it_and_it_goes_with_the_last() {
    let (mut bench, mut forwarding) = bench(Tier::available()[0]);
    let before = forwarding.summary();
    let pod = address(POD[0]);
    let other = topology::prefix("10.51.0.0/24");
    forwarding.take_splits_changed();
    forwarding.add_split_route(0, other, &rule(pod, WithoutPeer::AsOthers)).unwrap();
    assert_eq!(forwarding.summary().path_sets, before.path_sets);
    assert!(!forwarding.take_splits_changed());
    for prefix in [other, Prefix::host(pod), Prefix::host(address(POD[1]))] {
        assert!(forwarding.delete_route(0, prefix).unwrap());
    }
    assert!(forwarding.take_splits_changed());
    assert!(forwarding.split_interfaces().is_empty());
    bench.commit(&mut forwarding);
    // The neighbours' own routes remain.
    let Row { frame, .. } = row(V4, "tcp 5000");
    let outcome = bench.run(1, &[frame], 1);
    assert!(outcome.sent.keys().all(|index| *index == 1), "{outcome:?}");
    assert!(forwarding.split_rule(0).is_none());
}

#[test]
fn a_rule_that_can_not_be_is_refused_and_leaves_nothing() {
    let (_, mut forwarding) = bench(Tier::available()[0]);
    let pod = address(POD[0]);
    let before = forwarding.summary();
    let good = rule(pod, WithoutPeer::AsOthers);
    let overlap: Vec<PortRange> = ["udp:1-5", "udp:5"].iter().map(|text| text.parse().unwrap()).collect();
    for (rule, words) in [
        (SplitRule { ports: overlap.into(), ..good.clone() }, "overlap"),
        (SplitRule { others: Via::Vrf(1), ..good.clone() }, "leads to interfaces"),
        (SplitRule { others: Via::Address { address: pod, interface: None }, ..good }, "leads to interfaces"),
        (rule(address(POD[1]), WithoutPeer::AsOthers), "same IP version"),
    ] {
        let error = forwarding.add_split_route(0, Prefix::host(pod), &rule).unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
    }
    assert_eq!(forwarding.summary(), before);
}
