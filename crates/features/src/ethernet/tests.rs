//! Tables of frames through both nodes.

use crate::interface::control::stack;
use crate::interface::{Interface, Interfaces, LinkMode, VlanTags};
use crate::testing::{Bench, PROBE_IF, Row, Vectors, Verdict, probe_header, run_table};
use graph::arc::Arcs;
use graph::port::IfIndex;
use graph::simd::Tier;
use graph::trace::{Budget, TraceOrder};
use proptest::prelude::*;
use std::collections::BTreeMap;
use wire::MacAddr;

const VRF: u16 = 3;
const SUB_VRF: u16 = 4;
const PORT: IfIndex = 1;
const IP_PORT: IfIndex = 2;
const DOWN_SUB: IfIndex = 7;
/// Sub-interfaces of `PORT`: index, outer type, outer and inner id.
const SUBS: [(IfIndex, u16, u16, u16); 4] =
    [(5, 0x8100, 5, 0), (6, 0x88a8, 5, 0), (DOWN_SUB, 0x8100, 7, 0), (8, 0x88a8, 100, 200)];

fn vectors() -> Vectors {
    Vectors::read(include_str!("../../tests/vectors/l2.txt"))
}

fn setup(bench: &mut Bench) {
    let ours = MacAddr([2, 0xfe, 0, 0, 0, 1]);
    let port = Interface { mac: ours, mtu: 200, vrf: VRF, ..Interface::default() };
    bench.add_port(PORT, port.clone(), "ethernet-input");
    bench.add_port(IP_PORT, Interface { mode: LinkMode::Ip, ..port.clone() }, "l3-input");
    bench.add_port(PROBE_IF, Interface::default(), "ethernet-input");
    for (index, outer_type, outer, inner) in SUBS {
        let vlan = Some((PORT, VlanTags { outer_type, outer, inner }));
        let mac = MacAddr([2, 0xfe, 0, 0, 0, 5]);
        bench.set_interface(index, Interface { vlan, mac, vrf: SUB_VRF, ..port.clone() });
    }
    let key = bench.key::<Interfaces>();
    bench.publish(|draft| {
        draft.change(key, |table| {
            let down = Interface { up: false, ..table.get(DOWN_SUB).clone() };
            table.set(DOWN_SUB, Some(down));
            stack(table).unwrap();
        });
    });
}

#[test]
fn frames_of_routed_interfaces() {
    let v = vectors();
    let passed = |name, rx_if, table, header, flags, payload: &[u8]| {
        let out = [probe_header(rx_if, table, header, flags), payload.to_vec()].concat();
        Row { name, rx_if: PORT, frame: v.get(name), verdict: Verdict::Sent(vec![(PROBE_IF, out)]) }
    };
    let dropped =
        |name, reason| Row { name, rx_if: PORT, frame: v.get(name), verdict: Verdict::Dropped(reason) };
    let payload = v.get("payload");
    let tagged = [&[0x81, 0, 0, 9, 0x88, 0xb5][..], &payload].concat();
    assert_eq!(v.get("vlan-5-inner-9-to-sub")[16..], tagged[..], "the frame that no sub-interface matches");
    let rows = [
        passed("to-us", PORT, VRF, 14, 1, &payload),
        passed("to-broadcast", PORT, VRF, 14, 2, &payload),
        passed("to-multicast", PORT, VRF, 14, 2, &payload),
        passed("long-to-us", PORT, VRF, 14, 1, &v.get("long-payload")),
        dropped("to-other", "ethernet-input wrong-mac"),
        dropped("mpls-to-us", "ethernet-input unknown-ethertype"),
        dropped("stp", "ethernet-input llc"),
        dropped("lldp", "ethernet-input unknown-ethertype"),
        // sub-interfaces
        passed("vlan-5-to-sub", 5, SUB_VRF, 18, 1, &payload),
        passed("vlan-5-prio-7-to-sub", 5, SUB_VRF, 18, 1, &payload),
        passed("service-5-to-sub", 6, SUB_VRF, 18, 1, &payload),
        passed("qinq-100-200-to-sub", 8, SUB_VRF, 22, 1, &payload),
        passed("vlan-5-inner-priority-to-sub", 5, SUB_VRF, 22, 1, &payload),
        passed("priority-and-vlan-5-to-sub", 5, SUB_VRF, 22, 1, &payload),
        dropped("vlan-5-to-us", "ethernet-input wrong-mac"),
        dropped("vlan-6-to-us", "ethernet-input unknown-vlan"),
        dropped("vlan-7-to-sub", "ethernet-input sub-interface-down"),
        dropped("qinq-100-201-to-sub", "ethernet-input unknown-vlan"),
        dropped("q-100-200-to-sub", "ethernet-input unknown-vlan"),
        dropped("vlan-5-inner-9-to-sub", "ethernet-input unknown-vlan"),
        dropped("vlan-4095-to-us", "ethernet-input unknown-vlan"),
        // priority tags only: as if untagged
        passed("priority-to-us", PORT, VRF, 18, 1, &payload),
        passed("two-priority-to-us", PORT, VRF, 22, 1, &payload),
    ];
    run_table(&rows, setup);
}

