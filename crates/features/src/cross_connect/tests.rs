//! Tables of frames.

use crate::interface::control::stack;
use crate::interface::{Interface, Interfaces, Layer2, LinkMode, VlanTags};
use crate::testing::{Bench, Row, Vectors, Verdict, run_table};
use graph::arc::Arcs;
use graph::port::IfIndex;
use graph::simd::Tier;

fn vectors() -> Vectors {
    Vectors::read(include_str!("../../tests/vectors/l2.txt"))
}

/// 1 ↔ 2; 3 ↔ 4 in IP mode; 5 ↔ sub-interface 6 (VLAN 5 on 7), 9 ↔ sub-interface 10 (100.200 on 7), 7 itself ↔ 8.
fn setup(bench: &mut Bench) {
    let cross = |peer, mode| Interface {
        mtu: 200,
        mode,
        layer2: Layer2::CrossConnect { peer },
        ..Interface::default()
    };
    bench.add_port(1, cross(2, LinkMode::Ethernet), "cross-connect");
    bench.add_port(2, cross(1, LinkMode::Ethernet), "cross-connect");
    bench.add_port(3, cross(4, LinkMode::Ip), "cross-connect");
    bench.add_port(4, cross(3, LinkMode::Ip), "cross-connect");
    bench.add_port(5, cross(6, LinkMode::Ethernet), "cross-connect");
    let vlan = Some((7, VlanTags { outer_type: 0x8100, outer: 5, inner: 0 }));
    bench.set_interface(6, Interface { vlan, ..cross(5, LinkMode::Ethernet) });
    bench.chain("interface-output", 6, &[], "vlan-output");
    bench.add_port(7, cross(8, LinkMode::Ethernet), "ethernet-input");
    bench.add_port(8, cross(7, LinkMode::Ethernet), "cross-connect");
    bench.add_port(9, cross(10, LinkMode::Ethernet), "cross-connect");
    let vlan = Some((7, VlanTags { outer_type: 0x88a8, outer: 100, inner: 200 }));
    bench.set_interface(10, Interface { vlan, ..cross(9, LinkMode::Ethernet) });
    bench.chain("interface-output", 10, &[], "vlan-output");
    let key = bench.key::<Interfaces>();
    bench.publish(|draft| draft.change(key, stack).unwrap());
}

#[test]
fn frames_leave_by_the_peer_as_they_came() {
    let v = vectors();
    let row = |name, rx_if, tx_if| {
        let frame = v.get(name);
        Row { name, rx_if, verdict: Verdict::Sent(vec![(tx_if, frame.clone())]), frame }
    };
    let dropped =
        |name, rx_if, reason| Row { name, rx_if, frame: v.get(name), verdict: Verdict::Dropped(reason) };
    let rows = [
        row("a-to-b", 1, 2),
        row("b-to-a", 2, 1),
        row("a-to-all", 1, 2),
        row("stp", 1, 2),
        row("lldp", 1, 2),
        row("qinq-100-200-a-to-b", 1, 2),
        row("ip4", 3, 4),
        row("ip4-long", 3, 4),
        row("long-a-to-b", 1, 2),
        row("long-vlan-300-a-to-b", 1, 2),
        row("long-qinq-300-301-a-to-b", 1, 2),
        dropped("longer-a-to-b", 1, "cross-connect too-long"),
        dropped("longer-vlan-300-a-to-b", 1, "cross-connect too-long"),
        dropped("ip4-longer", 3, "cross-connect too-long"),
        Row {
            name: "one byte is a frame, too",
            rx_if: 1,
            frame: vec![7],
            verdict: Verdict::Sent(vec![(2, vec![7])]),
        },
        // What has the sub-interface's tag goes its way, everything else the port's.
        row("a-to-b", 7, 8),
        row("vlan-300-a-to-b", 7, 8),
        row("q-100-200-to-sub", 7, 8),
        row("vlan-5-b-to-a", 8, 7),
        Row {
            name: "the tag is taken off",
            rx_if: 7,
            frame: v.get("vlan-5-a-to-b"),
            verdict: Verdict::Sent(vec![(5, v.get("a-to-b"))]),
        },
        Row {
            name: "the tag is put on",
            rx_if: 5,
            frame: v.get("b-to-a"),
            verdict: Verdict::Sent(vec![(7, v.get("vlan-5-b-to-a"))]),
        },
        Row {
            name: "a long frame gets the tag on top",
            rx_if: 5,
            frame: v.get("long-a-to-b"),
            verdict: Verdict::Sent(vec![(7, v.get("long-vlan-5-a-to-b"))]),
        },
    ];
    run_table(&rows, setup);
}

#[test]
fn a_peer_that_is_down_or_no_peer() {
    let frame = || vectors().get("a-to-b");
    let row = |name, rx_if| Row {
        name,
        rx_if,
        frame: frame(),
        verdict: Verdict::Dropped("cross-connect peer-down"),
    };
    let down = |bench: &mut Bench, index: IfIndex| {
        let (key, arc) = (bench.key::<Arcs>(), bench.plan.arc("interface-output").unwrap());
        bench.publish(|draft| draft.change(key, |arcs| arcs.set(arc, index, &[])).unwrap());
    };
    run_table(&[row("peer down", 1), row("no peer", 2)], |bench| {
        setup(bench);
        down(bench, 2);
        bench.set_interface(2, Interface::default());
    });
    let parent = Row { verdict: Verdict::Dropped("vlan-output parent-down"), ..row("parent down", 5) };
    run_table(&[parent], |bench| {
        setup(bench);
        down(bench, 7);
    });
}

