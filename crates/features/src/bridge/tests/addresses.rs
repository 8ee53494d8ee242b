//! What a bridge knows and how it comes to forget.

use super::*;
use crate::bridge::control::{age, forget};
use crate::testing::run_table;
use graph::simd::Tier;

fn lab(config: &BridgeConfig) -> Bench {
    let mut bench = Bench::new(Tier::detect());
    ports(&mut bench);
    bridge(&mut bench, config);
    bench
}

const fn at(interface: IfIndex) -> Place {
    Place::Interface(interface)
}

#[test]
fn stations_are_learned_and_followed() {
    let v = vectors();
    for tier in Tier::available() {
        let mut bench = Bench::new(tier);
        ports(&mut bench);
        bridge(&mut bench, &BridgeConfig::default());
        let burst = vec![v.get("a-to-b"); 256];
        assert_eq!(by(&bench.run(A, &burst, 256).sent), [B, C], "unknown");
        assert_eq!(known(&bench), [(MAC_A, at(A))]);
        assert_eq!(by(&bench.run(B, &[v.get("b-to-a")], 1).sent), [A], "known");
        assert_eq!(counter(&bench, "bridge-input", "learned"), 2);
        assert_eq!(counter(&bench, "bridge-input", "moved"), 0);
        // A turns up elsewhere, and back.
        let _ = bench.run(C, &burst, 256);
        assert_eq!(known(&bench), [(MAC_A, at(C)), (MAC_B, at(B))]);
        assert_eq!(by(&bench.run(B, &[v.get("b-to-a")], 1).sent), [C]);
        assert_eq!(counter(&bench, "bridge-input", "moved"), 1);
        let _ = bench.run(A, &burst, 256);
        assert_eq!(counter(&bench, "bridge-input", "moved"), 2);
        assert_eq!(counter(&bench, "bridge-input", "learned"), 2);
        assert_eq!(counter(&bench, "bridge-flood", "copies"), 2 * 256, "only the first burst was flooded");
    }
}

#[test]
fn a_station_at_two_places_in_one_vector_is_seen_to_move() {
    let v = vectors();
    let mut bench = lab(&BridgeConfig::default());
    bench.wires[&C].send(&v.get("a-to-b"), 8);
    let _ = bench.run(A, &[v.get("a-to-b")], 8);
    assert_eq!(counter(&bench, "bridge-input", "learned"), 1);
    assert_eq!(counter(&bench, "bridge-input", "moved"), 1);
}

#[test]
fn nothing_is_learned_from_the_routed_leg() {
    let v = vectors();
    let mut bench = Bench::new(Tier::detect());
    all(&mut bench);
    let _ = bench.run(ROUTER, &[v.get("a-to-all"), v.get("b-to-a")], 8);
    assert_eq!(known(&bench), [(MAC_BVI, at(BVI))]);
}

#[test]
fn learning_stops_at_its_limit_and_forwarding_does_not() {
    let v = vectors();
    let mut bench = lab(&BridgeConfig { learn_limit: 1, ..BridgeConfig::default() });
    let _ = bench.run(A, &[v.get("a-to-b")], 1);
    let outcome = bench.run(B, &[v.get("b-to-a"), v.get("b-to-a")], 8);
    assert_eq!(by(&outcome.sent), [A]);
    assert_eq!(known(&bench), [(MAC_A, at(A))]);
    assert_eq!(counter(&bench, "bridge-input", "learn-limit"), 2);
    bridge(&mut bench, &BridgeConfig { learn_limit: 2, ..BridgeConfig::default() });
    let _ = bench.run(B, &[v.get("b-to-a")], 8);
    assert_eq!(known(&bench), [(MAC_A, at(A)), (MAC_B, at(B))]);
}

#[test]
fn fixed_addresses_neither_count_nor_move_nor_age() {
    let v = vectors();
    let config = BridgeConfig {
        learn_limit: 1,
        static_macs: vec![fixed(MAC_B, at(B)), fixed(MAC_C, Place::Blocked)],
        ..BridgeConfig::default()
    };
    let rows = [
        sent("to the fixed one", A, v.get("a-to-b"), &[B]),
        dropped("to the blocked one", A, v.get("a-to-c"), "bridge-input blocked"),
        dropped("from one who isn't B", A, v.get("b-to-a"), "bridge-input static-elsewhere"),
        sent("from B", B, v.get("b-to-all"), &[A, C]),
        sent("from the blocked one", C, v.get("c-to-a"), &[A, B]),
    ];
    let closed = BridgeConfig { learn: false, ..config.clone() };
    run_table(&rows, |bench| {
        ports(bench);
        bridge(bench, &closed);
    });
    run_table(&rows, |bench| {
        ports(bench);
        bridge(bench, &config);
    });
    let mut bench = lab(&config);
    let _ = bench.run(A, &[v.get("a-to-b")], 1);
    let all = [(MAC_A, at(A)), (MAC_B, at(B)), (MAC_C, Place::Blocked)];
    assert_eq!(known(&bench), all, "there is room for one to be learned");
    let bridges = bridges(&bench);
    assert_eq!(age(&bridges, bench.now + 1_000_000_000_000, usize::MAX), 1);
    assert_eq!(known(&bench), all[1..]);
}

#[test]
fn the_address_of_the_routed_leg_cannot_be_taken() {
    let v = vectors();
    let from_a = [&v.get("a-to-b")[..6], &MAC_BVI.0, &v.get("a-to-b")[12..]].concat();
    run_table(&[dropped("a pod that pretends", A, from_a, "bridge-input static-elsewhere")], all);
}

