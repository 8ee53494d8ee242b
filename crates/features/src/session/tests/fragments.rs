//! Datagrams that come in fragments: all of them belong to the session of the first.

use super::acl::{network, rule};
use super::handover::{WORKERS, workers_of};
use super::*;
use crate::session::acl::Action;
use crate::testing::Outcome;
use wire::{Header, Ipv4Header, U16};

/// The node that knows which session they belong to.
fn reassembly(text: &str) -> &'static str {
    if text == V4 { "ip4-sv-reassembly" } else { "ip6-sv-reassembly" }
}

/// The row's packet in, and what it is expected to be outside.
fn send(bench: &mut Bench, text: &'static str, name: &str) -> (Outcome, Vec<u8>) {
    let row = packet(text, name);
    let Verdict::Sent(expected) = row.verdict else { panic!("{name}") };
    (bench.run(row.rx_if, &[row.frame], 1), expected[0].1.clone())
}

/// A fragment of another datagram.
fn numbered(text: &str, frame: &[u8], number: u16) -> Vec<u8> {
    let mut frame = frame.to_vec();
    if text == V4 {
        let (header, _) = Ipv4Header::parse_mut(&mut frame[14..]).unwrap();
        header.id = U16::new(number);
        header.checksum = U16::new(header.compute_checksum(&[]));
    } else {
        frame[14 + 40 + 6..14 + 40 + 8].copy_from_slice(&number.to_be_bytes());
    }
    frame
}

#[test]
fn later_fragments_belong_to_the_session_of_the_first() {
    everywhere(|tier, text, _| {
        for untracked in [SlowAction::Pass, SlowAction::Drop] {
            let mut bench = bench(tier, &[Tenant { slow_path: SlowPath::untracked(untracked), ..tenant() }]);
            pass(&mut bench, text, "first fragment");
            pass(&mut bench, text, "later fragment");
            pass(&mut bench, text, "udp");
            assert_eq!(one(&mut bench).session.packets(), [3, 0]);
            assert_eq!(count(&bench, reassembly(text), "waited"), 0);
        }
    });
}

#[test]
fn one_that_comes_before_the_first_waits_for_it() {
    everywhere(|tier, text, _| {
        let mut bench = bench(tier, &[tenant()]);
        let (outcome, later) = send(&mut bench, text, "later fragment");
        assert!(outcome.sent.is_empty() && outcome.drops.is_empty(), "{outcome:?}");
        let (outcome, first) = send(&mut bench, text, "first fragment");
        assert_eq!(outcome.sent.get(&3), Some(&vec![first, later]));
        assert_eq!(count(&bench, reassembly(text), "waited"), 1);
        assert_eq!(one(&mut bench).session.packets(), [2, 0]);
        // The datagram is whole: what comes with its number is another one's.
        let (outcome, _) = send(&mut bench, text, "later fragment");
        assert!(outcome.sent.is_empty() && outcome.drops.is_empty(), "{outcome:?}");
    });
}

#[test]
fn one_whose_first_does_not_come_is_given_up() {
    everywhere(|tier, text, _| {
        let node = reassembly(text);
        let mut bench = bench(tier, &[tenant()]);
        send(&mut bench, text, "later fragment");
        wait(&mut bench, 2);
        let (outcome, _) = send(&mut bench, text, "later fragment");
        assert_eq!(outcome.drops, [(format!("{node} timed-out"), 1)].into());
        assert!(outcome.sent.is_empty());
        // The second one waits for its own first.
        let (outcome, _) = send(&mut bench, text, "first fragment");
        assert_eq!(outcome.sent.get(&3).map(Vec::len), Some(2));
    });
}

/// The interface that it came by may send nothing more.
#[test]
fn one_whose_first_does_not_come_is_given_up_whoever_sends_the_next() {
    everywhere(|tier, text, _| {
        let (node, first) = (reassembly(text), packet(text, "first fragment").frame);
        // The first of the same datagram, and that of another one.
        for frame in [&first, &numbered(text, &first, 7)] {
            let mut bench = bench(tier, &[tenant()]);
            send(&mut bench, text, "later fragment");
            wait(&mut bench, 2);
            // By an interface without link-layer headers, in two vectors: with each, one interface's are looked through.
            let outcome = bench.run(3, &vec![frame[14..].to_vec(); 2], 1);
            assert_eq!(outcome.drops, [(format!("{node} timed-out"), 1)].into());
            assert_eq!(outcome.sent.values().map(Vec::len).sum::<usize>(), 2);
        }
    });
}

