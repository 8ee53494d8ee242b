//! What a worker in the middle of a round can see.

use super::super::{Progress, Via};
use super::{Lab, via};
use crate::interface::LinkMode;
use crate::ip::NextHopKind;
use std::collections::BTreeSet;

/// A worker holds the snapshot of its round's beginning, while FIBs change under its hands: whatever they give it must
/// mean something in that snapshot.
#[test]
fn no_fib_gives_an_id_that_the_snapshot_of_a_round_lacks() {
    let mut lab = Lab::new();
    lab.interface(1, LinkMode::Ip, 0, &["10.0.1.1/24"]);
    lab.interface(2, LinkMode::Ip, 0, &["10.0.2.1/24"]);
    lab.route(0, "10.5.0.0/16", &[via("10.0.1.9")]);
    lab.settle();
    for round in 0..50u32 {
        // The worker is in a round ...
        let schema_hops = lab.schema.key::<crate::ip::NextHops>().unwrap();
        let held = lab.worker.tables().share(schema_hops);
        let other = format!("10.0.{}.{}", 1 + round % 2, 10 + round);
        lab.route(0, "10.5.0.0/16", &[via(&other)]);
        let progress = lab.commit();
        // ... and looks up a second time.
        let id = lab.id(lab.publisher.current(), 0, "10.5.0.1");
        assert_eq!(held.get(id).kind, NextHopKind::Rewrite, "round {round}, next hop {id}");
        assert_eq!(progress, Progress::Waiting { routes: 1 });
        drop(held);
        lab.worker.quiesce();
        assert_eq!(lab.commit(), Progress::Done);
        let found = lab.hop(0, "10.5.0.1").neighbour();
        assert_eq!(found, Some(other.parse().unwrap()), "round {round}");
    }
}

#[test]
fn an_id_is_used_again_only_when_no_worker_can_hold_it() {
    let mut lab = Lab::new();
    lab.interface(1, LinkMode::Ip, 0, &["10.0.1.1/24"]);
    lab.route(0, "10.5.0.0/16", &[via("10.0.1.9")]);
    lab.settle();
    let old = lab.id(lab.publisher.current(), 0, "10.5.0.1");
    lab.delete(0, "10.5.0.0/16");
    assert_eq!(lab.commit(), Progress::Done, "a withdrawal need not wait");
    assert_eq!(lab.hop(0, "10.5.0.1").kind, NextHopKind::NoRoute);
    // The worker may be just between its lookup, which gave the old id, and its rewrite.
    assert_eq!(lab.hops(lab.publisher.current()).get(old).kind, NextHopKind::Rewrite);
    lab.route(0, "10.6.0.0/16", &[via("10.0.1.10")]);
    lab.commit();
    assert_ne!(lab.forwarding.routes_to(0, super::prefix("10.6.0.0/16")).unwrap()[0].hop, old);
    lab.settle();
    lab.route(0, "10.7.0.0/16", &[via("10.0.1.11")]);
    assert_eq!(lab.forwarding.routes_to(0, super::prefix("10.7.0.0/16")).unwrap()[0].hop, old);
}

#[test]
fn ids_and_memory_don_t_run_out_over_time() {
    let mut lab = Lab::new();
    lab.interface(1, LinkMode::Ethernet, 0, &["10.0.1.1/24"]);
    lab.settle();
    let before = lab.forwarding.summary();
    let mut ids = BTreeSet::new();
    for n in 0..200u8 {
        lab.neighbour(1, "10.0.1.9", Some(n));
        lab.route(0, "10.5.0.0/16", &[via(&format!("10.0.1.{n}")), Via::Interface(1)]);
        lab.settle();
        ids.insert(lab.id(lab.publisher.current(), 0, "10.5.0.1"));
        lab.delete(0, "10.5.0.0/16");
        lab.neighbour(1, "10.0.1.9", None);
        lab.settle();
    }
    let after = lab.forwarding.summary();
    assert!(ids.len() < 10, "{ids:?}");
    assert_eq!((after.next_hops, after.path_sets), (before.next_hops, before.path_sets));
    assert!(after.bytes <= before.bytes + 64 * 1024, "{} -> {} bytes", before.bytes, after.bytes);
}