#[test]
fn frames_that_end_too_early() {
    let v = vectors();
    let cut = |name: &'static str, len| {
        let frame = v.get(name)[..len].to_vec();
        Row { name, rx_if: PORT, frame, verdict: Verdict::Dropped("ethernet-input truncated") }
    };
    let rows = [
        cut("to-us", 1),
        cut("to-us", 13),
        cut("vlan-5-to-sub", 14),
        cut("vlan-5-to-sub", 17),
        cut("qinq-100-200-to-sub", 18),
        cut("qinq-100-200-to-sub", 21),
    ];
    run_table(&rows, setup);
    let whole = [
        ("nothing behind the header", "to-us", 14, PORT, VRF, 14),
        ("nothing behind a tag", "vlan-5-to-sub", 18, 5, SUB_VRF, 18),
        ("nothing behind two tags", "qinq-100-200-to-sub", 22, 8, SUB_VRF, 22),
    ];
    let rows = whole.map(|(name, vector, len, rx_if, table, header)| Row {
        name,
        rx_if: PORT,
        frame: v.get(vector)[..len].to_vec(),
        verdict: Verdict::Sent(vec![(PROBE_IF, probe_header(rx_if, table, header, 1))]),
    });
    run_table(&rows, setup);
}

#[test]
fn packets_of_ip_mode_interfaces() {
    let row = |name, frame: &[u8], verdict| Row { name, rx_if: IP_PORT, frame: frame.to_vec(), verdict };
    let version_15 = [&[0xf5][..], &vectors().get("long-payload")].concat();
    let out = [probe_header(IP_PORT, VRF, 0, 0), version_15.clone()].concat();
    let bad = || Verdict::Dropped("l3-input bad-version");
    let rows = [
        row("a version that somebody takes", &version_15, Verdict::Sent(vec![(PROBE_IF, out)])),
        row(
            "one byte",
            &[0xf0],
            Verdict::Sent(vec![(PROBE_IF, [probe_header(IP_PORT, VRF, 0, 0), vec![0xf0]].concat())]),
        ),
        row("version 0", &[0x05; 40], bad()),
        row("version 7", &[0x75; 40], bad()),
    ];
    run_table(&rows, setup);
}

#[test]
fn an_interface_that_is_down_takes_nothing() {
    let rows = [Row {
        name: "down",
        rx_if: PORT,
        frame: vectors().get("to-us"),
        verdict: Verdict::Dropped("test-input interface-down"),
    }];
    run_table(&rows, |bench| {
        setup(bench);
        let (key, arc) = (bench.key::<Arcs>(), bench.plan.arc("device-input").unwrap());
        bench.publish(|draft| draft.change(key, |arcs| arcs.set(arc, PORT, &[])).unwrap());
    });
}

#[test]
fn sub_interfaces_count_what_is_theirs_without_the_tags() {
    let v = vectors();
    for tier in Tier::available() {
        let mut bench = Bench::new(tier);
        setup(&mut bench);
        let names = [
            "vlan-5-to-sub",
            "to-us",
            "vlan-5-to-sub",
            "qinq-100-200-to-sub",
            "vlan-7-to-sub",
            "vlan-5-to-us",
        ];
        let frames: Vec<_> = names.iter().map(|name| v.get(name)).collect();
        let all: usize = frames.iter().map(Vec::len).sum();
        let outcome = bench.run(PORT, &frames, 256);
        assert_eq!(outcome.sent[&PROBE_IF].len(), 4);
        let counted = |index| {
            let counters = bench.graph.counters().interface(index);
            [&counters.rx_packets, &counters.rx_bytes, &counters.rx_drops].map(|counter| counter.get())
        };
        assert_eq!(counted(PORT), [6, all as u64, 0], "the port counts everything");
        assert_eq!(
            counted(5),
            [3, 3 * 60, 1],
            "and the sub-interface its own: one of them is for another station"
        );
        assert_eq!(counted(8), [1, 60, 0]);
        assert_eq!(counted(DOWN_SUB), [1, 60, 1]);
    }
}

