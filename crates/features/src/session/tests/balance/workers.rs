//! Several workers: an answer is the session's worker's, whichever it comes in at.

use super::*;
use tables::session::Seed;

const WORKERS: usize = 2;

fn workers(tier: Tier, seed: [u64; 4]) -> Vec<Bench> {
    let stations = graph::handover::exchange(WORKERS).unwrap_or_else(|error| panic!("{error}"));
    let mut balancer = simple();
    balancer.publish();
    let tenant = balancing();
    let made = stations.into_iter().map(|station| {
        let mut bench = furnish(Bench::of_worker(station, tier), std::slice::from_ref(&tenant));
        let key = bench.key::<Tenants>();
        bench.publish(|draft| {
            draft.change(key, |all| {
                (all.workers, all.shares) = (WORKERS as u32, Seed::known(seed));
                all.vips = balancer.vips().clone();
            });
        });
        bench
    });
    made.collect()
}

/// Sends a row's frame in at a worker and lets all of them work: which of them sent what the row says.
fn send(workers: &mut [Bench], at: usize, text: &'static str, name: &str) -> usize {
    let row = packet(text, name);
    let Verdict::Sent(expected) = row.verdict else { panic!("{name}") };
    let outcome = workers[at].run(row.rx_if, &[row.frame], 1);
    let mut came: Vec<_> = outcome.sent.into_iter().map(|(out, frames)| (at, out, frames)).collect();
    for (number, worker) in workers.iter_mut().enumerate().filter(|(number, _)| *number != at) {
        worker.round();
        worker.settle();
        for (interface, wire) in &worker.wires {
            came.push((number, *interface, wire.take()));
        }
    }
    came.retain(|(.., frames)| !frames.is_empty());
    let [(by, interface, frames)] = &came[..] else {
        panic!("{name}: {came:?}, dropped {:?}", outcome.drops)
    };
    assert_eq!((*interface, &frames[0]), (expected[0].0, &expected[0].1), "{name}");
    *by
}

/// Nothing of the client changes, so nobody could choose a port by which it is so.
#[test]
fn answers_come_to_the_worker_that_has_the_session() {
    for tier in Tier::available() {
        for text in [BALANCE4, BALANCE6] {
            for name in ["udp", "tcp syn", "sctp"] {
                let mut owners = [0; WORKERS];
                for seed in 1..12 {
                    let mut workers = workers(tier, [seed, seed * 7, 3, seed << 40]);
                    let owner = send(&mut workers, 0, text, name);
                    assert_eq!(send(&mut workers, 1, text, &format!("{name} answer")), owner, "seed {seed}");
                    assert_eq!(one(&mut workers[owner]).session.packets(), [1, 1]);
                    let handed: u64 = workers
                        .iter()
                        .map(|worker| {
                            count(worker, "ip4-session-input", "handed-over")
                                + count(worker, "ip6-session-input", "handed-over")
                        })
                        .sum();
                    assert_eq!(handed, 1, "either came in at the other worker");
                    owners[owner] += 1;
                }
                assert!(owners.iter().all(|flows| *flows > 0), "flows are shared out: {owners:?}");
            }
        }
    }
}
