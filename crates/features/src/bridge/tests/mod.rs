//! Bridges driven with frames that scapy has built.

mod addresses;
mod answering;
mod forwarding;
mod limits;
mod shares;

use super::control::{BridgeConfig, Place, StaticMac};
use super::{Bridges, control};
use crate::interface::control::{Ends, stack};
use crate::interface::{Interface, Interfaces, Layer2, VlanTags};
use crate::testing::{Bench, PROBE_IF, Row, Vectors, Verdict};
use graph::arc::Arcs;
use graph::port::IfIndex;
use std::collections::BTreeMap;
use std::sync::Arc;
use tables::mac::MacTable;
use wire::MacAddr;

const BRIDGE: u16 = 1;
/// Members with a port; station A, B, C is behind the one of the same number.
const A: IfIndex = 1;
const B: IfIndex = 2;
const C: IfIndex = 3;
/// Routed port under `TAGGED`.
const TRUNK: IfIndex = 4;
/// Member: frames of `TRUNK` tagged 88a8 100, 8100 200.
const TAGGED: IfIndex = 5;
const BVI: IfIndex = 10;
/// What comes in here leaves by the BVI, as if it had been routed there.
const ROUTER: IfIndex = 20;
const VRF: u16 = 6;

const MAC_A: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xa]);
const MAC_B: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xb]);
const MAC_C: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xc]);
const MAC_BVI: MacAddr = MacAddr([2, 0xfe, 0, 0, 0, 0xb1]);

fn vectors() -> Vectors {
    Vectors::read(include_str!("../../../tests/vectors/l2.txt"))
}

/// A member with a port.
fn member(bench: &mut Bench, index: IfIndex, group: u8) {
    let layer2 = Layer2::Bridge { bridge: BRIDGE, split_horizon_group: group, bvi: false };
    let name = format!("port-{index}").into();
    bench.add_port(index, Interface { mtu: 200, layer2, name, ..Interface::default() }, "bridge-input");
}

/// Members A, B, C; the rest is up to the caller. Nothing is learned yet.
fn ports(bench: &mut Bench) {
    for index in [A, B, C] {
        member(bench, index, 0);
    }
    bench.add_port(PROBE_IF, Interface::default(), "ethernet-input");
}

/// The BVI, with a way to send by it.
fn bvi(bench: &mut Bench) {
    let layer2 = Layer2::Bridge { bridge: BRIDGE, split_horizon_group: 0, bvi: true };
    let leg =
        Interface { mac: MAC_BVI, mtu: 200, vrf: VRF, layer2, name: "bvi".into(), ..Interface::default() };
    bench.set_interface(BVI, leg);
    ends(bench, BVI);
    let router = Interface { layer2: Layer2::CrossConnect { peer: BVI }, ..Interface::default() };
    bench.add_port(ROUTER, router, "cross-connect");
}

/// A member with two VLAN tags.
fn tagged(bench: &mut Bench) {
    bench.add_port(TRUNK, Interface { mtu: 200, ..Interface::default() }, "ethernet-input");
    let vlan = Some((TRUNK, VlanTags { outer_type: 0x88a8, outer: 100, inner: 200 }));
    let layer2 = Layer2::Bridge { bridge: BRIDGE, split_horizon_group: 0, bvi: false };
    bench.set_interface(TAGGED, Interface { vlan, layer2, mtu: 200, ..Interface::default() });
    ends(bench, TAGGED);
    let key = bench.key::<Interfaces>();
    bench.publish(|draft| {
        draft.change(key, |table| {
            stack_vlans(table);
        })
    });
}

/// [`stack`], without the cross-connect that only tests have.
fn stack_vlans(table: &mut Interfaces) {
    let router = table.get(ROUTER).clone();
    table.set(ROUTER, None);
    stack(table).unwrap();
    table.set(ROUTER, router.exists.then_some(router));
}

/// Gives an interface without a port the ends that production gives it.
fn ends(bench: &mut Bench, index: IfIndex) {
    let (interfaces, arcs, plan) = (bench.key::<Interfaces>(), bench.key::<Arcs>(), Arc::clone(&bench.plan));
    bench.publish(|draft| {
        let ends = Ends::of(draft.get(interfaces).get(index), None, true);
        draft.change(arcs, |arcs| ends.set(&plan, arcs, index, &[], &[])).unwrap();
    });
}

/// Publishes the bridge, with a table for 64 addresses.
fn bridge(bench: &mut Bench, config: &BridgeConfig) {
    let (bridges, interfaces) = (bench.key::<Bridges>(), bench.key::<Interfaces>());
    bench.publish(|draft| {
        let built = config.build(BRIDGE, draft.get(interfaces)).unwrap();
        let mut table = draft.get(bridges).clone();
        if table.macs().is_none() {
            table = Bridges::new(Arc::new(MacTable::with_capacity(64).unwrap()));
        }
        table.set(BRIDGE, Some(built));
        let full = control::set_addresses(table.macs().unwrap(), [(BRIDGE, config)], draft.get(interfaces));
        assert_eq!(full, []);
        draft.set(bridges, table);
    });
}

/// Members A, B, C, a BVI and a member with two tags, in a bridge with default settings.
fn all(bench: &mut Bench) {
    ports(bench);
    bvi(bench);
    tagged(bench);
    bridge(bench, &BridgeConfig::default());
}

/// Lets the bridge learn where the stations B and C are.
fn learn(bench: &mut Bench, v: &Vectors) {
    let _ = bench.run(B, &[v.get("b-to-a")], 1);
    let _ = bench.run(C, &[v.get("c-to-a")], 1);
}

/// The published bridges.
fn bridges(bench: &Bench) -> Bridges {
    bench.publisher.draft().get(bench.key::<Bridges>()).clone()
}

/// What the bridge knows: address and place.
fn known(bench: &Bench) -> Vec<(MacAddr, Place)> {
    let list =
        control::addresses(bridges(bench).macs().unwrap(), bench.now).remove(&BRIDGE).unwrap_or_default();
    list.into_iter().map(|address| (address.mac, address.place)).collect()
}

/// The value of a declared counter.
fn counter(bench: &Bench, node: &str, name: &str) -> u64 {
    let all = bench.plan.counters.iter().enumerate();
    let mut of =
        all.filter(|(_, (id, spec))| bench.plan.nodes[*id as usize].spec.name == node && spec.name == name);
    bench.graph.counters().node(of.next().unwrap().0 as u16).get()
}

fn sent(name: &'static str, rx_if: IfIndex, frame: Vec<u8>, to: &[IfIndex]) -> Row {
    let verdict = Verdict::Sent(to.iter().map(|index| (*index, frame.clone())).collect());
    Row { name, rx_if, frame, verdict }
}

fn dropped(name: &'static str, rx_if: IfIndex, frame: Vec<u8>, reason: &'static str) -> Row {
    Row { name, rx_if, frame, verdict: Verdict::Dropped(reason) }
}

/// Interfaces by which something came out.
fn by(sent: &BTreeMap<IfIndex, Vec<Vec<u8>>>) -> Vec<IfIndex> {
    sent.keys().copied().collect()
}

fn fixed(mac: MacAddr, place: Place) -> StaticMac {
    StaticMac { mac, place }
}
