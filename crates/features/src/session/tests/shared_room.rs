//! A tenant that several workers have sessions of: room is made by all of them.

use super::super::owed::{MANY, Owed};
use super::limits::flood;
use super::*;

/// So many workers with one tenant. Which flows are whose, the test says.
pub(super) fn workers<const WORKERS: usize>(tier: Tier, tenant: &Tenant) -> [Bench; WORKERS] {
    let owed = Arc::default();
    core::array::from_fn(|_| worker(tier, tenant, &owed))
}

/// One of them.
pub(super) fn worker(tier: Tier, tenant: &Tenant, owed: &Arc<Owed>) -> Bench {
    let mut bench = bench(tier, core::slice::from_ref(tenant));
    let key = bench.key::<Tenants>();
    bench.publish(|draft| draft.change(key, |all| all.owed = Arc::clone(owed)));
    bench
}

/// SYNs that nobody answers, of clients in vectors of 100; all of them begin sessions.
fn flooded_by(bench: &mut Bench, text: &'static str, clients: core::ops::Range<u16>) {
    for from in clients.clone().step_by(100) {
        let frames = flood(text, from..(from + 100).min(clients.end));
        // So few at a time that none has to go before its packet has got to its service.
        let outcome = bench.run(2, &frames, 16);
        assert_eq!(outcome.sent.get(&3).map(Vec::len), Some(frames.len()), "{:?}", outcome.drops);
    }
}

fn figures(tenant: &Tenant) -> [u64; 3] {
    let all = &tenant.occupancy;
    [&all.sessions, &all.evicted, &all.refused].map(|figure| figure.load(Ordering::Relaxed))
}

/// Whoever means it and is another worker's than the flood is admitted, stays, and is answered; those of the flood make room.
#[test]
fn a_flood_at_one_worker_leaves_room_at_another() {
    everywhere(|tier, text, node| {
        let shared = Tenant { max_sessions: 300, ..tenant() };
        let [mut flooded, mut calm] = workers(tier, &shared);
        flooded_by(&mut flooded, text, 1000..1300);
        assert_eq!(figures(&shared), [300, 0, 0]);
        pass(&mut calm, text, "tcp syn");
        calm.round();
        assert_eq!(figures(&shared), [301, 0, 0], "one is owed, and not by whom it was taken");
        flooded.round();
        assert_eq!(figures(&shared), [300, 1, 0]);
        assert_eq!(count(&flooded, "session-expire", "evicted-for-quota"), 1);
        // More than one of them, and the flood goes on.
        pass(&mut calm, text, "udp");
        pass(&mut calm, text, "echo");
        flooded_by(&mut flooded, text, 2000..2300);
        assert_eq!(figures(&shared), [300, 303, 0], "two for those two, and one for each of its own");
        for name in ["tcp syn-ack answer", "tcp ack", "udp answer", "echo answer"] {
            pass(&mut calm, text, name);
        }
        assert!(seen(&mut calm).iter().all(|seen| seen.session.state == State::Established));
        flooded_by(&mut flooded, text, 3000..3300);
        assert_eq!((seen(&mut calm).len(), seen(&mut flooded).len()), (3, 297));
        assert_eq!(count(&calm, node, "evicted-for-quota"), 0, "nobody there had to go");
        assert_eq!(figures(&shared), [300, 603, 0]);
    });
}

/// What of a tenant's sessions makes room is the same wherever it is: also a worker without any has its share of the quota, and none has all of it.
#[test]
fn floods_at_all_workers_keep_to_the_quota() {
    let (quota, many) = (4800, u64::from(MANY));
    let shared = Tenant { max_sessions: quota, ..tenant() };
    let [mut one, mut other, mut last] = workers(Tier::available()[0], &shared);
    flooded_by(&mut one, V4, 1000..5800);
    flooded_by(&mut other, V4, 6000..6600);
    assert_eq!(figures(&shared), [quota + many, 600 - many, 0], "so much is owed");
    assert_eq!(seen(&mut other).len() as u64, many);
    flooded_by(&mut last, V4, 7000..7000 + MANY as u16);
    assert_eq!(figures(&shared)[0], quota + 2 * many);
    for round in 1..=8 {
        one.round();
        assert_eq!(figures(&shared)[0], quota + 2 * many - round * 64, "a round doesn't give back all");
    }
    for bench in [&mut one, &mut other, &mut last] {
        bench.round();
    }
    assert_eq!(figures(&shared), [quota, 600 + many, 0], "nobody gives more than is owed");
    assert_eq!(seen(&mut one).len() as u64, quota - 2 * many);
}

/// A round looks at a part of the tenants, and the next ones at the others.
#[test]
fn who_has_many_tenants_finds_whose_place_it_owes() {
    let text = V4;
    let shared = Tenant { max_sessions: 100, ..tenant() };
    let [mut flooded, mut calm] = workers(Tier::available()[0], &shared);
    for bench in [&mut flooded, &mut calm] {
        let key = bench.key::<Tenants>();
        bench.publish(|draft| {
            draft.change(key, |all| {
                all.set(200, Some(shared.clone()));
                all.set_place(2, Place { tenant: 200, ..Place::default() });
            });
        });
    }
    flooded_by(&mut flooded, text, 1000..1100);
    pass(&mut calm, text, "tcp syn");
    flooded.round();
    assert_eq!(figures(&shared), [101, 0, 0], "it hasn't come so far");
    (0..3).for_each(|_| flooded.round());
    assert_eq!(figures(&shared), [100, 1, 0]);
    assert_eq!(seen(&mut calm).len(), 1);
}

/// Those that are settled make room for nobody, wherever they are.
#[test]
fn nobody_gets_in_where_all_are_settled() {
    everywhere(|tier, text, node| {
        let shared = Tenant { max_sessions: 2, ..tenant() };
        let [mut settled, mut other] = workers(tier, &shared);
        for name in ["udp", "udp answer", "echo", "echo answer"] {
            pass(&mut settled, text, name);
        }
        for _ in 0..3 {
            dropped(&mut other, text, "another udp", &format!("{node} quota"));
            settled.round();
            other.round();
        }
        assert_eq!(figures(&shared), [2, 0, 3]);
        assert_eq!(seen(&mut settled).len(), 2);
    });
}

/// One that was silent for a minute is asked for, and has gone when the client tries again.
#[test]
fn an_idle_session_of_another_worker_makes_room_for_a_repetition() {
    everywhere(|tier, text, node| {
        let shared = Tenant { max_sessions: 2, ..tenant() };
        let [mut settled, mut other] = workers(tier, &shared);
        for name in ["udp", "udp answer", "tcp syn", "tcp syn-ack answer", "tcp ack"] {
            pass(&mut settled, text, name);
        }
        wait(&mut settled, 55);
        pass(&mut settled, text, "udp");
        wait(&mut settled, 6);
        other.now = settled.now;
        for _ in 0..2 {
            dropped(&mut other, text, "another udp", &format!("{node} quota"));
        }
        settled.round();
        assert_eq!(figures(&shared), [1, 1, 2], "one, though two have asked for it");
        assert_eq!(one(&mut settled).key.protocol(), 17, "the connection has been silent");
        other.now += SECOND;
        pass(&mut other, text, "another udp");
        settled.round();
        assert_eq!(figures(&shared), [2, 1, 2]);
        pass(&mut settled, text, "udp answer");
    });
}
