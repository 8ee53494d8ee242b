//! Where frames go.

use super::*;
use crate::testing::{probe_header, run_table};
use graph::simd::Tier;

#[test]
fn frames_go_where_their_destination_is_or_everywhere() {
    let v = vectors();
    let rows = [
        sent("known", A, v.get("a-to-b"), &[B]),
        sent("known, with a body", A, v.get("long-a-to-b"), &[B]),
        sent("tags are carried along", A, v.get("vlan-300-a-to-b"), &[B]),
        sent("tags don't count as payload", A, v.get("long-qinq-300-301-a-to-b"), &[B]),
        sent("unknown", B, v.get("b-to-a"), &[A, C]),
        sent("broadcast", A, v.get("a-to-all"), &[B, C]),
        sent("broadcast, with a body", A, v.get("long-a-to-all"), &[B, C]),
        sent("multicast", A, v.get("a-to-group"), &[B, C]),
        dropped("behind the same port", A, v.get("a-to-a"), "bridge-input same-port"),
        dropped("group source", A, v.get("group-to-b"), "bridge-input bad-source"),
        dropped("zero source", A, v.get("zero-to-b"), "bridge-input bad-source"),
        dropped("for the link itself", A, v.get("lldp"), "bridge-input link-local"),
        dropped("for the link itself, too", A, v.get("stp"), "bridge-input link-local"),
        dropped("cut", A, v.get("a-to-b")[..13].to_vec(), "bridge-input truncated"),
        sent("no payload", A, v.get("a-to-b")[..14].to_vec(), &[B]),
        dropped("too long", A, v.get("longer-a-to-b"), "bridge-input too-long"),
        dropped("too long behind a tag", A, v.get("longer-vlan-300-a-to-b"), "bridge-input too-long"),
    ];
    run_table(&rows, |bench| {
        ports(bench);
        bridge(bench, &BridgeConfig::default());
        learn(bench, &v);
    });
}

#[test]
fn the_routed_leg_is_a_member() {
    let v = vectors();
    let routed = |flags| [probe_header(BVI, VRF, 14, flags), v.get("payload")].concat();
    let with_tags = |name| (TRUNK, v.get(name));
    let rows = [
        Row {
            name: "to the BVI",
            rx_if: A,
            frame: v.get("a-to-bvi"),
            verdict: Verdict::Sent(vec![(PROBE_IF, routed(4 + 1))]),
        },
        Row {
            name: "to all, the BVI among them",
            rx_if: A,
            frame: v.get("a-to-all"),
            verdict: Verdict::Sent(vec![
                (B, v.get("a-to-all")),
                (C, v.get("a-to-all")),
                with_tags("qinq-100-200-a-to-all"),
                (PROBE_IF, routed(4 + 2)),
            ]),
        },
        sent("from the BVI", ROUTER, v.get("bvi-to-b"), &[B]),
        dropped("from the BVI to itself", ROUTER, v.get("a-to-bvi"), "bridge-input same-port"),
        Row {
            name: "from the BVI to all",
            rx_if: ROUTER,
            frame: v.get("a-to-all"),
            verdict: Verdict::Sent(vec![
                (A, v.get("a-to-all")),
                (B, v.get("a-to-all")),
                (C, v.get("a-to-all")),
                with_tags("qinq-100-200-a-to-all"),
            ]),
        },
    ];
    run_table(&rows, |bench| {
        all(bench);
        learn(bench, &v);
    });
}

