//! Packets to us that nothing here takes, to the application and back.

use crate::interface::{Interface, Interfaces, LinkMode};
use crate::ip::topology;
use crate::testing::{Bench, Outcome, Vectors};
use graph::IfIndex;
use graph::simd::Tier;
use std::sync::LazyLock;

static VECTORS: LazyLock<Vectors> =
    LazyLock::new(|| Vectors::read(include_str!("../../tests/vectors/punt.txt")));

/// The application's interface.
const PUNT: IfIndex = 7;

fn application() -> Interface {
    let ip = Interface { mode: LinkMode::Ip, mtu: 1500, ..Interface::default() };
    Interface { punt_inject: true, name: "punt".into(), ..ip }
}

/// The topology, and an application as interface 7.
fn bench(tier: Tier, application: Interface) -> Bench {
    let mut bench = Bench::new(tier);
    topology::set_up(&mut bench, 1280);
    bench.add_port(PUNT, application, "l3-input");
    for arc in ["ip4", "ip6"] {
        bench.chain(&format!("{arc}-unicast"), PUNT, &[], &format!("{arc}-lookup"));
    }
    bench
}

fn names(kind: &str) -> Vec<&'static str> {
    let found: Vec<_> = VECTORS.names().filter_map(|name| name.strip_prefix(kind)).collect();
    assert!(!found.is_empty());
    found
}

fn of(kind: &str, names: &[&str]) -> Vec<Vec<u8>> {
    names.iter().map(|name| VECTORS.get(&format!("{kind}{name}"))).collect()
}

/// What is sent back as an error by interface 2, and nothing to interface 7.
fn refused(outcome: &Outcome) {
    assert!(!outcome.sent.contains_key(&PUNT), "{outcome:?}");
    assert!(!outcome.drops.is_empty());
}

#[test]
fn what_nothing_here_takes_is_punted_as_it_came() {
    let names = names("in/");
    for tier in Tier::available() {
        for burst in [1, 256] {
            let outcome = bench(tier, application()).run(2, &of("in/", &names), burst);
            assert_eq!(outcome.drops, [].into(), "{}", tier.name());
            let mut sent = outcome.sent;
            let mut punted = sent.remove(&PUNT).unwrap_or_default();
            assert!(sent.is_empty(), "nobody is told that there is nobody: {sent:?}");
            // One node for each version: the order among them is theirs.
            punted.sort_unstable();
            let mut expected = of("out/", &names);
            expected.sort_unstable();
            assert!(punted == expected, "{} burst {burst}", tier.name());
        }
    }
}

#[test]
fn what_is_injected_is_our_own_and_keeps_its_hops() {
    let names = names("inject/");
    for tier in Tier::available() {
        let outcome = bench(tier, application()).run(PUNT, &of("inject/", &names), 256);
        assert_eq!(outcome.drops, [].into(), "{}", tier.name());
        let mut sent = outcome.sent.get(&2).cloned().unwrap_or_default();
        sent.sort_unstable();
        let mut expected = of("sent/", &names);
        expected.sort_unstable();
        assert!(sent == expected, "{}", tier.name());
    }
}

#[test]
fn where_nobody_can_be_asked_the_sender_is_told_as_ever() {
    let open = application();
    let cases = [
        ("another VRF's", Interface { vrf: 1, ..open.clone() }),
        ("too small", Interface { mtu: 60, ..open.clone() }),
        ("no application", Interface { punt_inject: false, ..open.clone() }),
    ];
    for (what, interface) in cases {
        let outcome = bench(Tier::detect(), interface).run(2, &of("in/", &["udp4", "udp6"]), 1);
        refused(&outcome);
        assert_eq!(outcome.sent[&2].len(), 2, "{what}");
    }
    let mut down = bench(Tier::detect(), open.clone());
    let (key, closed) = (down.key::<Interfaces>(), Interface { exists: true, up: false, ..open.clone() });
    down.publish(|draft| draft.change(key, |table| table.set(PUNT, Some(closed))));
    refused(&down.run(2, &of("in/", &["udp4"]), 1));
    // What it injects to us and nothing takes doesn't come back to it.
    let outcome = bench(Tier::detect(), open).run(PUNT, &of("out/", &["udp4", "udp6"]), 1);
    refused(&outcome);
}