#[test]
fn what_is_not_seen_is_forgotten_in_time() {
    const SECOND: u64 = 1_000_000_000;
    let v = vectors();
    let mut bench = lab(&BridgeConfig { mac_age: 300, ..BridgeConfig::default() });
    let start = bench.now;
    learn(&mut bench, &v);
    let bridges = bridges(&bench);
    let macs = bridges.macs().unwrap();
    bench.now = start + 200 * SECOND;
    let _ = bench.run(B, &[v.get("b-to-a")], 1);
    assert_eq!(age(&bridges, start + 300 * SECOND, usize::MAX), 0);
    assert_eq!(age(&bridges, start + 301 * SECOND, usize::MAX), 1, "C was last seen at the beginning");
    assert_eq!(known(&bench), [(MAC_B, at(B))]);
    let ages: Vec<_> =
        control::addresses(macs, start + 301 * SECOND)[&BRIDGE].iter().map(|a| a.age).collect();
    assert_eq!(ages, [Some(101)]);
    // In steps, the table is gone through once.
    let removed: usize = (0..macs.buckets()).map(|_| age(&bridges, start + 501 * SECOND, 1)).sum();
    assert_eq!(removed, 1);
    assert_eq!(age(&Bridges::default(), start, usize::MAX), 0, "no table, nothing to forget");
}

#[test]
fn ageing_can_be_switched_off_and_lost_bridges_are_swept_up() {
    let v = vectors();
    let mut bench = lab(&BridgeConfig { mac_age: 0, ..BridgeConfig::default() });
    learn(&mut bench, &v);
    let shared = bridges(&bench);
    let later = bench.now + 20_000 * 1_000_000_000;
    assert_eq!(age(&shared, later, usize::MAX), 0);
    let mut gone = shared.clone();
    gone.set(BRIDGE, None);
    assert_eq!(age(&gone, later, usize::MAX), 2);
}

#[test]
fn addresses_go_with_their_interface_setting_or_bridge() {
    let v = vectors();
    let mut bench = lab(&BridgeConfig::default());
    learn(&mut bench, &v);
    bench.set_interface(B, Interface::default());
    bridge(&mut bench, &BridgeConfig::default());
    assert_eq!(known(&bench), [(MAC_C, at(C))], "B is no member any more");
    bridge(&mut bench, &BridgeConfig { learn: false, ..BridgeConfig::default() });
    assert_eq!(known(&bench), [], "nothing is learned, so nothing stays learned");
    let config =
        BridgeConfig { static_macs: vec![fixed(MAC_A, at(A))], learn_limit: 0, ..BridgeConfig::default() };
    bridge(&mut bench, &config);
    let _ = bench.run(C, &[v.get("c-to-a")], 1);
    assert_eq!(known(&bench), [(MAC_A, at(A))]);
    let shared = bridges(&bench);
    let macs = shared.macs().unwrap();
    assert_eq!(forget(macs, BRIDGE, Some(A), false), 0);
    let elsewhere = BridgeConfig { static_macs: vec![fixed(MAC_B, at(A))], ..config };
    bridge(&mut bench, &elsewhere);
    assert_eq!(known(&bench), [(MAC_B, at(A))], "what is fixed no more is gone");
    BridgeConfig::remove_addresses(macs, BRIDGE);
    assert_eq!(known(&bench), []);
    let _ = bench.run(C, &[v.get("c-to-a")], 1);
    assert_eq!(known(&bench), [(MAC_C, at(C))], "the limit is gone, too");
    assert_eq!(forget(macs, BRIDGE, Some(C), false), 1);
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let mut bench = Bench::new(Tier::detect());
    all(&mut bench);
    let key = bench.key::<Interfaces>();
    let mut interfaces = bench.publisher.draft().get(key).clone();
    let config = BridgeConfig { name: "br".into(), ..BridgeConfig::default() };
    let refused = |config: BridgeConfig, number, interfaces: &Interfaces| {
        config.build(number, interfaces).unwrap_err().to_string()
    };
    let with = |mac, place| BridgeConfig { static_macs: vec![fixed(mac, place)], ..config.clone() };
    let texts = [
        (refused(config.clone(), 0, &interfaces), "bridge br: number 0"),
        (refused(with(MAC_A, at(TRUNK)), 1, &interfaces), "02:00:00:00:00:0a can't be at interface 4"),
        (refused(with(MacAddr::BROADCAST, at(A)), 1, &interfaces), "ff:ff:ff:ff:ff:ff is a group or zero"),
        (refused(with(MacAddr::ZERO, Place::Blocked), 1, &interfaces), "is a group or zero"),
        (refused(with(MAC_BVI, at(A)), 1, &interfaces), "02:fe:00:00:00:b1 is there twice"),
        (
            refused(BridgeConfig { mac_age: 40_000, ..config.clone() }, 1, &interfaces),
            "mac_age 40000 s is too long",
        ),
    ];
    for (text, expected) in texts {
        assert!(text.contains(expected), "{text:?} should say {expected:?}");
    }
    let second = Interface { name: "second".into(), ..interfaces.get(BVI).clone() };
    interfaces.set(BVI + 1, Some(second));
    let text = refused(config, 1, &interfaces);
    assert!(text.contains("bvi and second are both its BVI"), "{text}");
}