#[test]
fn tags_of_a_sub_interface_are_put_on_and_taken_off() {
    let v = vectors();
    let rows = [
        Row {
            name: "off",
            rx_if: TRUNK,
            frame: v.get("qinq-100-200-a-to-b"),
            verdict: Verdict::Sent(vec![(B, v.get("a-to-b"))]),
        },
        Row {
            name: "off, to all",
            rx_if: TRUNK,
            frame: v.get("qinq-100-200-a-to-all"),
            verdict: Verdict::Sent(vec![
                (A, v.get("a-to-all")),
                (B, v.get("a-to-all")),
                (C, v.get("a-to-all")),
            ]),
        },
        Row {
            name: "on",
            rx_if: C,
            frame: v.get("a-to-b"),
            verdict: Verdict::Sent(vec![(TRUNK, v.get("qinq-100-200-a-to-b"))]),
        },
        dropped("other tags", TRUNK, v.get("vlan-300-a-to-b"), "ethernet-input unknown-vlan"),
    ];
    let setup = |bench: &mut Bench| {
        ports(bench);
        tagged(bench);
    };
    run_table(&rows[..2], |bench| {
        setup(bench);
        bridge(bench, &BridgeConfig::default());
        learn(bench, &v);
    });
    let behind_tags = fixed(MAC_B, Place::Interface(TAGGED));
    run_table(&rows[2..], |bench| {
        setup(bench);
        bridge(bench, &BridgeConfig { static_macs: vec![behind_tags], ..BridgeConfig::default() });
    });
}

#[test]
fn members_of_a_split_horizon_group_do_not_reach_each_other() {
    let v = vectors();
    let rows = [
        dropped("known, same group", A, v.get("a-to-b"), "bridge-input split-horizon"),
        sent("known, no group", C, v.get("a-to-b"), &[B]),
        sent("to all, from the group", A, v.get("a-to-all"), &[C]),
        sent("to all, from outside", C, v.get("a-to-all"), &[A, B]),
    ];
    run_table(&rows, |bench| {
        ports(bench);
        member(bench, A, 7);
        member(bench, B, 7);
        bridge(bench, &BridgeConfig::default());
        learn(bench, &v);
    });
    run_table(&[dropped("alone", A, v.get("a-to-all"), "bridge-flood no-member")], |bench| {
        ports(bench);
        for index in [A, B, C] {
            member(bench, index, 7);
        }
        bridge(bench, &BridgeConfig::default());
    });
}

#[test]
fn what_is_switched_off_does_not_happen() {
    let v = vectors();
    let on = BridgeConfig::default;
    let cases = [
        (
            BridgeConfig { flood: false, ..on() },
            dropped("no flooding", A, v.get("a-to-all"), "bridge-input flood-off"),
        ),
        (BridgeConfig { flood: false, ..on() }, sent("unknown, though", B, v.get("b-to-a"), &[A, C])),
        (
            BridgeConfig { flood_unknown_unicast: false, ..on() },
            dropped("no unknown", B, v.get("b-to-a"), "bridge-input unknown-unicast"),
        ),
        (
            BridgeConfig { flood_unknown_unicast: false, ..on() },
            sent("broadcast, though", A, v.get("a-to-all"), &[B, C]),
        ),
        (
            BridgeConfig { forward: false, ..on() },
            dropped("no forwarding", A, v.get("a-to-b"), "bridge-input forward-off"),
        ),
        (BridgeConfig { learn: false, ..on() }, sent("not learned", A, v.get("a-to-b"), &[B, C])),
    ];
    for (config, row) in cases {
        run_table(&[row], |bench| {
            ports(bench);
            bridge(bench, &config);
            learn(bench, &v);
        });
    }
}

#[test]
fn without_a_bridge_nothing_is_forwarded() {
    let v = vectors();
    run_table(&[dropped("no bridge", A, v.get("a-to-b"), "bridge-input no-bridge")], ports);
}

#[test]
fn a_member_that_is_down_is_left_out() {
    let v = vectors();
    let down = |bench: &mut Bench, index: IfIndex| {
        for arc in ["device-input", "interface-output"] {
            let (key, arc) = (bench.key::<Arcs>(), bench.plan.arc(arc).unwrap());
            bench.publish(|draft| draft.change(key, |arcs| arcs.set(arc, index, &[])).unwrap());
        }
    };
    let rows = [
        dropped("known", A, v.get("a-to-b"), "bridge-input member-down"),
        sent("to all", A, v.get("a-to-all"), &[C]),
    ];
    run_table(&rows, |bench| {
        ports(bench);
        bridge(bench, &BridgeConfig::default());
        learn(bench, &v);
        down(bench, B);
    });
    run_table(&[dropped("BVI", A, v.get("a-to-bvi"), "bvi-input bvi-down")], |bench| {
        all(bench);
        down(bench, BVI);
    });
}

