//! The short way beside the long one: what comes out is the same.

use crate::interface::{Interface, Rpf};
use crate::ip::topology;
use crate::testing::{Bench, Outcome, Row, forwarding_nodes, hex, rows, run_table_on};
use graph::nodes::{DEVICE_INPUT, INTERFACE_OUTPUT};
use graph::packet::{Gso, Offload};
use graph::simd::Tier;
use graph::trace::{Budget, TraceOrder};
use graph::{Ctx, Feature, Frame, Node, NodeContext, NodeSpec};
use proptest::prelude::*;
use std::cell::{Cell, RefCell};
use std::net::Ipv6Addr;
use wire::{EtherType, EthernetHeader, IntoBytes, IpProtocol, Ipv4Header, Ipv6Header, MacAddr};

const SHORT: &str = "ip-forward";
const LONG: &str = "ethernet-input";

fn vectors(v6: bool) -> Vec<Row> {
    rows(if v6 {
        include_str!("../../tests/vectors/ip6.txt")
    } else {
        include_str!("../../tests/vectors/ip4.txt")
    })
}

fn row(name: &str, v6: bool) -> Row {
    vectors(v6).into_iter().find(|row| row.name == name).unwrap_or_else(|| panic!("no row {name:?}"))
}

fn ordinary(v6: bool) -> Row {
    row(if v6 { "forward 30 bytes" } else { "forward 50 bytes" }, v6)
}

const PRIORITY: &str = "a priority tag";

/// An ordinary packet behind a tag of VLAN id 0, which says what priority it has.
fn tagged(v6: bool) -> Row {
    let mut row = ordinary(v6);
    row.frame.splice(12..12, [0x81, 0x00, 0xa0, 0x00]);
    row
}

/// Shows the metadata of each packet on its way out: the control thread is told, under a kind that says it all.
const SPY: NodeSpec = NodeSpec {
    name: "spy",
    help: "Shows metadata.",
    edges: &["drop"],
    features: &[Feature { arc: INTERFACE_OUTPUT, runs_before: &[], runs_after: &[] }],
    make: |cx: &NodeContext<'_>| Box::new(Spy { arcs: cx.table(), place: cx.arc(INTERFACE_OUTPUT) }),
    ..NodeSpec::EMPTY
};

struct Spy {
    arcs: graph::publish::Key<graph::arc::Arcs>,
    place: graph::arc::ArcPlace,
}

impl Node for Spy {
    fn process(&mut self, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>) {
        let arcs = ctx.tables.get(self.arcs);
        frame.each(|slot| {
            // A kind is a name that lives as long as the program: tests have few.
            let kind = String::leak(format!("{:?}", ctx.packets.meta(slot)));
            assert!(ctx.punt(kind, slot, ctx.packets.meta(slot).rx_if), "the queue of events is full");
            let meta = ctx.packets.meta_mut(slot);
            self.place.next(arcs, meta.tx_if, meta)
        });
    }
}

fn bench(tier: Tier, small_mtu: u16, way: &str) -> Bench {
    let mut bench = Bench::with_nodes(tier, &forwarding_nodes());
    topology::set_up_at(&mut bench, small_mtu, way);
    bench
}

/// Packets that `node` has worked on.
fn packets_of(bench: &Bench, node: &str) -> u64 {
    let id = bench.plan.node(node).unwrap();
    bench.graph.counters().runtime[usize::from(id)].packets.get()
}

#[test]
fn the_tables_of_both_versions_hold_by_the_short_way() {
    for (v6, small_mtu) in [(false, 300), (true, 1280)] {
        run_table_on(&forwarding_nodes(), &vectors(v6), |bench| {
            topology::set_up_at(bench, small_mtu, SHORT);
        });
    }
}

#[test]
fn what_is_known_of_a_packet_is_what_the_long_way_leaves() {
    let nodes = [forwarding_nodes(), vec![SPY]].concat();
    for v6 in [false, true] {
        for tier in Tier::available() {
            let (mut sent, mut short) = (0, 0);
            for row in vectors(v6) {
                let outcomes = [LONG, SHORT].map(|way| {
                    let mut bench = Bench::with_nodes(tier, &nodes);
                    topology::set_up_at(&mut bench, if v6 { 1280 } else { 300 }, way);
                    for index in [2, 4, 5] {
                        bench.chain(INTERFACE_OUTPUT, index, &["spy"], "test-tx");
                    }
                    let outcome = bench.run(row.rx_if, std::slice::from_ref(&row.frame), 1);
                    if way == SHORT && packets_of(&bench, LONG) == 0 {
                        short += 1;
                    }
                    outcome
                });
                sent += outcomes[0].sent.len();
                assert_eq!(outcomes[0], outcomes[1], "row {:?}, tier {}", row.name, tier.name());
            }
            assert!(short > 5 && sent > short, "{short} by the short way of {sent}");
        }
    }
}

