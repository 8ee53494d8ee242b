//! Sessions that an engine between interfaces 1 and 5 looks into. It sends back what it is sent, byte by byte, as one in the wire does.

use super::super::redirect::{Engine, Judgment, OnFailure, Redirect, heartbeat_frame, judged};
use super::handover::{WORKERS, workers_of};
use super::*;
use crate::testing::Outcome;
use wire::MacAddr;

/// The engine's interfaces, and the headers with which one sends to the other.
pub(super) const SIDES: [u16; 2] = [1, 5];
const TO_5: [u8; 12] = [2, 0xfe, 0, 0, 0, 5, 2, 0xfe, 0, 0, 0, 1];
const TO_1: [u8; 12] = [2, 0xfe, 0, 0, 0, 1, 2, 0xfe, 0, 0, 0, 5];
pub(super) const PATIENCE: u64 = SECOND / 2;

pub(super) fn redirected(inspect_packets: u64, on_failure: OnFailure) -> Tenant {
    let engine = Arc::new(Engine::default());
    (0..2).for_each(|side| engine.beat(side, SECOND));
    let redirect = Redirect {
        interfaces: SIDES,
        on_failure,
        inspect_packets,
        patience: PATIENCE,
        only_by_rules: false,
        reassemble: false,
        engine,
    };
    Tenant {
        chain: [order().chain(["l4-lifecycle", "redirect"]).unwrap(); 2],
        redirect: Some(redirect),
        ..tenant()
    }
}

/// The network, with the tenant's engine at its interfaces.
pub(super) fn furnished(mut bench: Bench, tenant: &Tenant) -> Bench {
    for index in SIDES {
        bench.chain("ip4-unicast", index, &["ip4-redirect-input"], "ip4-lookup");
        bench.chain("ip6-unicast", index, &["ip6-redirect-input"], "ip6-lookup");
    }
    put(&mut bench, tenant);
    bench
}

/// The tenant is like that from now on.
fn put(bench: &mut Bench, tenant: &Tenant) {
    set_tenants(bench, core::slice::from_ref(tenant));
    let key = bench.key::<Tenants>();
    let redirect = tenant.redirect.clone().unwrap();
    bench.publish(|draft| draft.change(key, |all| all.engines.add((1, 0), &redirect)));
}

pub(super) fn with_engine(tier: Tier, tenant: &Tenant) -> Bench {
    furnished(bench(tier, core::slice::from_ref(tenant)), tenant)
}

/// The row's packet as the engine is sent it, and the interfaces by which it is and by which it comes back.
fn visiting(text: &'static str, name: &str) -> (Vec<u8>, [u16; 2]) {
    let row = packet(text, name);
    let ip = if row.rx_if == 2 { &row.frame[14..] } else { &row.frame[..] };
    let ethertype: [u8; 2] = if ip[0] >> 4 == 4 { [8, 0] } else { [0x86, 0xdd] };
    match row.rx_if {
        2 => ([&TO_5[..], &ethertype, &row.frame[14..]].concat(), SIDES),
        _ => ([&TO_1[..], &ethertype, &row.frame].concat(), [5, 1]),
    }
}

fn enter(bench: &mut Bench, text: &'static str, name: &str) -> Outcome {
    let row = packet(text, name);
    bench.run(row.rx_if, &[row.frame], 1)
}

/// The packet goes to the engine, and nowhere else.
pub(super) fn visits(bench: &mut Bench, text: &'static str, name: &str) {
    let (frame, [by, _]) = visiting(text, name);
    let outcome = enter(bench, text, name);
    assert_eq!((outcome.sent, outcome.drops), ([(by, vec![frame])].into(), [].into()), "{name}");
}

/// It comes back, and out as the row says.
pub(super) fn comes_back(bench: &mut Bench, text: &'static str, name: &str) {
    let (frame, [_, by]) = visiting(text, name);
    let outcome = bench.run(by, &[frame], 1);
    let Verdict::Sent(expected) = packet(text, name).verdict else { panic!("{name}") };
    let expected = expected.into_iter().map(|(interface, frame)| (interface, vec![frame])).collect();
    assert_eq!((outcome.sent, outcome.drops), (expected, [].into()), "{name}");
}

pub(super) fn through(bench: &mut Bench, text: &'static str, name: &str) {
    visits(bench, text, name);
    comes_back(bench, text, name);
}

/// Packets that the engine was sent so far.
pub(super) fn sent(bench: &Bench) -> u64 {
    count(bench, "redirect", "sent")
}

