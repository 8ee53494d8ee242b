//! Whom next hops lead to, and that counts are those of nobody else.

use super::{Lab, via};
use crate::interface::LinkMode;
use crate::ip::{NextHopKind, Traffic};

impl Lab {
    /// A worker sends packets by the next hop that it finds for an address.
    fn send(&self, address: &str, packets: u64) {
        let hop = self.hop(0, address);
        assert_eq!(hop.kind, NextHopKind::Rewrite, "{address}");
        let tally = self.hops(self.publisher.current()).tallies.of(0);
        tally.add(hop.adjacency, packets, packets * 64);
    }

    /// Interface, neighbour, and packets sent there.
    fn adjacencies(&self) -> Vec<(u16, String, u64)> {
        let views = self.forwarding.adjacencies().list().into_iter();
        let neighbour = |view: &crate::ip::control::AdjacencyView| {
            view.hop.neighbour().map_or("-".into(), |it| it.to_string())
        };
        views.map(|view| (view.hop.tx_if, neighbour(&view), view.sent.packets)).collect()
    }

    fn number(&self, address: &str) -> u32 {
        self.hop(0, address).adjacency
    }
}

fn row(interface: u16, neighbour: &str, packets: u64) -> (u16, String, u64) {
    (interface, neighbour.into(), packets)
}

#[test]
fn routes_to_one_neighbour_are_counted_together_whatever_their_vrf_or_family() {
    let mut lab = Lab::new();
    lab.forwarding.create_vrf(1, "red", false).unwrap();
    lab.interface(1, LinkMode::Ethernet, 0, &["10.0.1.1/24"]);
    lab.interface(2, LinkMode::Ip, 0, &["10.0.2.1/24"]);
    lab.neighbour(1, "10.0.1.9", Some(9));
    lab.route(0, "10.1.0.0/16", &[via("10.0.1.9")]);
    lab.route(0, "10.2.0.0/16", &[via("10.0.1.9"), via("10.0.2.9")]);
    lab.route(
        1,
        "10.1.0.0/16",
        &[super::Via::Address { address: "10.0.1.9".parse().unwrap(), interface: Some(1) }],
    );
    lab.settle();
    lab.send("10.1.0.1", 3);
    lab.send("10.0.1.9", 4);
    lab.send("10.0.2.7", 5);
    assert_eq!(lab.adjacencies(), [row(1, "10.0.1.9", 7), row(2, "-", 5), row(2, "10.0.2.9", 0)]);
    let views = lab.forwarding.adjacencies().list();
    assert_eq!(views[0].sent, Traffic { packets: 7, bytes: 7 * 64 });
    lab.forwarding.adjacencies().clear();
    lab.send("10.1.0.1", 1);
    assert_eq!(lab.adjacencies(), [row(1, "10.0.1.9", 1), row(2, "-", 0), row(2, "10.0.2.9", 0)]);
}

#[test]
fn a_neighbour_that_is_asked_for_again_keeps_its_counts() {
    let mut lab = Lab::new();
    lab.interface(1, LinkMode::Ethernet, 0, &["10.0.1.1/24"]);
    lab.route(0, "10.1.0.0/16", &[via("10.0.1.9")]);
    for (round, mac) in [7, 8, 9].into_iter().enumerate() {
        lab.neighbour(1, "10.0.1.9", Some(mac));
        lab.settle();
        lab.send("10.1.0.1", 1);
        lab.neighbour(1, "10.0.1.9", None);
        lab.settle();
        assert_eq!(lab.hop(0, "10.1.0.1").kind, NextHopKind::Resolve);
        assert_eq!(lab.adjacencies(), [row(1, "10.0.1.9", 1 + round as u64)]);
    }
}

#[test]
fn who_comes_back_begins_at_zero() {
    let mut lab = Lab::new();
    lab.interface(1, LinkMode::Ip, 0, &["10.0.1.1/24"]);
    lab.route(0, "10.5.0.0/16", &[via("10.0.1.9")]);
    lab.settle();
    lab.send("10.5.0.1", 7);
    lab.delete(0, "10.5.0.0/16");
    // At once: no worker has passed a boundary.
    lab.route(0, "10.5.0.0/16", &[via("10.0.1.9")]);
    lab.settle();
    assert_eq!(lab.adjacencies(), [row(1, "-", 0), row(1, "10.0.1.9", 0)]);
}