#[test]
fn ordinary_packets_go_the_short_way_and_are_counted_as_by_the_long_one() {
    for tier in Tier::available() {
        for v6 in [false, true] {
            let frames = vec![ordinary(v6).frame; 200];
            let [long, short] = [LONG, SHORT].map(|way| {
                let mut bench = Bench::with_nodes(tier, &forwarding_nodes());
                let forwarding = topology::set_up_at(&mut bench, 1500, way);
                let outcome = bench.run(1, &frames, 256);
                let by_hop: Vec<_> = forwarding
                    .adjacencies()
                    .list()
                    .into_iter()
                    .map(|view| (view.hop.tx_if, view.sent))
                    .collect();
                (outcome, by_hop, packets_of(&bench, LONG))
            });
            assert_eq!((&long.0, &long.1), (&short.0, &short.1));
            assert_eq!((long.2, short.2), (200, 0));
        }
    }
}

#[test]
fn no_packet_overtakes_one_of_its_flow() {
    for tier in Tier::available() {
        for (v6, unusual) in [
            (false, "record route, 60 bytes of header"),
            (false, "a later fragment"),
            (false, PRIORITY),
            (true, "hop-by-hop options"),
            (true, "a later fragment"),
            (true, PRIORITY),
        ] {
            let mut bench = bench(tier, 1500, SHORT);
            let (usual, unusual) =
                (ordinary(v6), if unusual == PRIORITY { tagged(v6) } else { row(unusual, v6) });
            let out = |row: &Row| match &row.verdict {
                crate::testing::Verdict::Sent(frames) => frames[0].1.clone(),
                other => panic!("row {:?}: {other:?}", row.name),
            };
            let mut frames = vec![usual.frame.clone(); 100];
            frames[70] = unusual.frame.clone();
            let mut expected = vec![out(&usual); 100];
            expected[70] = out(&unusual);
            let outcome = bench.run(1, &frames, 100);
            assert_eq!(outcome.sent[&2], expected, "tier {}", tier.name());
            assert_eq!(packets_of(&bench, LONG), 30, "that one, and all behind it");
        }
    }
}

#[test]
fn one_interface_s_packets_do_not_take_another_s_along() {
    for tier in Tier::available() {
        let mut bench = bench(tier, 1500, SHORT);
        let unusual = row("record route, 60 bytes of header", false);
        let from_two = Row { rx_if: 2, ..ordinary(false) };
        let mut to_three = from_two.frame.clone();
        to_three[..6].copy_from_slice(&hex("02fe00000002"));
        bench.wires[&1].send(&unusual.frame, 256);
        bench.wires[&1].send(&ordinary(false).frame, 256);
        (0..50).for_each(|_| bench.wires[&2].send(&to_three, 256));
        let outcome = bench.run(1, &[], 256);
        assert_eq!(outcome.sent.values().map(Vec::len).sum::<usize>(), 52, "{:?}", outcome.drops);
        assert_eq!(packets_of(&bench, LONG), 2, "tier {}", tier.name());
    }
}

#[test]
fn others_do_not_keep_ordinary_packets_from_the_short_way() {
    for tier in Tier::available() {
        let mut bench = bench(tier, 1500, SHORT);
        let mut frames = vec![ordinary(false).frame; 100];
        // To a network whose neighbour isn't known, and with an ethertype that nobody takes.
        frames[10] = row("a router that isn't known", false).frame;
        frames[20][12..14].copy_from_slice(&[0x88, 0xb6]);
        frames[30] = ordinary(true).frame;
        // To other stations, and to a group that the default route would lead to.
        frames[40][0] ^= 4;
        frames[50][0] = 1;
        let outcome = bench.run(1, &frames, 100);
        assert_eq!(outcome.sent[&2].len(), 96, "{:?}", outcome.drops);
        assert_eq!(packets_of(&bench, LONG), 4, "tier {}", tier.name());
    }
}

