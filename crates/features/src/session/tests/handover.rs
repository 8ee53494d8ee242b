//! Flows that come by several workers.

use super::*;
use tables::session::{Key, Seed};

pub(super) const WORKERS: usize = 2;

/// Workers that share flows out by that seed.
fn workers(tier: Tier, seed: [u64; 4]) -> Vec<Bench> {
    workers_of(tier, seed, &Tenant { max_sessions: 1 << 20, ..tenant() })
}

/// The same of a tenant.
pub(super) fn workers_of(tier: Tier, seed: [u64; 4], tenant: &Tenant) -> Vec<Bench> {
    let stations = graph::handover::exchange(WORKERS).unwrap_or_else(|error| panic!("{error}"));
    let made = stations.into_iter().map(|station| {
        let mut bench = furnish(Bench::of_worker(station, tier), core::slice::from_ref(tenant));
        let key = bench.key::<Tenants>();
        bench.publish(|draft| {
            draft.change(key, |all| (all.workers, all.shares) = (WORKERS as u32, Seed::known(seed)));
        });
        bench
    });
    made.collect()
}

/// Sends a packet in at a worker and lets all of them work; where it came out, and whether as the row says.
pub(super) fn send(workers: &mut [Bench], at: usize, text: &'static str, name: &str) -> usize {
    let row = packet(text, name);
    let Verdict::Sent(expected) = row.verdict else { panic!("{name}: {:?}", row.verdict) };
    let (interface, frame) = expected[0].clone();
    let mut came = workers[at].run(row.rx_if, &[row.frame], 1).sent;
    let mut by = at;
    for (number, worker) in workers.iter_mut().enumerate().filter(|(number, _)| *number != at) {
        worker.round();
        worker.settle();
        let frames = worker.wires[&interface].take();
        if !frames.is_empty() {
            by = number;
            came.insert(interface, frames);
        }
    }
    assert_eq!(came.get(&interface), Some(&vec![frame]), "{name}");
    by
}

/// SFDP's weaknesses 3 and 9: one worker has the sessions of both directions, whichever their packets come in at.
#[test]
fn both_directions_meet_at_one_worker() {
    everywhere(|tier, text, node| {
        let mut owners = [0; WORKERS];
        for seed in 1..9 {
            let mut workers = workers(tier, [seed; 4]);
            let owner = send(&mut workers, 0, text, "udp");
            assert_eq!(send(&mut workers, 1, text, "udp answer"), owner);
            assert_eq!(send(&mut workers, 1, text, "udp"), owner);
            assert_eq!(
                send(&mut workers, 0, text, "error of a router"),
                owner,
                "errors go where their session is"
            );
            let session = one(&mut workers[owner]).session;
            assert_eq!((session.state, session.packets()), (State::Established, [2, 2]));
            assert!(seen(&mut workers[1 - owner]).is_empty());
            // Two of the four came in at either worker: those of the other one were handed over, once.
            assert_eq!(count(&workers[1 - owner], node, "handed-over"), 2);
            assert_eq!(count(&workers[owner], node, "handed-over"), 0);
            owners[owner] += 1;
        }
        assert!(owners.iter().all(|flows| *flows > 0), "flows are shared out: {owners:?}");
    });
}

/// SFDP's weaknesses 3 and 3b: a worker's number in eight bits, and a number that stands for "nobody's yet". Whose a flow is follows from its addresses and ports alone, in
/// both directions, for as many workers as there are; nobody is bound to it, and each of them has its share.
#[test]
fn more_workers_than_eight_bits_can_number_have_flows() {
    const MANY: u32 = 1000;
    let mut tenants = Tenants::default();
    (tenants.workers, tenants.shares) = (MANY, Seed::known([7; 4]));
    let mut flows = vec![0; MANY as usize];
    for port in 0..=u16::MAX {
        let there = Key::v4(0, 17, (0x0a00_0202, port), (0x0a02_0009, 53));
        let back = Key::v4(0, 17, (0x0a02_0009, 53), (0x0a00_0202, port));
        let owner = tenants.owner(&there.0);
        assert_eq!(tenants.owner(&back.0), owner, "port {port}");
        assert_ne!(there.1, back.1, "the same key, from either side");
        flows[owner as usize] += 1;
        let there = Key::v6(0, 17, (u128::from(port), 1), (1 << 96, 53));
        let back = Key::v6(0, 17, (1 << 96, 53), (u128::from(port), 1));
        assert_eq!(tenants.owner(&there.0), tenants.owner(&back.0), "IPv6, host {port}");
    }
    // 65 flows each, as the dice fall: that one has none has a probability of e^-65.
    assert!(flows.iter().all(|of_one| (1..200).contains(of_one)), "{flows:?}");
    // And of one worker, or before there are any, they are that one's.
    for workers in [0, 1] {
        tenants.workers = workers;
        assert_eq!(tenants.owner(&Key::v4(0, 17, (1, 2), (3, 4)).0), 0);
    }
}

/// A worker that stands still costs the others the packets that are its own, and those are counted.
#[test]
fn a_worker_that_does_not_keep_up_is_no_other_s_trouble() {
    everywhere(|tier, text, node| {
        let mut workers = workers(tier, [3; 4]);
        let row = packet(text, "udp");
        let port = if text == V4 { 14 + 20 } else { 14 + 40 };
        let frames: Vec<Vec<u8>> = (0..4096_u16)
            .map(|n| {
                let mut frame = row.frame.clone();
                frame[port..port + 2].copy_from_slice(&(1000 + n).to_be_bytes());
                frame
            })
            .collect();
        let outcome = workers[0].run(2, &frames, 256);
        let (own, lost) = (seen(&mut workers[0]).len() as u64, outcome.drops.values().sum::<u64>());
        let handed = count(&workers[0], node, "handed-over");
        assert_eq!(outcome.drops.keys().collect::<Vec<_>>(), [&format!("{node} handover-full")]);
        assert_eq!((own + handed + lost, outcome.sent.get(&3).map(Vec::len)), (4096, Some(own as usize)));
        assert!(own > 1000 && handed >= 256 && lost > 0, "{own} here, {handed} handed over, {lost} lost");
    });
}
