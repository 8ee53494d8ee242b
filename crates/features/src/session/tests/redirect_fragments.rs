//! Fragments of sessions that an engine looks into.

use super::handover::{WORKERS, workers_of};
use super::redirect::{SIDES, furnished, judge, redirected, sent, with_engine};
use super::redirect_translated::network;
use super::*;
use crate::session::redirect::{Judgment, OnFailure};
use crate::testing::{Outcome, Vectors};
use std::sync::LazyLock;

static VECTORS: LazyLock<Vectors> =
    LazyLock::new(|| Vectors::read(include_str!("../../../tests/vectors/engine_fragments.txt")));

type Frames = Vec<Vec<u8>>;

/// All parts of that name, in order.
pub(super) fn all(name: &str) -> Frames {
    let count = VECTORS.names().filter(|one| one.rsplit_once('/').is_some_and(|(of, _)| of == name)).count();
    assert!(count > 0, "{name}");
    (0..count).map(|at| VECTORS.get(&format!("{name}/{at}"))).collect()
}

pub(super) fn reversed(mut frames: Frames) -> Frames {
    frames.reverse();
    frames
}

/// The datagrams in vectors, each with a network where it visits the engine.
pub(super) fn datagrams(tier: Tier) -> impl Iterator<Item = (&'static str, Bench)> {
    ["plain4", "plain6", "headers6", "vip4", "vip6", "nat4"].into_iter().map(move |name| {
        let bench = match &name[..3] {
            "nat" => network(tier, "nat", 0),
            "vip" => network(tier, "balance", 0),
            _ => with_engine(tier, &redirected(0, OnFailure::Drop)),
        };
        (name, bench)
    })
}

/// By which interface packets of that direction come in, are sent to the engine, come back from it, and leave.
pub(super) fn way(name: &str) -> [u16; 4] {
    if name.ends_with("-answer") { [3, SIDES[1], SIDES[0], 2] } else { [2, SIDES[0], SIDES[1], 3] }
}

pub(super) fn is(outcome: &Outcome, by: u16, frames: Frames, name: &str) {
    assert_eq!(outcome.drops, [].into(), "{name}");
    assert!(outcome.sent.keys().eq([&by]), "{name}: {:?}", outcome.sent.keys());
    assert!(outcome.sent[&by] == frames, "{name}");
}

/// All parts of a datagram as they come, in order and backwards, and as they go on: those behind the first when that has come.
fn orders(name: &str, comes: &str, goes: &str) -> [(Frames, Frames); 2] {
    let [came, gone] = [comes, goes].map(|kind| all(&format!("{name}/{kind}")));
    let mut behind = gone.clone();
    behind[1..].reverse();
    [(came.clone(), gone), (reversed(came), behind)]
}

#[test]
fn all_of_a_datagram_visit_the_engine_and_come_back_as_they_were() {
    for tier in Tier::available() {
        for (name, mut bench) in datagrams(tier) {
            for burst in [1, 256] {
                for name in [name.to_string(), format!("{name}-answer")] {
                    let [by, to, back, out] = way(&name);
                    for (came, seen) in orders(&name, "came", "seen") {
                        is(&bench.run(by, &came, burst), to, seen, &name);
                    }
                    for (seen, left) in orders(&name, "seen", "left") {
                        is(&bench.run(back, &seen, burst), out, left, &name);
                    }
                }
            }
            let parts = all(&format!("{name}/came")).len() as u64;
            assert_eq!(one(&mut bench).session.packets(), [4 * parts; 2], "{name}: each is counted once");
            assert_eq!(sent(&bench), 8 * parts);
        }
    }
}

/// The same datagram is on its way to the engine and on its way from it.
#[test]
fn parts_come_back_while_others_are_still_to_come() {
    for tier in Tier::available() {
        for name in ["plain4", "plain6"] {
            let mut bench = with_engine(tier, &redirected(0, OnFailure::Drop));
            let [came, seen, left] = ["came", "seen", "left"].map(|kind| all(&format!("{name}/{kind}")));
            for _ in 0..2 {
                for at in 0..came.len() {
                    is(&bench.run(2, &came[at..=at], 1), SIDES[0], seen[at..=at].to_vec(), name);
                    is(&bench.run(SIDES[1], &seen[at..=at], 1), 3, left[at..=at].to_vec(), name);
                }
            }
        }
    }
}