#[test]
fn an_interface_that_has_left_the_bridge_gets_nothing() {
    let v = vectors();
    let other = Layer2::Bridge { bridge: BRIDGE + 1, split_horizon_group: 0, bvi: false };
    let rows = [
        sent("known there until a moment ago", A, v.get("a-to-b"), &[C]),
        sent("to all", A, v.get("a-to-all"), &[C]),
    ];
    for layer2 in [Layer2::None, other] {
        run_table(&rows, |bench| {
            ports(bench);
            bridge(bench, &BridgeConfig::default());
            learn(bench, &v);
            // The interface's entry is published; address table and member list are not yet in line with it.
            bench.set_interface(B, Interface { mtu: 200, layer2, ..Interface::default() });
        });
    }
}

#[test]
fn frames_of_several_members_in_one_vector_each_go_their_way() {
    let v = vectors();
    for tier in Tier::available() {
        let mut bench = Bench::new(tier);
        ports(&mut bench);
        bridge(&mut bench, &BridgeConfig::default());
        learn(&mut bench, &v);
        bench.wires[&B].send(&v.get("b-to-all"), 8);
        bench.wires[&C].send(&v.get("a-to-b"), 8);
        let outcome = bench.run(A, &[v.get("a-to-c"), v.get("a-to-all"), v.get("a-to-b")], 8);
        let frames = |index| {
            let mut frames = outcome.sent[&index].clone();
            frames.sort();
            frames
        };
        let mut to_c = [v.get("a-to-c"), v.get("a-to-all"), v.get("b-to-all")];
        to_c.sort();
        assert_eq!(frames(A), [v.get("b-to-all")]);
        assert_eq!(frames(B), [v.get("a-to-b"), v.get("a-to-b"), v.get("a-to-all")]);
        assert_eq!(frames(C), to_c);
        assert!(outcome.drops.is_empty(), "{:?}", outcome.drops);
    }
}

#[test]
fn features_before_and_after_the_bridge_are_passed() {
    let v = vectors();
    let routed = |flags| (PROBE_IF, [probe_header(BVI, VRF, 14, flags), v.get("payload")].concat());
    let all = v.get("a-to-all");
    let rows = [
        sent("known", A, v.get("a-to-b"), &[B]),
        Row {
            name: "to all",
            rx_if: A,
            frame: all.clone(),
            verdict: Verdict::Sent(vec![(B, all.clone()), (C, all), routed(4 + 2)]),
        },
        Row {
            name: "to the BVI",
            rx_if: A,
            frame: v.get("a-to-bvi"),
            verdict: Verdict::Sent(vec![routed(4 + 1)]),
        },
        sent("from the BVI", ROUTER, v.get("bvi-to-b"), &[B]),
    ];
    run_table(&rows, |bench| {
        ports(bench);
        bvi(bench);
        bridge(bench, &BridgeConfig::default());
        learn(bench, &v);
        bench.chain("device-input", BVI, &["pass-in"], "ethernet-input");
        for index in [A, B, C] {
            bench.chain("device-input", index, &["pass-in"], "bridge-input");
            bench.chain("interface-output", index, &["pass-out"], "test-tx");
        }
        bench.chain("interface-output", BVI, &["pass-out"], "bvi-output");
    });
}

#[test]
fn the_routed_leg_counts_both_ways() {
    let v = vectors();
    let mut bench = Bench::new(Tier::detect());
    all(&mut bench);
    let _ = bench.run(A, &[v.get("a-to-bvi"), v.get("a-to-all"), v.get("a-to-b")], 8);
    let _ = bench.run(ROUTER, &[v.get("bvi-to-b"), v.get("bvi-to-b")], 8);
    let counters = bench.graph.counters().interface(BVI);
    let values = [&counters.rx_packets, &counters.rx_bytes, &counters.tx_packets, &counters.tx_bytes];
    assert_eq!(
        values.map(|counter| counter.get()),
        [3, 180, 2, 120],
        "the unknown one was flooded here, too"
    );
}
