//! Metered sessions: packets made by scapy, which leave with another DSCP.

use super::handover::{WORKERS, workers_of};
use super::*;
use crate::policer::{Action, Figures, Policed, Profile};
use tables::policer::{Kind, Meter, Rates, Unit};

const POLICED4: &str = include_str!("../../../tests/vectors/policer4.txt");
const POLICED6: &str = include_str!("../../../tests/vectors/policer6.txt");
const EF: u8 = 46;

/// Both IP versions on every tier.
fn both(test: impl Fn(Tier, &'static str)) {
    for tier in Tier::available() {
        test(tier, POLICED4);
        test(tier, POLICED6);
    }
}

/// So many packets at once, so many more in excess, and so many a second.
pub(super) fn packets(committed: u64, committed_burst: u64, other_burst: u64) -> Rates {
    Rates { kind: Kind::SingleRate, unit: Unit::Packets, committed, committed_burst, other: 0, other_burst }
}

pub(super) fn profile(rates: Rates, actions: [Action; 3]) -> Profile {
    Profile {
        name: "gold".into(),
        meter: Meter::new(&rates).unwrap(),
        actions,
        is_aware: false,
        per_session: false,
        version: 1,
    }
}

pub(super) fn policed(profile: Profile) -> Arc<Policed> {
    Arc::new(Policed::new(&Arc::new(profile), Arc::default(), SECOND))
}

fn metered(forward: &Arc<Policed>, reverse: Option<&Arc<Policed>>) -> Tenant {
    let services = |on| {
        order().chain(if on { &["l4-lifecycle", "policer"][..] } else { &["l4-lifecycle"] }.iter().copied())
    };
    Tenant {
        chain: [services(true).unwrap(), services(reverse.is_some()).unwrap()],
        policers: [Some(Arc::clone(forward)), reverse.map(Arc::clone)],
        ..tenant()
    }
}

const MARK: [Action; 3] = [Action::Mark(EF); 3];
const POLICE: [Action; 3] = [Action::Transmit, Action::Mark(EF), Action::Drop];
const NEVER: Rates = Rates {
    kind: Kind::TwoRates,
    unit: Unit::Bits,
    committed: 1_000_000,
    committed_burst: 10_000,
    other: 2_000_000,
    other_burst: 20_000,
};

#[test]
fn packets_are_marked_and_nothing_else_changes() {
    both(|tier, text| {
        let forward = policed(profile(NEVER, MARK));
        let mut bench = bench(tier, &[metered(&forward, Some(&forward))]);
        let names = rows(text).into_iter().map(|row| row.name).filter(|name| *name != "unmarked");
        let marked = names.map(|name| pass(&mut bench, text, name)).count() as u64;
        assert_eq!(
            (count(&bench, "policer", "marked"), forward.hits.figures().packets),
            (marked, [marked, 0, 0])
        );
        // The same packets once more, but in one vector.
        let outcome = bench.run(2, &vec![packet(text, "dscp 14 ecn 2").frame; 200], 200);
        let Verdict::Sent(expected) = packet(text, "dscp 14 ecn 2").verdict else { panic!() };
        assert_eq!(outcome.sent.get(&3), Some(&vec![expected[0].1.clone(); 200]));
    });
}

#[test]
fn each_direction_of_a_tenant_has_tokens_for_all_of_its_sessions() {
    both(|tier, text| {
        for burst in [1, 256] {
            let (forward, reverse) =
                (policed(profile(packets(1, 3, 2), POLICE)), policed(profile(packets(1, 1, 0), POLICE)));
            let mut bench = bench(tier, &[metered(&forward, Some(&reverse))]);
            let frames = ["unmarked", "another", "unmarked", "another", "another", "another", "unmarked"];
            let frames = frames.map(|name| packet(text, name).frame);
            let outcome = bench.run(2, &frames, burst);
            let sent = outcome.sent.get(&3).unwrap();
            let Verdict::Sent(unmarked) = packet(text, "unmarked").verdict else { panic!() };
            let Verdict::Sent(another) = packet(text, "another").verdict else { panic!() };
            // The third is the last green one; the fourth and fifth are marked, others are dropped.
            assert_eq!(
                (sent.len(), &sent[2], &sent[3], &sent[4]),
                (5, &unmarked[0].1, &another[0].1, &another[0].1)
            );
            assert_eq!(outcome.drops, [("policer violating".to_string(), 2)].into());
            let bytes = unmarked[0].1.len() as u64;
            let expected = Figures { packets: [3, 2, 2], bytes: [3 * bytes, 2 * bytes, 2 * bytes] };
            assert_eq!((forward.hits.figures(), reverse.hits.figures()), (expected, Figures::default()));
            let answers = vec![packet(text, "answer").frame; 3];
            assert_eq!(bench.run(3, &answers, burst).drops, [("policer violating".to_string(), 2)].into());
            assert_eq!(reverse.hits.figures().packets, [1, 0, 2]);
            bench.now += 2 * SECOND;
            assert_eq!(bench.run(2, &frames, burst).sent.get(&3).map(Vec::len), Some(2));
            assert_eq!(forward.hits.figures().packets, [5, 2, 7]);
            let session =
                seen(&mut bench).into_iter().find(|seen| seen.session.packets()[1] > 0).unwrap().session;
            assert_eq!(session.packets()[1], 3, "what is dropped is counted at its session");
        }
    });
}

#[test]
fn a_direction_without_the_service_is_let_alone() {
    both(|tier, text| {
        let forward = policed(profile(packets(1, 1, 0), [Action::Transmit, Action::Transmit, Action::Drop]));
        let mut bench = bench(tier, &[metered(&forward, None)]);
        pass(&mut bench, text, "unmarked");
        let answers = bench.run(3, &vec![packet(text, "answer").frame; 9], 9);
        assert_eq!((answers.sent.get(&2).map(Vec::len), answers.drops.len()), (Some(9), 0));
        dropped(&mut bench, text, "unmarked", "policer violating");
    });
}

#[test]
fn sessions_may_have_tokens_of_their_own_until_the_policer_changes() {
    both(|tier, text| {
        for burst in [1, 256] {
            let each = Profile { per_session: true, ..profile(packets(1, 2, 0), POLICE) };
            let forward = policed(each.clone());
            let mut bench = bench(tier, &[metered(&forward, None)]);
            let frames = ["unmarked", "another", "another", "another", "unmarked", "unmarked"];
            let frames = frames.map(|name| packet(text, name).frame);
            let outcome = bench.run(2, &frames, burst);
            assert_eq!(outcome.sent.get(&3).map(Vec::len), Some(4));
            assert_eq!(outcome.drops, [("policer violating".to_string(), 2)].into());
            bench.now += SECOND;
            assert_eq!(bench.run(2, &frames, burst).sent.get(&3).map(Vec::len), Some(2), "one each");
            assert_eq!(forward.hits.figures().packets, [6, 0, 6]);
            // The same tenant with others beside it: tokens stay.
            set_tenants(&mut bench, &[metered(&forward, None)]);
            assert_eq!(bench.run(2, &frames, burst).sent.get(&3), None);
            let changed = Arc::new(Profile { version: 2, ..each });
            let changed = Arc::new(Policed::new(&changed, Arc::clone(&forward.hits), bench.now));
            set_tenants(&mut bench, &[metered(&changed, None)]);
            assert_eq!(
                bench.run(2, &frames, burst).sent.get(&3).map(Vec::len),
                Some(4),
                "full buckets again"
            );
            assert_eq!(forward.hits.figures().packets, [10, 0, 14], "figures go on");
        }
    });
}

#[test]
fn packets_come_coloured_where_that_is_asked_for() {
    both(|tier, text| {
        let aware =
            Profile { is_aware: true, ..profile(NEVER, [Action::Mark(EF), Action::Mark(EF), Action::Drop]) };
        let forward = policed(aware);
        let mut bench = bench(tier, &[metered(&forward, None)]);
        let reds = [
            ("dscp 14 ecn 2", true),
            ("dscp 22 ecn 0", true),
            ("dscp 10 ecn 0", false),
            ("dscp 12 ecn 1", false),
        ];
        for (name, red) in reds.into_iter().chain([("dscp 28 ecn 0", false), ("dscp 63 ecn 3", false)]) {
            if red {
                dropped(&mut bench, text, name, "policer violating");
            } else {
                pass(&mut bench, text, name);
            }
        }
        assert_eq!(forward.hits.figures().packets, [2, 2, 2]);
    });
}

#[test]
fn workers_take_the_tokens_of_a_tenant_from_one_bucket() {
    for tier in Tier::available() {
        let mut owners = [0; WORKERS];
        for seed in 1..9 {
            let forward = policed(profile(packets(1, 10, 5), POLICE));
            let mut workers = workers_of(tier, [seed; 4], &metered(&forward, None));
            let mut sent = [0; WORKERS];
            for name in ["unmarked", "another"] {
                let key = packet(POLICED4, name).frame;
                let outcomes = send_all(&mut workers, &vec![key; 12]);
                (0..WORKERS).for_each(|at| sent[at] += outcomes[at]);
            }
            assert_eq!(forward.hits.figures().packets, [10, 5, 9]);
            assert_eq!(sent.iter().sum::<usize>(), 15);
            (0..WORKERS).for_each(|at| owners[at] += usize::from(sent[at] > 0));
        }
        assert!(owners.iter().all(|sessions| *sessions > 0), "both had some: {owners:?}");
    }
}

/// Sends frames in at the first worker and lets all of them work: how many each has sent.
fn send_all(workers: &mut [Bench], frames: &[Vec<u8>]) -> [usize; WORKERS] {
    let mut sent = [0; WORKERS];
    sent[0] = workers[0].run(2, frames, frames.len()).sent.get(&3).map_or(0, Vec::len);
    for at in 1..WORKERS {
        workers[at].round();
        workers[at].settle();
        sent[at] += workers[at].wires[&3].take().len();
    }
    sent
}
