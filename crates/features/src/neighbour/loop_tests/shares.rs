//! One interface floods, another one needs a new neighbor.

use super::*;
use crate::bridge::Bridges;
use crate::bridge::control::{BridgeConfig, set_addresses};
use crate::interface::{Interface, Interfaces, Layer2};
use std::sync::Arc;
use tables::mac::MacTable;
use wire::MacAddr;

const FLOODER: IfIndex = 5;
const VICTIM: IfIndex = 2;

/// A ping to 10.0.1.`host` that interface `rx_if` forwards, from a station of that number.
fn ping(rx_if: IfIndex, station: u8, host: u8) -> Vec<u8> {
    let mut ping = vectors().get("ping-1");
    ping[5] = rx_if as u8;
    ping[10..12].copy_from_slice(&[station, 9]);
    ping[33] = host;
    let sum = u16::from_be_bytes([ping[24], ping[25]]);
    let sum = wire::checksum::update_u16(sum, 0x0109, u16::from_be_bytes([1, host]));
    ping[24..26].copy_from_slice(&sum.to_be_bytes());
    ping
}

/// More neighbors than the limit of an interface allows, and then one of them over and over.
fn flood(lab: &mut Lab, port: IfIndex, leg: IfIndex) {
    for host in (10..=250).chain([200; 400]).chain([9; 1000]) {
        lab.bench.wires[&port].send(&ping(leg, port as u8, host), 256);
    }
    lab.settle();
}

#[test]
fn a_flood_by_one_interface_keeps_no_neighbor_from_another() {
    let mut lab = Lab::new();
    // Its limit is used up before it asks for 9.
    for host in 10..=250 {
        lab.bench.wires[&FLOODER].send(&ping(FLOODER, 5, host), 256);
    }
    lab.settle();
    lab.pass(5);
    for host in (10..=250).chain(10..=250) {
        lab.bench.wires[&FLOODER].send(&ping(FLOODER, 5, host), 256);
    }
    lab.settle();
    for _ in 0..1000 {
        lab.bench.wires[&FLOODER].send(&ping(FLOODER, 5, 9), 256);
    }
    lab.settle();
    assert_eq!(lab.state(1, "10.0.1.9"), None, "the flooder has used up its limit");
    lab.all_sent();
    lab.send(VICTIM, &ping(VICTIM, 2, 9));
    assert_eq!(lab.sent(1), [vectors().get("who-has")]);
    // Its packets wait beside the flooder's, and go on first when the neighbor answers.
    flood(&mut lab, FLOODER, FLOODER);
    lab.all_sent();
    lab.send(1, &vectors().get("is-at"));
    let sent = lab.sent(1);
    assert!(sent.contains(&vectors().get("ping-1-out")), "{sent:?}");
}

/// Members 7 and 8 of a bridge whose routed leg is 9: both come in by the leg, and have limits of their own.
#[test]
fn members_of_a_bridge_have_limits_of_their_own() {
    let mut lab = Lab::new();
    let member = |bvi| Layer2::Bridge { bridge: 1, split_horizon_group: 0, bvi };
    for index in [7, 8] {
        let port = Interface { mtu: 1500, layer2: member(false), ..Interface::default() };
        lab.bench.add_port(index, port, "bridge-input");
    }
    let mac = MacAddr([2, 0xfe, 0, 0, 0, 9]);
    lab.bench.set_interface(9, Interface { mac, mtu: 1500, layer2: member(true), ..Interface::default() });
    lab.bench.chain("device-input", 9, &[], "ethernet-input");
    lab.bench.chain("interface-output", 9, &[], "bvi-output");
    lab.bench.chain("ip4-unicast", 9, &[], "ip4-lookup");
    let (bridges, interfaces) = (lab.bench.key::<Bridges>(), lab.bench.key::<Interfaces>());
    lab.bench.publish(|draft| {
        let config = BridgeConfig::default();
        let mut table = Bridges::new(Arc::new(MacTable::with_capacity(64).unwrap()));
        table.set(1, Some(config.build(1, draft.get(interfaces)).unwrap()));
        set_addresses(table.macs().unwrap(), [(1, &config)], draft.get(interfaces));
        draft.set(bridges, table);
    });
    flood(&mut lab, 7, 9);
    assert_eq!(lab.state(1, "10.0.1.9"), None, "7 has used up its limit");
    lab.all_sent();
    lab.send(8, &ping(9, 8, 9));
    assert_eq!(lab.sent(1), [vectors().get("who-has")]);
}
