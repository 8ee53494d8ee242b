//! Sessions in the graph: conversations made by scapy, on every SIMD tier.

mod acl;
mod balance;
mod classes;
mod conversations;
mod doubted;
mod drops;
mod early;
mod elsewhere;
mod events;
mod explain;
mod fragments;
mod handover;
mod ipsec;
mod limits;
mod link;
mod nat;
mod nonsense;
mod parsers;
mod policer;
mod redirect;
mod redirect_by_rules;
mod redirect_engines;
mod redirect_fragments;
mod redirect_translated;
mod redirect_whole;
mod scopes;
mod serving;
mod session_stats;
mod shared_room;
mod slow_path;
mod sources;
mod tcp;
mod traffic;
mod unchanged;

use super::services::Chain;
use super::tenants::{TIMERS, ticks_of_seconds};
use super::*;
use crate::ip::topology;
use crate::testing::{Bench, Row, Verdict, rows};
use graph::simd::Tier;
use std::sync::Arc;
use std::sync::atomic::Ordering;

const SECOND: u64 = 1_000_000_000;
const V4: &str = include_str!("../../../tests/vectors/session4.txt");
const V6: &str = include_str!("../../../tests/vectors/session6.txt");

pub(super) use parsers::PAIR;

/// Services that are there for tests, of other scopes than the default one.
pub(super) const SCOPED: &[Service] = &scopes::SERVICES;

/// A tenant with short timeouts: 5, 120, 3600, 60, 240, 30 and 20 seconds.
pub(super) fn tenant() -> Tenant {
    let seconds: [u32; TIMERS] = [5, 120, 3600, 60, 240, 30, 20];
    Tenant {
        name: "red".into(),
        timeouts: seconds.map(ticks_of_seconds),
        max_sessions: 1000,
        max_new_per_second: 0,
        source_limit: None,
        early_syn_drop: false,
        parser: 0,
        scope: 0,
        policy: 1,
        chain: [order().chain(["l4-lifecycle"]).unwrap(); 2],
        slow_path: SlowPath::untracked(SlowAction::Pass),
        midstream: Midstream::Adopt,
        classes: Vec::new(),
        outside: vec![3],
        uncounted: Vec::new(),
        nat: None,
        acls: Vec::new(),
        keep_sessions: false,
        policers: [None, None],
        redirect: None,
        occupancy: Arc::default(),
    }
}

/// Tenants 1, … are those from now on, each of which has changed, with interface 2 the first one's, and the others outside.
fn set_tenants(bench: &mut Bench, tenants: &[Tenant]) {
    let key = bench.key::<Tenants>();
    bench.publish(|draft| {
        draft.change(key, |all| {
            all.generation += 1;
            all.per_worker = 1 << 20;
            let policy = all.generation;
            let changed = |number: usize| Some(Tenant { policy, ..tenants.get(number - 1)?.clone() });
            (1..16).for_each(|number| all.set(number, changed(number.into())));
            let owner = u16::from(!tenants.is_empty());
            (1..=6).for_each(|at| {
                all.set_place(at, Place { tenant: if at == 2 { owner } else { 0 }, ..Place::default() })
            });
        });
    });
}

/// Something changes, and none of the tenants.
fn change_something(bench: &mut Bench) {
    let key = bench.key::<Tenants>();
    bench.publish(|draft| draft.change(key, |all| all.generation += 1));
}

fn bench(tier: Tier, tenants: &[Tenant]) -> Bench {
    furnish(Bench::new(tier), tenants)
}

/// The network, with sessions on all of its interfaces.
fn furnish(mut bench: Bench, tenants: &[Tenant]) -> Bench {
    topology::set_up(&mut bench, 1500);
    for index in 1..=6 {
        bench.chain("ip4-unicast", index, &["ip4-session-input"], "ip4-lookup");
        bench.chain("ip6-unicast", index, &["ip6-session-input"], "ip6-lookup");
    }
    set_tenants(&mut bench, tenants);
    bench
}

/// A row of the conversation.
fn packet(text: &'static str, name: &str) -> Row {
    rows(text).into_iter().find(|row| row.name == name).unwrap_or_else(|| panic!("no row {name:?}"))
}

/// Sends one packet and sees that it comes out as the row says.
fn pass(bench: &mut Bench, text: &'static str, name: &str) {
    let row = packet(text, name);
    let outcome = bench.run(row.rx_if, &[row.frame], 1);
    let Verdict::Sent(expected) = row.verdict else { panic!("{name}: {:?}", row.verdict) };
    for (interface, frame) in expected {
        assert_eq!(outcome.sent.get(&interface), Some(&vec![frame]), "{name}: dropped {:?}", outcome.drops);
    }
}

/// Sends one packet and sees that it is dropped for that reason.
fn dropped(bench: &mut Bench, text: &'static str, name: &str, reason: &str) {
    let row = packet(text, name);
    let outcome = bench.run(row.rx_if, &[row.frame], 1);
    assert_eq!(outcome.drops, [(reason.to_string(), 1)].into(), "{name}");
}

fn sessions(bench: &mut Bench) -> &mut Sessions {
    let key = bench.plan.schema.local_key::<Sessions>().unwrap();
    bench.graph.local(key)
}

fn seen(bench: &mut Bench) -> Vec<Seen> {
    let mut all = sessions(bench).look(&Filter::default(), 0, u32::MAX).0;
    all.sort_by_key(|seen| seen.endpoints());
    all
}

/// The only session.
fn one(bench: &mut Bench) -> Seen {
    let all = seen(bench);
    assert_eq!(all.len(), 1, "{all:?}");
    all[0]
}

/// Lets time pass, without packets.
fn wait(bench: &mut Bench, seconds: u64) {
    bench.now += seconds * SECOND;
    (0..64).for_each(|_| bench.round());
}

fn count(bench: &Bench, node: &str, counter: &str) -> u64 {
    let id =
        bench.plan.counters.iter().position(|(at, spec)| {
            bench.plan.nodes[usize::from(*at)].spec.name == node && spec.name == counter
        });
    bench.graph.counters().node(id.unwrap_or_else(|| panic!("{node} {counter}")) as u16).get()
}

/// For both IP versions and every tier.
fn everywhere(test: impl Fn(Tier, &'static str, &'static str)) {
    for tier in Tier::available() {
        test(tier, V4, "ip4-session-input");
        test(tier, V6, "ip6-session-input");
    }
}