#[test]
fn a_vector_of_several_interfaces_and_lengths_is_sorted() {
    let v = vectors();
    for tier in Tier::available() {
        let mut bench = Bench::new(tier);
        setup(&mut bench);
        let (short, long) = (v.get("a-to-b"), v.get("longer-a-to-b"));
        bench.wires[&2].send(&v.get("b-to-a"), 8);
        bench.wires[&3].send(&v.get("ip4"), 8);
        let outcome = bench.run(1, &[short.clone(), long, short.clone()], 8);
        assert_eq!(outcome.sent[&2], [short.clone(), short]);
        assert_eq!(outcome.sent[&1], [v.get("b-to-a")]);
        assert_eq!(outcome.sent[&4], [v.get("ip4")]);
        assert_eq!(outcome.drops, [("cross-connect too-long".to_string(), 1)].into());
        let counted = |index| bench.graph.counters().interface(index).tx_packets.get();
        assert_eq!([counted(1), counted(2), counted(4)], [1, 2, 1]);
    }
}

#[test]
fn frames_of_several_sub_interfaces_in_one_vector_get_their_own_tags() {
    let v = vectors();
    let mut bench = Bench::new(Tier::detect());
    setup(&mut bench);
    bench.wires[&9].send(&v.get("a-to-b"), 8);
    let outcome = bench.run(5, &[v.get("a-to-b")], 8);
    assert_eq!(outcome.sent[&7], [v.get("vlan-5-a-to-b"), v.get("qinq-100-200-a-to-b")]);
    let frames = [v.get("qinq-100-200-a-to-b"), v.get("vlan-5-a-to-b"), v.get("qinq-100-200-a-to-b")];
    let outcome = bench.run(7, &frames, 8);
    assert_eq!(outcome.sent[&5], [v.get("a-to-b")]);
    assert_eq!(outcome.sent[&9], [v.get("a-to-b"), v.get("a-to-b")]);
}

#[test]
fn features_before_and_after_are_passed() {
    let v = vectors();
    let rows = [
        ("untagged", 1, "a-to-b", 2, "a-to-b"),
        ("tag put on", 5, "a-to-b", 7, "vlan-5-a-to-b"),
        ("tag taken off", 7, "vlan-5-a-to-b", 5, "a-to-b"),
    ]
    .map(|(name, rx_if, frame, tx_if, out)| Row {
        name,
        rx_if,
        frame: v.get(frame),
        verdict: Verdict::Sent(vec![(tx_if, v.get(out))]),
    });
    run_table(&rows, |bench| {
        setup(bench);
        for (index, input, output) in [
            (1, "cross-connect", "test-tx"),
            (2, "cross-connect", "test-tx"),
            (5, "cross-connect", "test-tx"),
            (6, "cross-connect", "vlan-output"),
            (7, "ethernet-input", "test-tx"),
        ] {
            bench.chain("device-input", index, &["pass-in"], input);
            bench.chain("interface-output", index, &["pass-out"], output);
        }
    });
}

#[test]
fn sub_interfaces_count_both_ways_without_the_tags() {
    let v = vectors();
    let mut bench = Bench::new(Tier::detect());
    setup(&mut bench);
    let _ = bench.run(7, &[v.get("vlan-5-a-to-b"), v.get("a-to-b")], 8);
    let _ = bench.run(5, &[v.get("b-to-a"), v.get("b-to-a"), v.get("b-to-a")], 8);
    let counters = bench.graph.counters().interface(6);
    let values = [&counters.rx_packets, &counters.rx_bytes, &counters.tx_packets, &counters.tx_bytes];
    assert_eq!(values.map(|counter| counter.get()), [1, 60, 3, 180]);
    assert_eq!(bench.graph.counters().interface(7).tx_bytes.get(), 3 * 64, "the parent counts the tags");
}

#[test]
fn frames_to_groups_are_counted_on_both_sides_and_ip_packets_are_not_taken_for_such() {
    let v = vectors();
    let to = |name, dst: [u8; 6]| [&dst[..], &v.get(name)[6..]].concat();
    let (all, group) = ([0xff; 6], [1, 0, 0x5e, 0, 0, 9]);
    let mut bench = Bench::new(Tier::detect());
    setup(&mut bench);
    bench.run(1, &[v.get("a-to-b"), to("a-to-b", all), to("a-to-b", group), to("a-to-b", group)], 8);
    // The first octet of an IPv4 header is odd, too.
    bench.run(3, &[[&[0x45; 1][..], &[0; 40]].concat()], 8);
    bench.run(5, &[to("b-to-a", all), v.get("b-to-a")], 8);
    bench.run(7, &[to("vlan-5-a-to-b", group)], 8);
    let counted = |interface| {
        let it = bench.graph.counters().interface(interface);
        [&it.rx_multicast, &it.rx_broadcast, &it.tx_multicast, &it.tx_broadcast].map(|counter| counter.get())
    };
    assert_eq!((counted(1), counted(2)), ([2, 1, 0, 0], [0, 0, 2, 1]));
    assert_eq!((counted(3), counted(4)), ([0; 4], [0; 4]));
    assert_eq!((counted(5), counted(6), counted(7)), ([0, 1, 1, 0], [1, 0, 0, 1], [1, 0, 0, 1]));
}
