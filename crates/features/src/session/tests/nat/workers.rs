//! Several workers: an answer is the session's worker's, whichever it comes in at.

use super::*;
use tables::session::Seed;

const WORKERS: usize = 2;

fn workers(tier: Tier, seed: [u64; 4]) -> Vec<Bench> {
    let stations = graph::handover::exchange(WORKERS).unwrap_or_else(|error| panic!("{error}"));
    let tenant = translating(pool(1024..=65535));
    let made = stations.into_iter().map(|station| {
        let mut bench = furnish(Bench::of_worker(station, tier), std::slice::from_ref(&tenant));
        let key = bench.key::<Tenants>();
        bench.publish(|draft| {
            draft.change(key, |all| (all.workers, all.shares) = (WORKERS as u32, Seed::known(seed)));
        });
        bench
    });
    made.collect()
}

/// Sends a frame in at a worker and lets all of them work: what comes out, and at which.
fn send(workers: &mut [Bench], at: usize, rx_if: u16, frame: Vec<u8>) -> (usize, u16, Vec<u8>) {
    let mut came: Vec<_> =
        workers[at].run(rx_if, &[frame], 1).sent.into_iter().map(|(out, frames)| (at, out, frames)).collect();
    for (number, worker) in workers.iter_mut().enumerate().filter(|(number, _)| *number != at) {
        worker.round();
        worker.settle();
        for (interface, wire) in &worker.wires {
            came.push((number, *interface, wire.take()));
        }
    }
    came.retain(|(.., frames)| !frames.is_empty());
    let [(by, interface, frames)] = &came[..] else { panic!("{came:?}") };
    (*by, *interface, frames[0].clone())
}

/// An IP packet's answer has the same checksums: they cover the same words.
fn answer(packet: &[u8]) -> Vec<u8> {
    let mut answer = packet.to_vec();
    answer[12..16].copy_from_slice(&packet[16..20]);
    answer[16..20].copy_from_slice(&packet[12..16]);
    answer[20..22].copy_from_slice(&packet[22..24]);
    answer[22..24].copy_from_slice(&packet[20..22]);
    answer
}

#[test]
fn answers_come_to_the_worker_that_has_the_session() {
    for tier in Tier::available() {
        let mut owners = [0; WORKERS];
        for seed in 1..9 {
            let mut workers = workers(tier, [seed; 4]);
            let asked = packet(NAT, "udp").frame;
            let (owner, interface, question) = send(&mut workers, 0, 2, asked.clone());
            assert_eq!((interface, &question[12..16]), (3, &POOL.to_be_bytes()[..]));
            let (by, interface, answered) = send(&mut workers, 1, 3, answer(&question));
            assert_eq!((by, interface), (owner, 2), "seed {seed}");
            // Addresses, ports and the checksum over them are those of the question as it was asked.
            assert_eq!(answered[26..42], answer(&asked[14..])[12..28]);
            let there = one(&mut workers[owner]).session;
            assert_eq!(there.packets(), [1, 1]);
            let handed: u64 =
                workers.iter().map(|worker| count(worker, "ip4-session-input", "handed-over")).sum();
            assert_eq!(handed, 1, "either came in at the other worker");
            owners[owner] += 1;
        }
        assert!(owners.iter().all(|flows| *flows > 0), "flows are shared out: {owners:?}");
    }
}

/// Of SCTP nobody changes ports: whose it is, they alone say.
#[test]
fn sctp_keeps_its_ports_with_several_workers() {
    for seed in 1..9 {
        let mut workers = workers(slowest(), [seed; 4]);
        let row = packet(NAT, "sctp");
        let Verdict::Sent(expected) = row.verdict else { panic!() };
        let (owner, interface, frame) = send(&mut workers, 0, 2, row.frame);
        assert_eq!((interface, frame), expected[0].clone());
        let row = packet(NAT, "sctp answer");
        let Verdict::Sent(expected) = row.verdict else { panic!() };
        let (by, interface, frame) = send(&mut workers, 1, 3, row.frame);
        assert_eq!((by, (interface, frame)), (owner, expected[0].clone()));
    }
}