#[test]
fn packets_of_both_directions_pass_the_engine_once_and_are_what_they_were() {
    everywhere(|tier, text, _| {
        let mut bench = with_engine(tier, &redirected(0, OnFailure::Drop));
        for name in ["tcp syn", "tcp syn answer", "tcp ack", "tcp ack answer", "echo", "echo answer"] {
            through(&mut bench, text, name);
        }
        let all = seen(&mut bench);
        let counted: Vec<_> = all.iter().map(|seen| seen.session.packets()).collect();
        assert_eq!((counted, sent(&bench)), (vec![[1, 1], [2, 2]], 6), "each is counted once");
    });
}

#[test]
fn many_packets_keep_their_order() {
    everywhere(|tier, text, _| {
        let mut bench = with_engine(tier, &redirected(0, OnFailure::Drop));
        let names = ["udp", "another udp", "tcp syn", "tcp syn-ack", "tcp ack", "a third udp", "tcp fin"];
        let frames: Vec<_> = names.iter().cycle().take(140).map(|name| packet(text, name).frame).collect();
        let out = bench.run(2, &frames, 140).sent.remove(&1).unwrap();
        let expected: Vec<_> = names.iter().cycle().take(140).map(|name| visiting(text, name).0).collect();
        assert_eq!(out, expected);
        let back = bench.run(5, &out, 140).sent.remove(&3).unwrap();
        let row = |name: &&str| match packet(text, name).verdict {
            Verdict::Sent(out) => out[0].1.clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!(back, names.iter().cycle().take(140).map(row).collect::<Vec<_>>());
    });
}

#[test]
fn what_comes_from_the_engine_and_belongs_to_no_session_of_its_own_is_dropped() {
    everywhere(|tier, text, _| {
        let node = if text == V4 { "ip4-redirect-input" } else { "ip6-redirect-input" };
        let tenant = redirected(0, OnFailure::Drop);
        let mut bench = with_engine(tier, &tenant);
        let strange = |bench: &mut Bench, name: &str| {
            let (frame, [_, by]) = visiting(text, name);
            let outcome = bench.run(by, &[frame], 1);
            assert_eq!((outcome.sent.len(), outcome.drops), (0, [(format!("{node} no-session"), 1)].into()));
        };
        strange(&mut bench, "udp");
        assert!(seen(&mut bench).is_empty(), "and begins none");
        through(&mut bench, text, "udp");
        strange(&mut bench, "error of a router");
        // The session is another tenant's.
        let key = bench.key::<Tenants>();
        let redirect = tenant.redirect.clone().unwrap();
        bench.publish(|draft| draft.change(key, |all| all.engines.add((2, 0), &redirect)));
        strange(&mut bench, "udp");
    });
}

#[test]
fn errors_pass_without() {
    everywhere(|tier, text, _| {
        let mut bench = with_engine(tier, &redirected(0, OnFailure::Drop));
        through(&mut bench, text, "udp");
        pass(&mut bench, text, "error of a router");
    });
}

#[test]
fn the_engine_sees_so_many_packets_of_each_direction_and_then_the_rest_passes_without() {
    everywhere(|tier, text, _| {
        let mut bench = with_engine(tier, &redirected(2, OnFailure::Drop));
        through(&mut bench, text, "tcp syn");
        through(&mut bench, text, "tcp syn answer");
        visits(&mut bench, text, "tcp ack");
        // The second one is still with the engine: what comes behind it doesn't overtake it.
        visits(&mut bench, text, "tcp ack");
        comes_back(&mut bench, text, "tcp ack");
        comes_back(&mut bench, text, "tcp ack");
        pass(&mut bench, text, "tcp ack");
        through(&mut bench, text, "tcp ack answer");
        pass(&mut bench, text, "tcp ack answer");
        (0..5).for_each(|_| pass(&mut bench, text, "tcp ack"));
        assert_eq!((sent(&bench), count(&bench, "redirect", "left")), (5, 2));
        let calls = bench.plan.node("redirect").unwrap();
        let calls = bench.graph.counters().runtime[usize::from(calls)].packets.get();
        assert_eq!(calls, 7, "five, and the first of each direction that passed");
        // What the engine has dropped is waited for, but not for ever.
        let mut bench = with_engine(tier, &redirected(1, OnFailure::Pass));
        visits(&mut bench, text, "udp");
        visits(&mut bench, text, "udp");
        bench.now += 2 * SECOND;
        pass(&mut bench, text, "udp");
    });
}

#[test]
fn while_the_engine_is_away_packets_are_dropped_or_pass_as_the_tenant_says() {
    everywhere(|tier, text, _| {
        for on_failure in [OnFailure::Drop, OnFailure::Pass] {
            let tenant = redirected(0, on_failure);
            let mut bench = with_engine(tier, &tenant);
            through(&mut bench, text, "udp");
            let without = |bench: &mut Bench| match on_failure {
                OnFailure::Drop => dropped(bench, text, "udp", "redirect engine-away"),
                OnFailure::Pass => pass(bench, text, "udp"),
            };
            bench.now += PATIENCE + 1;
            without(&mut bench);
            // Heartbeats come back by one side, then by both.
            let macs = [1, 5].map(|at| MacAddr([2, 0xfe, 0, 0, 0, at]));
            let heard = |bench: &mut Bench, by: u16, frame: Vec<u8>| {
                let before = count(bench, "redirect-heartbeat", "heard");
                assert_eq!(bench.run(by, &[frame], 1), Outcome::default());
                assert_eq!(count(bench, "redirect-heartbeat", "heard"), before + 1);
            };
            heard(&mut bench, 5, heartbeat_frame(macs[0], macs[1]));
            without(&mut bench);
            heard(&mut bench, 1, heartbeat_frame(macs[1], macs[0]));
            through(&mut bench, text, "udp");
            // One side isn't there.
            let redirect = tenant.redirect.clone().unwrap();
            let half = Redirect { interfaces: [1, 0], ..redirect };
            put(&mut bench, &Tenant { redirect: Some(half), ..tenant });
            without(&mut bench);
            let passed = if on_failure == OnFailure::Pass { 3 } else { 0 };
            assert_eq!((sent(&bench), count(&bench, "redirect", "passed-engine-away")), (2, passed));
        }
    });
}

#[test]
fn a_heartbeat_that_comes_elsewhere_or_says_something_else_is_none() {
    for tier in Tier::available() {
        let tenant = redirected(0, OnFailure::Drop);
        let mut bench = with_engine(tier, &tenant);
        bench.now += PATIENCE + 1;
        let beat = heartbeat_frame(MacAddr([2, 0xfe, 0, 0, 0, 1]), MacAddr([2, 0xfe, 0, 0, 0, 5]));
        assert_eq!((beat.len(), &beat[..14]), (60, &[&TO_5[..], &[0x88, 0xb6]].concat()[..]));
        let to_2 = [&[2, 0xfe, 0, 0, 0, 2][..], &beat[6..]].concat();
        let other = [&beat[..14], &[0; 46]].concat();
        for (by, frame, reason) in [
            (2, to_2, "redirect-heartbeat stray"),
            (5, other, "redirect-heartbeat stray"),
            (1, beat, "ethernet-input wrong-mac"),
        ] {
            assert_eq!(bench.run(by, &[frame], 1).drops, [(reason.into(), 1)].into());
        }
        let redirect = tenant.redirect.unwrap();
        assert!(!redirect.engine.is_there(bench.now, PATIENCE));
    }
}

/// Judges the sessions of a protocol.
pub(super) fn judge(bench: &mut Bench, protocol: u8, judgment: Judgment) -> u64 {
    let (reason, key) = (judged(&bench.plan).unwrap(), bench.key::<Tenants>());
    let tenants = bench.publisher.current().get(key).clone();
    let tick = bench.now >> tenants::TICK_BITS;
    let filter = Filter { protocol: Some(protocol), ..Filter::default() };
    sessions(bench).judge(&tenants, &filter, (judgment, reason), tick, (0, u32::MAX)).0
}

/// SFDP's weakness 13: what an engine has decided isn't kept.
#[test]
fn the_rest_of_a_session_passes_or_is_dropped_as_it_was_judged_until_the_tenant_changes() {
    everywhere(|tier, text, _| {
        let tenant = redirected(0, OnFailure::Drop);
        let mut bench = with_engine(tier, &tenant);
        ["udp", "udp answer", "tcp syn"].into_iter().for_each(|name| through(&mut bench, text, name));
        visits(&mut bench, text, "tcp syn answer");
        assert_eq!(judge(&mut bench, 17, Judgment::AllowRest), 1);
        assert_eq!(judge(&mut bench, 6, Judgment::DropRest), 1);
        for name in ["udp", "udp answer", "udp"] {
            pass(&mut bench, text, name);
        }
        dropped(&mut bench, text, "tcp syn", "redirect judged");
        dropped(&mut bench, text, "tcp syn answer", "redirect judged");
        let (late, [_, by]) = visiting(text, "tcp syn answer");
        assert_eq!(
            bench.run(by, &[late], 1).drops,
            [("redirect judged".into(), 1)].into(),
            "the engine had it"
        );
        put(&mut bench, &tenant);
        through(&mut bench, text, "udp");
        through(&mut bench, text, "tcp syn");
    });
}

#[test]
fn a_verdict_is_about_one_connection_and_outlives_no_change_that_was_there_before() {
    everywhere(|tier, text, _| {
        let tenant = redirected(0, OnFailure::Drop);
        let mut bench = with_engine(tier, &tenant);
        through(&mut bench, text, "tcp syn");
        // The session hasn't heard of the change yet.
        put(&mut bench, &tenant);
        assert_eq!(judge(&mut bench, 6, Judgment::AllowRest), 1);
        for name in ["tcp ack", "tcp syn answer", "tcp fin", "tcp fin answer"] {
            pass(&mut bench, text, name);
        }
        assert_eq!(one(&mut bench).session.state, State::TimeWait);
        through(&mut bench, text, "tcp syn");
        through(&mut bench, text, "tcp ack answer");
        put(&mut bench, &tenant);
        assert_eq!(judge(&mut bench, 6, Judgment::DropRest), 1);
        dropped(&mut bench, text, "tcp ack", "redirect judged");
    });
}

/// Another tenant, a pool, an endpoint: workers look through all sessions, and this one's stay judged.
#[test]
fn a_verdict_outlives_changes_of_others() {
    everywhere(|tier, text, _| {
        let tenant = redirected(0, OnFailure::Drop);
        let mut bench = with_engine(tier, &tenant);
        ["udp", "udp answer", "tcp syn"].into_iter().for_each(|name| through(&mut bench, text, name));
        assert_eq!(judge(&mut bench, 17, Judgment::AllowRest), 1);
        assert_eq!(judge(&mut bench, 6, Judgment::DropRest), 1);
        // Whether a packet or the look through all of them finds them first; and after one that none has heard of.
        for rounds in [0, 1, 1] {
            change_something(&mut bench);
            (0..rounds).for_each(|_| bench.round());
            ["udp", "udp answer"].into_iter().for_each(|name| pass(&mut bench, text, name));
            dropped(&mut bench, text, "tcp syn", "redirect judged");
            dropped(&mut bench, text, "tcp syn answer", "redirect judged");
            change_something(&mut bench);
        }
        assert_eq!(sent(&bench), 3);
        put(&mut bench, &tenant);
        through(&mut bench, text, "udp");
        through(&mut bench, text, "tcp syn");
        change_something(&mut bench);
        through(&mut bench, text, "udp");
    });
}

#[test]
fn what_comes_back_at_another_worker_finds_its_session() {
    for tier in Tier::available() {
        let mut elsewhere = 0;
        for seed in 1..9 {
            let tenant = redirected(0, OnFailure::Drop);
            let workers = workers_of(tier, [seed; 4], &tenant);
            let mut workers: Vec<_> = workers.into_iter().map(|bench| furnished(bench, &tenant)).collect();
            let (frame, [by, back]) = visiting(V4, "udp");
            let row = packet(V4, "udp");
            let Verdict::Sent(expected) = row.verdict else { panic!() };
            let sent = send_all(&mut workers, 2, row.frame, by);
            let owner = sent.iter().position(|frames| !frames.is_empty()).unwrap();
            assert_eq!(sent[owner], core::slice::from_ref(&frame));
            let out = send_all(&mut workers, back, frame, expected[0].0);
            assert_eq!(out[owner], [expected[0].1.clone()]);
            elsewhere += usize::from(owner != 0);
        }
        assert!((1..8).contains(&elsewhere), "the first worker has some flows, the other one others");
    }
}

/// Sends a frame in at the first worker: what each of them has sent by `out`.
fn send_all(workers: &mut [Bench], by: u16, frame: Vec<u8>, out: u16) -> [Vec<Vec<u8>>; WORKERS] {
    let mut sent: [Vec<Vec<u8>>; WORKERS] = Default::default();
    sent[0] = workers[0].run(by, &[frame], 1).sent.remove(&out).unwrap_or_default();
    for at in 1..WORKERS {
        workers[at].round();
        workers[at].settle();
        sent[at] = workers[at].wires[&out].take();
    }
    sent
}