#[test]
fn verdicts_hold_for_fragments() {
    for tier in Tier::available() {
        for name in ["plain4", "plain6"] {
            let parts = |kind: &str| all(&format!("{name}/{kind}"));
            let mut bench = with_engine(tier, &redirected(0, OnFailure::Drop));
            is(&bench.run(2, &parts("came"), 1), SIDES[0], parts("seen"), name);
            is(&bench.run(SIDES[1], &parts("seen"), 1), 3, parts("left"), name);
            assert_eq!(judge(&mut bench, 17, Judgment::AllowRest), 1);
            is(&bench.run(2, &parts("came"), 1), 3, parts("left"), name);
            assert_eq!(sent(&bench), parts("came").len() as u64);
            assert_eq!(judge(&mut bench, 17, Judgment::DropRest), 1);
            let outcome = bench.run(2, &parts("came"), 1);
            assert_eq!(outcome.drops, [("redirect judged".into(), parts("came").len() as u64)].into());
            // The engine has seen enough with the second packet, which is a later fragment.
            let mut bench = with_engine(tier, &redirected(2, OnFailure::Drop));
            is(&bench.run(2, &parts("came")[..2], 1), SIDES[0], parts("seen")[..2].to_vec(), name);
            is(&bench.run(SIDES[1], &parts("seen")[..2], 1), 3, parts("left")[..2].to_vec(), name);
            is(&bench.run(2, &parts("came")[2..], 1), 3, parts("left")[2..].to_vec(), name);
        }
    }
}

#[test]
fn while_the_engine_is_away_fragments_are_dropped_or_pass_likewise() {
    for tier in Tier::available() {
        for name in ["plain4", "plain6"] {
            let parts = |kind: &str| all(&format!("{name}/{kind}"));
            for on_failure in [OnFailure::Drop, OnFailure::Pass] {
                let mut bench = with_engine(tier, &redirected(0, on_failure));
                bench.now += SECOND;
                let outcome = bench.run(2, &parts("came"), 1);
                match on_failure {
                    OnFailure::Pass => is(&outcome, 3, parts("left"), name),
                    OnFailure::Drop => {
                        let all = parts("came").len() as u64;
                        assert_eq!(outcome.drops, [("redirect engine-away".into(), all)].into());
                    }
                }
            }
        }
    }
}

/// An engine that sends back what it was never sent gets no further than to the bounds of its own interface.
#[test]
fn later_fragments_from_the_engine_without_a_first_wait_and_are_given_up() {
    for tier in Tier::available() {
        for (name, node) in [("plain4", "ip4-sv-reassembly"), ("plain6", "ip6-sv-reassembly")] {
            let parts = |kind: &str| all(&format!("{name}/{kind}"));
            let mut bench = with_engine(tier, &redirected(0, OnFailure::Drop));
            assert_eq!(bench.run(SIDES[1], &parts("seen")[1..], 1), Outcome::default());
            wait(&mut bench, 2);
            let outcome = bench.run(SIDES[1], &parts("seen")[1..2], 1);
            let lost = parts("seen").len() as u64 - 1;
            assert_eq!(outcome.drops, [(format!("{node} timed-out"), lost)].into());
            assert!(seen(&mut bench).is_empty(), "and begin no session");
        }
    }
}

/// Fragments come in at any worker: one knows their datagram, one has the flow.
#[test]
fn they_may_come_in_and_come_back_at_any_worker() {
    for tier in Tier::available() {
        for name in ["plain4", "plain6"] {
            for seed in 1..5 {
                let tenant = redirected(0, OnFailure::Drop);
                let workers = workers_of(tier, [seed; 4], &tenant);
                let mut workers: Vec<_> =
                    workers.into_iter().map(|bench| furnished(bench, &tenant)).collect();
                for (comes, goes, by, to) in [("came", "seen", 2, SIDES[0]), ("seen", "left", SIDES[1], 3)] {
                    let mut came = Vec::new();
                    for (at, frame) in all(&format!("{name}/{comes}")).into_iter().enumerate() {
                        let outcome = workers[at % WORKERS].run(by, &[frame], 1);
                        assert_eq!(outcome.drops, [].into());
                        came.extend(outcome.sent.into_values().flatten());
                        for _ in 0..2 * WORKERS {
                            for worker in &mut workers {
                                worker.round();
                                worker.settle();
                                came.extend(worker.wires[&to].take());
                            }
                        }
                    }
                    assert!(came == all(&format!("{name}/{goes}")), "{name} {comes}, seed {seed}");
                }
            }
        }
    }
}
