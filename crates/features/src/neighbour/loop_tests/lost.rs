//! Packets that wait in vain.

use super::super::control::Config;
use super::{Lab, vectors};
use crate::testing::{Dropped, Seen, Vectors};
use graph::trace::{Budget, TraceOrder};

/// What is counted, captured and traced of packets that came in by interface 2 and are lost.
fn assert_lost(lab: &Lab, seen: &Seen, reason: &str, frames: &[Vec<u8>]) {
    let id = lab.bench.drop_id(reason);
    let dropped = |frame: &Vec<u8>| Dropped { frame: frame.clone(), rx_if: 2, reason: id };
    assert_eq!(
        seen.take(),
        frames.iter().map(dropped).collect::<Vec<_>>(),
        "{reason}: captured as they came"
    );
    assert_eq!(lab.bench.drops().get(reason), Some(&(frames.len() as u64)));
    let counters = lab.bench.graph.counters();
    assert_eq!(counters.drops_of(2).nth(id.into()), Some(frames.len() as u64), "{reason}: of the interface");
    assert!(counters.interface(2).rx_drops.get() >= frames.len() as u64);
}

/// Pings that differ in their sequence number.
fn pings(v: &Vectors, count: u8) -> Vec<Vec<u8>> {
    let ping = |n| {
        let mut ping = v.get("ping-1");
        // The ICMP checksum stands at 36 of the frame, the sequence number at 40.
        let sum = wire::checksum::update_u16(u16::from_be_bytes([ping[36], ping[37]]), 1, u16::from(n));
        ping[36..38].copy_from_slice(&sum.to_be_bytes());
        ping[41] = n;
        ping
    };
    (0..count).map(ping).collect()
}

#[test]
fn packets_that_make_room_for_newer_ones_are_drops_of_their_interface() {
    let (mut lab, v) = (Lab::new(), vectors());
    let seen = Seen::of(&mut lab.bench);
    let nodes = vec![lab.bench.plan.node("neighbor-drop").unwrap()];
    lab.bench.graph.tracer.order(TraceOrder { nodes, interface: Some(2), budget: Budget::new(1) });
    let pings = pings(&v, 24);
    pings[..16].iter().for_each(|ping| lab.send(2, ping));
    assert_eq!(lab.neighbours.waiting().0, 16);
    lab.send(2, &pings[16]);
    assert_lost(&lab, &seen, "ip4-resolve queue-full", &pings[16..17]);
    lab.pass(1);
    pings[17..].iter().for_each(|ping| lab.send(2, ping));
    assert_lost(&lab, &seen, "neighbor-drop queue-overflow", &pings[..7]);

    let traces = lab.bench.graph.tracer.finished();
    let traces = traces.lock().unwrap();
    let [trace] = &traces[..] else { panic!("{traces:?}") };
    let steps: Vec<_> = trace.steps.iter().map(|step| (step.node, step.drop_reason)).collect();
    assert_eq!(steps, [("neighbor-drop", None), ("drop", Some("queue-overflow"))]);
    assert!(trace.steps[0].text.contains("10.0.2.2 -> 10.0.1.9"), "{}", trace.steps[0].text);

    lab.send(1, &v.get("is-at"));
    assert_eq!(lab.sent(1).len(), 2 + 16, "two questions, and who waited");
}

#[test]
fn packets_without_an_answer_are_drops_of_their_interface() {
    let (mut lab, v) = (Lab::new(), vectors());
    let seen = Seen::of(&mut lab.bench);
    lab.send(2, &v.get("ping-1"));
    lab.pass(4);
    assert_lost(&lab, &seen, "ip4-resolve no-answer", &[v.get("ping-1")]);
    lab.send(2, &v.get("ping6"));
    lab.pass(4);
    assert_lost(&lab, &seen, "ip6-resolve no-answer", &[v.get("ping6")]);
    assert_eq!(lab.sent(2), [v.get("unreachable-1"), v.get("unreachable6")]);
}

#[test]
fn answers_of_our_own_that_find_nobody_are_drops_too() {
    let (mut lab, v) = (Lab::new(), vectors());
    lab.send(1, &v.get("link-ping"));
    lab.pass(4);
    assert_eq!(lab.sent(1), vec![v.get("link-solicit"); 3]);
    assert_eq!(lab.bench.drops().get("ip6-resolve no-answer"), Some(&1));
}

#[test]
fn packets_that_lose_their_neighbour_or_find_no_room_are_drops_of_their_interface() {
    let v = vectors();
    type Case = (&'static str, Config, fn(&mut Lab));
    let cases: [Case; 4] = [
        ("memory-full", Config { waiting_bytes: 10, ..Config::default() }, |_| {}),
        ("table-full", Config { per_interface: 0, ..Config::default() }, |_| {}),
        ("neighbor-gone", Config::default(), |lab| lab.neighbours.set_interface(lab.bench.now, 1, None)),
        ("evicted", Config { per_interface: 1, ..Config::default() }, |lab| {
            lab.send(2, &vectors().get("ping-another"));
        }),
    ];
    for (reason, config, then) in cases {
        let mut lab = Lab::with(config);
        let seen = Seen::of(&mut lab.bench);
        lab.send(2, &v.get("ping-1"));
        then(&mut lab);
        lab.settle();
        assert_lost(&lab, &seen, &format!("neighbor-drop {reason}"), &[v.get("ping-1")]);
    }
}