#[test]
fn a_number_is_used_again_only_when_no_worker_can_count_by_it_and_then_begins_at_zero() {
    let mut lab = Lab::new();
    lab.interface(1, LinkMode::Ip, 0, &["10.0.1.1/24"]);
    lab.route(0, "10.5.0.0/16", &[via("10.0.1.9")]);
    lab.settle();
    let (old, held) = (lab.number("10.5.0.1"), lab.hop(0, "10.5.0.1"));
    let snapshot = lab.worker.tables().share(lab.schema.key::<crate::ip::NextHops>().unwrap());
    lab.delete(0, "10.5.0.0/16");
    lab.commit();
    // The worker may be between its lookup, which gave the old next hop, and its rewrite.
    lab.route(0, "10.6.0.0/16", &[via("10.0.1.10")]);
    lab.commit();
    snapshot.tallies.of(0).add(held.adjacency, 5, 320);
    drop(snapshot);
    lab.settle();
    assert_ne!(lab.number("10.6.0.1"), old);
    assert_eq!(lab.adjacencies(), [row(1, "-", 0), row(1, "10.0.1.10", 0)]);
    lab.route(0, "10.7.0.0/16", &[via("10.0.1.11")]);
    lab.settle();
    assert_eq!(lab.number("10.7.0.1"), old, "the lowest that is free");
    assert_eq!(lab.adjacencies(), [row(1, "-", 0), row(1, "10.0.1.10", 0), row(1, "10.0.1.11", 0)]);
    lab.send("10.7.0.1", 1);
    assert_eq!(lab.adjacencies()[2], row(1, "10.0.1.11", 1));
}

#[test]
fn a_next_hop_that_leads_elsewhere_counts_elsewhere() {
    let mut lab = Lab::new();
    lab.interface(1, LinkMode::Ip, 0, &["10.0.1.1/24"]);
    lab.route(0, "10.5.0.0/16", &[via("10.0.1.9")]);
    lab.settle();
    let id = lab.id(lab.publisher.current(), 0, "10.5.0.1");
    lab.send("10.5.0.1", 7);
    // The network moves to another interface: the same id, another neighbour.
    lab.interface(1, LinkMode::Ip, 0, &[]);
    lab.interface(2, LinkMode::Ip, 0, &["10.0.1.1/24"]);
    lab.settle();
    assert_eq!(lab.id(lab.publisher.current(), 0, "10.5.0.1"), id);
    assert_eq!(lab.adjacencies(), [row(2, "-", 0), row(2, "10.0.1.9", 0)]);
    // Nobody leads there any more.
    lab.interface(2, LinkMode::Ip, 0, &[]);
    lab.settle();
    assert_eq!(lab.adjacencies(), []);
}

#[test]
fn numbers_don_t_run_out_over_time() {
    let mut lab = Lab::new();
    lab.interface(1, LinkMode::Ip, 0, &["10.0.0.1/16"]);
    lab.settle();
    for round in 0..2000_u32 {
        lab.route(0, "10.5.0.0/16", &[via(&format!("10.0.{}.{}", round / 200, 10 + round % 200))]);
        lab.settle();
        assert!(lab.number("10.5.0.1") < 8, "round {round}");
    }
    // More than a page at a time.
    for n in 0..600_u32 {
        lab.route(
            0,
            &format!("10.6.{}.{}/32", n / 256, n % 256),
            &[via(&format!("10.0.{}.{}", 1 + n / 200, 10 + n % 200))],
        );
    }
    lab.settle();
    (0..600_u32).for_each(|n| lab.send(&format!("10.6.{}.{}", n / 256, n % 256), u64::from(n) + 1));
    let sent: Vec<u64> = lab.adjacencies().iter().map(|row| row.2).filter(|packets| *packets > 0).collect();
    assert_eq!(
        sent.iter().collect::<std::collections::BTreeSet<_>>().len(),
        600,
        "each has counters of its own"
    );
}