#[test]
fn vectors_of_fragments_in_any_order() {
    everywhere(|tier, text, _| {
        for burst in [1, 256] {
            let mut bench = bench(tier, &[tenant()]);
            let [first, later] = ["first fragment", "later fragment"].map(|name| packet(text, name).frame);
            // Half of the datagrams come in order, and of all, the parts lie far from each other.
            let halves = |odd: u16, frame: &[u8]| -> Vec<_> {
                (0..200).filter(|n| n % 2 == odd).map(|number| numbered(text, frame, number)).collect()
            };
            let frames =
                [halves(0, &first), halves(1, &later), halves(0, &later), halves(1, &first)].concat();
            let outcome = bench.run(2, &frames, burst);
            assert_eq!((outcome.drops.len(), outcome.sent.get(&3).map(Vec::len)), (0, Some(400)));
            assert_eq!(count(&bench, reassembly(text), "waited"), 100);
            assert_eq!(one(&mut bench).session.packets(), [400, 0]);
        }
    });
}

/// RFC 3128: one that would replace TCP's flags, when those are known to be there.
#[test]
fn what_would_replace_ports_or_flags_is_not_one() {
    everywhere(|tier, text, node| {
        let mut bench =
            bench(tier, &[Tenant { slow_path: SlowPath::untracked(SlowAction::Drop), ..tenant() }]);
        dropped(&mut bench, text, "tcp from its flags on", &format!("{node} too-short"));
        dropped(&mut bench, text, "tcp cut before its flags", &format!("{node} too-short"));
    });
}

#[test]
fn an_error_in_fragments_about_a_later_fragment_is_an_error() {
    everywhere(|tier, text, node| {
        let name = "first fragment of an error about a later fragment";
        let mut bench =
            bench(tier, &[Tenant { slow_path: SlowPath::untracked(SlowAction::Drop), ..tenant() }]);
        dropped(&mut bench, text, name, &format!("{node} unrelated-error"));
        set_tenants(&mut bench, &[tenant()]);
        pass(&mut bench, text, name);
        assert_eq!((count(&bench, node, "passed-errors"), seen(&mut bench).len()), (1, 0));
    });
}

#[test]
fn they_share_their_sessions_fate() {
    everywhere(|tier, text, _| {
        let (mut bench, _) = network(tier, vec![rule(Action::Deny)]);
        dropped(&mut bench, text, "first fragment", "acl denied");
        let (outcome, _) = send(&mut bench, text, "later fragment");
        assert_eq!(outcome.drops, [("acl denied".to_string(), 1)].into());
        assert_eq!(one(&mut bench).session.packets(), [2, 0], "it is the session's");
    });
}

#[test]
fn a_flood_takes_no_more_than_its_bounds_and_costs_others_nothing() {
    everywhere(|tier, text, _| {
        let node = reassembly(text);
        let mut bench = bench(tier, &[tenant()]);
        let row = packet(text, "later fragment");
        let frames: Vec<_> = (100..2100).map(|number| numbered(text, &row.frame, number)).collect();
        let outcome = bench.run(2, &frames, 256);
        assert!(outcome.sent.is_empty());
        assert_eq!(outcome.drops, [(format!("{node} too-many-waiting"), 2000 - 256)].into());
        pass(&mut bench, text, "first fragment");
        pass(&mut bench, text, "later fragment");
    });
}

/// Fragments that a device has told apart by ports that only the first one has.
#[test]
fn they_may_come_in_at_any_worker() {
    everywhere(|tier, text, _| {
        for seed in 1..5 {
            let mut workers = workers_of(tier, [seed; 4], &tenant());
            let row = |name| packet(text, name);
            let mut came = Vec::new();
            for (at, name) in [(0, "later fragment"), (1, "first fragment")] {
                let row = row(name);
                came.extend(workers[at].run(row.rx_if, &[row.frame], 1).sent.remove(&3).unwrap_or_default());
                // From the worker that it came in at to the one that knows the datagram, to the one that has the flow.
                for _ in 0..2 * WORKERS {
                    for worker in &mut workers {
                        worker.round();
                        worker.settle();
                        came.extend(worker.wires[&3].take());
                    }
                }
            }
            let sent = |name| {
                let Verdict::Sent(expected) = row(name).verdict else { panic!("{name}") };
                expected[0].1.clone()
            };
            assert_eq!(came, [sent("first fragment"), sent("later fragment")], "seed {seed}");
            let all: Vec<_> = workers.iter_mut().flat_map(seen).map(|seen| seen.session.packets()).collect();
            assert_eq!(all, [[2, 0]], "seed {seed}: one session has both");
        }
    });
}