#[test]
fn flows_to_several_next_hops_take_the_same_ways_as_by_the_long_one() {
    for symmetric in [false, true] {
        for v6 in [false, true] {
            let flows: Vec<_> = (0..200).map(|port| udp(v6, 1000 + port)).collect();
            let [long, short] = [LONG, SHORT].map(|way| {
                let mut bench = Bench::with_nodes(Tier::detect(), &forwarding_nodes());
                let mut forwarding = topology::set_up_at(&mut bench, 1500, way);
                forwarding.set_symmetric_hash(0, symmetric).unwrap();
                bench.commit(&mut forwarding);
                (bench.run(1, &flows, 256), packets_of(&bench, LONG))
            });
            assert_eq!(long.0, short.0);
            assert_eq!((long.1, short.1), (200, 0));
            let by_two = short.0.sent[&2].len();
            assert!((50..150).contains(&by_two), "{by_two} of 200 by interface 2");
        }
    }
}

/// A datagram to the network behind two routers, with padding that says other ports.
fn udp(v6: bool, port: u16) -> Vec<u8> {
    let ethernet = EthernetHeader {
        dst: MacAddr([2, 0xfe, 0, 0, 0, 1]),
        src: MacAddr([2, 0, 0, 0, 1, 9]),
        ethertype: if v6 { EtherType::IPV6 } else { EtherType::IPV4 },
    };
    let ip = if v6 {
        let ends = ["2001:db8:1::9", "2001:db8:1009::1"].map(|text| text.parse::<Ipv6Addr>().unwrap());
        Ipv6Header::new(ends[0], ends[1], IpProtocol::UDP, 64, 8).as_bytes().to_vec()
    } else {
        Ipv4Header::new([10, 0, 1, 9].into(), [10, 9, 0, 1].into(), IpProtocol::UDP, 64, 28)
            .as_bytes()
            .to_vec()
    };
    [ethernet.as_bytes(), &ip, &port.to_be_bytes(), &[0, 80, 0, 8, 0, 0], &port.to_be_bytes(), &[9; 20]]
        .concat()
}

/// What a port says of a datagram that whoever sends it has to cut into pieces of so many bytes.
const CUTS: NodeSpec = NodeSpec {
    name: "cuts",
    help: "Has datagrams cut.",
    edges: &["drop"],
    features: &[Feature { arc: DEVICE_INPUT, runs_before: &[], runs_after: &[] }],
    make: |cx: &NodeContext<'_>| Box::new(Cuts { arcs: cx.table(), place: cx.arc(DEVICE_INPUT) }),
    ..NodeSpec::EMPTY
};

thread_local! {
    static PIECE: Cell<u16> = const { Cell::new(0) };
}

struct Cuts {
    arcs: graph::publish::Key<graph::arc::Arcs>,
    place: graph::arc::ArcPlace,
}

impl Node for Cuts {
    fn process(&mut self, ctx: &mut Ctx<'_>, frame: &mut Frame<'_>) {
        let arcs = ctx.tables.get(self.arcs);
        frame.each(|slot| {
            let meta = ctx.packets.meta_mut(slot);
            meta.offload = Offload { gso: Gso::Udp, gso_size: PIECE.get(), ..Offload::default() };
            self.place.next(arcs, meta.rx_if, meta)
        });
    }
}

#[test]
fn super_frames_go_the_short_way_where_what_is_made_of_them_fits() {
    let nodes = [forwarding_nodes(), vec![CUTS]].concat();
    for v6 in [false, true] {
        // 3000 bytes, for an MTU of 1500.
        let mut frame = udp(v6, 1000);
        let header = if v6 { 40 } else { 20 };
        frame.resize(14 + 3000, 7);
        let ip = if v6 {
            let ends = ["2001:db8:1::9", "2001:db8:1009::1"].map(|text| text.parse::<Ipv6Addr>().unwrap());
            Ipv6Header::new(ends[0], ends[1], IpProtocol::UDP, 64, 2960).as_bytes().to_vec()
        } else {
            let ends = [[10, 0, 1, 9].into(), [10, 9, 0, 1].into()];
            Ipv4Header::new(ends[0], ends[1], IpProtocol::UDP, 64, 3000).as_bytes().to_vec()
        };
        frame[14..14 + header].copy_from_slice(&ip);
        let most = (1500 - header - 8) as u16;
        for (piece, by_long_way) in [(1, 0), (most, 0), (most + 1, 1)] {
            PIECE.set(piece);
            let [long, short] = [LONG, SHORT].map(|way| {
                let mut bench = Bench::with_nodes(Tier::detect(), &nodes);
                topology::set_up_at(&mut bench, 1500, way);
                bench.chain(DEVICE_INPUT, 1, &["cuts"], way);
                (bench.run(1, std::slice::from_ref(&frame), 1), packets_of(&bench, LONG))
            });
            assert_eq!(long.0, short.0);
            assert_eq!((long.1, short.1), (1, by_long_way), "pieces of {piece}");
            assert_eq!(short.0.sent.len() as u64, 1 - by_long_way, "{:?}", short.0);
        }
    }
}