#[test]
fn a_trace_shows_addresses_and_tags() {
    let v = vectors();
    let cases = [
        ("to-us", "02:00:00:00:00:0a > 02:fe:00:00:00:01 0x88b5 interface 1"),
        ("vlan-5-to-sub", "02:00:00:00:00:0a > 02:fe:00:00:00:05 802.1Q 5 0x88b5 interface 5"),
        ("qinq-100-200-to-sub", "02:00:00:00:00:0a > 02:fe:00:00:00:05 802.1ad 100.200 0x88b5 interface 8"),
    ];
    for (name, text) in cases {
        let mut bench = Bench::new(Tier::detect());
        setup(&mut bench);
        let nodes = vec![bench.plan.node("ethernet-input").unwrap()];
        bench.graph.tracer.order(TraceOrder { nodes, interface: None, budget: Budget::new(1) });
        let _ = bench.run(PORT, &[v.get(name)], 1);
        let finished = bench.graph.tracer.finished();
        let traces = finished.lock().unwrap();
        let step = &traces[0].steps[0];
        assert_eq!((step.node, step.text.as_str(), step.next), ("ethernet-input", text, Some("probe")));
    }
}

/// All that can be said of any bytes: each frame is either handed on or dropped for a reason, alike in every tier.
fn check_bytes(frames: &[Vec<u8>]) -> Result<(), TestCaseError> {
    for port in [PORT, IP_PORT] {
        let mut first: Option<(BTreeMap<String, u64>, usize)> = None;
        for tier in Tier::available() {
            for burst in [1, 256] {
                let mut bench = Bench::new(tier);
                setup(&mut bench);
                let outcome = bench.run(port, frames, burst);
                let sent = outcome.sent.values().map(Vec::len).sum::<usize>();
                prop_assert_eq!(sent + outcome.drops.values().sum::<u64>() as usize, frames.len());
                let result = (outcome.drops, sent);
                prop_assert_eq!(first.get_or_insert_with(|| result.clone()), &result);
            }
        }
    }
    Ok(())
}

fn any_frame() -> impl Strategy<Value = Vec<u8>> {
    let dst = prop_oneof![
        Just([2, 0xfe, 0, 0, 0, 1]),
        Just([2, 0xfe, 0, 0, 0, 5]),
        Just([0xff; 6]),
        any::<[u8; 6]>()
    ];
    let ethertype = prop_oneof![Just(0x8100u16), Just(0x88a8), Just(0x88b5), any::<u16>()];
    let id = prop_oneof![Just(0u16), Just(5), Just(100), Just(200), any::<u16>()];
    let tags = prop::collection::vec((ethertype, id), 0..4);
    let frame = (dst, any::<[u8; 6]>(), tags, prop::collection::vec(any::<u8>(), 0..150), 0usize..200);
    let built = frame.prop_map(|(dst, src, tags, rest, cut)| {
        let tags = tags.iter().flat_map(|(a, b)| [a.to_be_bytes(), b.to_be_bytes()].concat());
        let mut frame: Vec<u8> = dst.into_iter().chain(src).chain(tags).chain(rest).collect();
        frame.truncate(cut.max(1));
        frame
    });
    prop_oneof![built, prop::collection::vec(any::<u8>(), 1..200)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn any_bytes_are_survived(frames in prop::collection::vec(any_frame(), 1..40)) {
        check_bytes(&frames)?;
    }
}

#[test]
fn frames_to_groups_are_counted_for_the_interface_and_the_sub_interface() {
    let v = vectors();
    let to = |name, dst: [u8; 6]| [&dst[..], &v.get(name)[6..]].concat();
    let (all, group) = ([0xff; 6], [1, 0, 0x5e, 0, 0, 9]);
    let frames = [
        v.get("to-us"),
        v.get("to-broadcast"),
        to("to-us", group),
        to("to-us", group),
        v.get("vlan-5-to-sub"),
        to("vlan-5-to-sub", all),
        to("vlan-5-to-sub", group),
    ];
    let mut bench = Bench::new(Tier::detect());
    setup(&mut bench);
    bench.run(PORT, &frames, 256);
    let counted = |interface| {
        let counters = bench.graph.counters().interface(interface);
        (counters.rx_packets.get(), counters.rx_multicast.get(), counters.rx_broadcast.get())
    };
    assert_eq!((counted(PORT), counted(5)), ((7, 3, 2), (3, 1, 1)));
}
