//! Two tenants, each with an engine of its own.

use super::redirect::{PATIENCE, SIDES, judge, redirected};
use super::*;
use crate::session::redirect::{Judgment, OnFailure, Redirect};

/// Interfaces of red's engine, and of blue's.
const ENGINES: [[u16; 2]; 2] = [SIDES, [7, 8]];
const RED: usize = 0;
const BLUE: usize = 1;

/// Red's sessions begin at interface 2, blue's at 3.
fn network(tier: Tier) -> (Bench, [Tenant; 2]) {
    let red = redirected(0, OnFailure::Drop);
    let blue = redirected(0, OnFailure::Drop);
    let redirect = blue.redirect.clone().map(|redirect| Redirect { interfaces: ENGINES[BLUE], ..redirect });
    let tenants = [red, Tenant { name: "blue".into(), outside: vec![2], redirect, ..blue }];
    let mut bench = bench(tier, &[]);
    for index in ENGINES[BLUE] {
        bench.add_port(index, topology::interface(index, 1500), "ethernet-input");
    }
    for index in ENGINES.concat() {
        bench.chain("ip4-unicast", index, &["ip4-redirect-input"], "ip4-lookup");
        bench.chain("ip6-unicast", index, &["ip6-redirect-input"], "ip6-lookup");
    }
    set_tenants(&mut bench, &tenants);
    let key = bench.key::<Tenants>();
    bench.publish(|draft| {
        draft.change(key, |all| {
            all.set_place(3, Place { tenant: 2, ..Place::default() });
            for (number, tenant) in (1..).zip(&tenants) {
                all.engines.add((number, 0), tenant.redirect.as_ref().unwrap());
            }
        });
    });
    (bench, tenants)
}

/// A row's packet as an engine is sent it by one of its interfaces, for the other one.
fn visiting(row: &Row, [by, back]: [u16; 2]) -> Vec<u8> {
    let ip = if row.rx_if == 2 { &row.frame[14..] } else { &row.frame[..] };
    let ethertype: [u8; 2] = if ip[0] >> 4 == 4 { [8, 0] } else { [0x86, 0xdd] };
    let mac = |index: u16| [2, 0xfe, 0, 0, 0, index as u8];
    [&mac(back)[..], &mac(by), &ethertype, ip].concat()
}

/// The packet goes to that engine alone, by the first of its interfaces or by the second one, comes back by the other, and goes out as the row says.
fn through(bench: &mut Bench, text: &'static str, name: &str, engine: usize, first: bool) {
    let row = packet(text, name);
    let [one, other] = ENGINES[engine];
    let [by, back] = if first { [one, other] } else { [other, one] };
    let frame = visiting(&row, [by, back]);
    let outcome = bench.run(row.rx_if, &[row.frame], 1);
    assert_eq!((outcome.sent, outcome.drops), ([(by, vec![frame.clone()])].into(), [].into()), "{name}");
    let outcome = bench.run(back, &[frame], 1);
    let Verdict::Sent(expected) = row.verdict else { panic!("{name}") };
    let expected = expected.into_iter().map(|(interface, frame)| (interface, vec![frame])).collect();
    assert_eq!((outcome.sent, outcome.drops), (expected, [].into()), "{name}");
}

/// SFDP's weakness 13: there is one engine.
#[test]
fn each_tenant_s_sessions_visit_its_own_engine() {
    everywhere(|tier, text, node| {
        let (mut bench, tenants) = network(tier);
        for (name, engine, first) in [
            ("udp", RED, true),
            ("tcp syn answer", BLUE, true),
            ("udp answer", RED, false),
            ("tcp syn-ack", BLUE, false),
        ] {
            through(&mut bench, text, name, engine, first);
        }
        let input = if node.starts_with("ip4") { "ip4-redirect-input" } else { "ip6-redirect-input" };
        for (name, [by, back]) in [("udp", ENGINES[BLUE]), ("tcp syn answer", ENGINES[RED])] {
            let frame = visiting(&packet(text, name), [by, back]);
            let outcome = bench.run(back, &[frame], 1);
            let strange = [(format!("{input} no-session"), 1)].into();
            assert_eq!((outcome.sent.len(), outcome.drops), (0, strange), "{name} is the other one's");
        }
        // What one has judged, the other goes on to look into.
        assert_eq!(judge(&mut bench, 17, Judgment::AllowRest), 1);
        pass(&mut bench, text, "udp");
        through(&mut bench, text, "tcp ack answer", BLUE, true);
        // While one is away, the other one isn't.
        bench.now += PATIENCE + 1;
        let now = bench.now;
        let engine = &tenants[BLUE].redirect.as_ref().unwrap().engine;
        (0..2).for_each(|side| engine.beat(side, now));
        dropped(&mut bench, text, "another udp", "redirect engine-away");
        through(&mut bench, text, "tcp ack answer", BLUE, true);
    });
}