#[test]
fn features_of_an_interface_see_its_packets() {
    let mut bench = bench(Tier::detect(), 1500, SHORT);
    let strict = Interface { rpf: Rpf::Strict, ..topology::interface(1, 1500) };
    bench.set_interface(1, strict);
    bench.chain("ip4-unicast", 1, &["ip4-rpf"], "ip4-lookup");
    let mut frame = ordinary(false).frame;
    let good = bench.run(1, std::slice::from_ref(&frame), 1);
    assert_eq!(good.sent.len(), 1, "{:?}", good.drops);
    // A source that lies behind another interface; the checksum is right.
    frame[14 + 12..14 + 16].copy_from_slice(&[10, 0, 2, 9]);
    frame[14 + 10..14 + 12].copy_from_slice(&[0, 0]);
    let sum: u32 =
        frame[14..34].chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    frame[14 + 10..14 + 12].copy_from_slice(&sum.to_be_bytes());
    let bad = bench.run(1, &[frame], 1);
    assert_eq!(bad.drops.keys().collect::<Vec<_>>(), ["ip4-rpf wrong-interface"], "{bad:?}");
    assert_eq!(packets_of(&bench, "ip4-rpf"), 2);
}

#[test]
fn while_a_trace_is_on_packets_go_node_by_node() {
    let mut bench = bench(Tier::detect(), 1500, SHORT);
    let nodes = vec![bench.plan.node("ip4-lookup").unwrap()];
    bench.graph.tracer.order(TraceOrder { nodes, interface: None, budget: Budget::new(1) });
    let frames = [ordinary(false).frame];
    let _ = bench.run(1, &frames, 1);
    let finished = bench.graph.tracer.finished();
    let steps: Vec<_> = finished.lock().unwrap()[0].steps.iter().map(|step| step.node).collect();
    assert_eq!(steps, ["ip4-lookup", "ip4-rewrite", "test-tx"]);
    let _ = bench.run(1, &frames, 1);
    assert_eq!(packets_of(&bench, "ip4-lookup"), 1, "the trace is over");
}

/// What came out, whatever the order: packets of different flows may change theirs.
fn sorted(mut outcome: Outcome) -> Outcome {
    outcome.sent.values_mut().for_each(|frames| frames.sort());
    outcome.punts.sort_unstable();
    outcome
}

proptest! {
    #[test]
    fn damaged_packets_in_any_mixture_meet_the_same_fate_by_both_ways(
        picks in proptest::collection::vec(
            (any::<proptest::sample::Index>(), proptest::option::of((0..90usize, any::<u8>())), 14..200usize, any::<bool>()),
            1..80,
        ),
    ) {
        thread_local! {
            static WAYS: RefCell<[Bench; 2]> = RefCell::new([LONG, SHORT].map(|way| bench(Tier::detect(), 1280, way)));
            static ROWS: Vec<Row> = [vectors(false), vectors(true)].concat();
        }
        let frames: Vec<(u16, Vec<u8>)> = ROWS.with(|rows| {
            picks.iter().map(|(row, damage, cut, whole)| {
                let row = &rows[row.index(rows.len())];
                let mut frame = row.frame.clone();
                if let Some((at, value)) = damage && let Some(byte) = frame.get_mut(*at) {
                    *byte = *value;
                }
                if !whole {
                    frame.truncate(*cut);
                }
                (row.rx_if, frame)
            }).collect()
        });
        let outcomes = WAYS.with_borrow_mut(|ways| {
            ways.each_mut().map(|bench| {
                for (rx_if, frame) in &frames {
                    bench.wires[rx_if].send(frame, 256);
                }
                sorted(bench.run(1, &[], 256))
            })
        });
        prop_assert_eq!(&outcomes[0], &outcomes[1]);
    }
}

#[test]
fn a_frame_to_another_station_is_left_to_who_says_so() {
    let mut bench = bench(Tier::detect(), 1500, SHORT);
    let mut frame = ordinary(false).frame;
    frame[..6].copy_from_slice(&hex("02fe00000009"));
    let outcome = bench.run(1, &[frame], 1);
    assert_eq!(outcome.drops, [("ethernet-input wrong-mac".to_owned(), 1)].into());
}
