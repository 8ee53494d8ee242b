//! A VRF whose table is full, and what that means for others.

use super::super::{Forwarding, ForwardingError, Progress, Via};
use super::{Lab, via};
use crate::interface::LinkMode;
use crate::ip::{NextHop, NextHopKind};
use graph::publish::Publisher;
use std::collections::BTreeSet;

/// Routes that a table of the smallest size has no room for: far apart, so that each takes nodes of its own.
const TOO_MANY: u32 = 20_000;

impl Lab {
    /// With tables of the smallest size, and VRF 1 full with routes that drop. Interfaces are 1 in VRF 0 and 2 in VRF 1.
    fn full() -> Self {
        let schema = crate::schema();
        let mut publisher = Publisher::new(&schema);
        let worker = publisher.reader();
        let forwarding = Forwarding::with_capacity(&schema, 1, 0).unwrap();
        let mut lab = Self { schema, publisher, worker, forwarding };
        lab.forwarding.create_vrf(1, "red", false).unwrap();
        lab.interface(1, LinkMode::Ip, 0, &["10.0.1.1/24"]);
        lab.interface(2, LinkMode::Ip, 1, &["10.0.2.1/24"]);
        lab.settle();
        lab.route(1, "10.5.0.0/16", &[via("10.0.2.9"), via("10.0.2.10")]);
        lab.route(1, "10.6.0.0/16", &[via("10.0.2.11")]);
        lab.settle();
        for n in 0..TOO_MANY {
            let address = core::net::Ipv4Addr::from((n * 3 + 0x1001) << 16 | 0x0100);
            lab.route(1, &format!("{address}/24"), &[Via::Blackhole]);
        }
        assert!(lab.settle_full(), "there is no room");
        lab
    }

    /// As [`Lab::settle`]. Whether a table is full.
    fn settle_full(&mut self) -> bool {
        let full = loop {
            match self.forwarding.commit(&mut self.publisher) {
                Ok(Progress::Waiting { .. }) => self.worker.quiesce(),
                Ok(Progress::Done) => break false,
                Err(ForwardingError::Table { vrf: 1, .. }) => break true,
                Err(error) => panic!("{error}"),
            }
        };
        while self.forwarding.reclaim(&self.publisher) {
            self.worker.quiesce();
        }
        full
    }

    /// Many next hops of VRF 0, one after the other. How many ids there are, and the highest number of an adjacency.
    fn churn(&mut self) -> (usize, u32) {
        for n in 0..10 {
            self.route(0, "10.9.0.0/16", &[via(&format!("10.0.1.{}", 20 + n)), via("10.0.1.200")]);
            self.settle_full();
        }
        let list = &self.hops(self.publisher.current()).list;
        (list.len(), list.iter().map(|hop| hop.adjacency).max().unwrap())
    }

    fn ids(&self, address: &str) -> Vec<u32> {
        let tables = self.publisher.current();
        let id = self.id(tables, 1, address);
        let hops = self.hops(tables);
        let hop = hops.get(id);
        let buckets = hop.first_bucket as usize..=(hop.first_bucket + u32::from(hop.bucket_mask)) as usize;
        let members = (hop.kind == NextHopKind::Group).then(|| hops.buckets[buckets].to_vec());
        core::iter::once(id).chain(members.into_iter().flatten()).collect()
    }

    fn ways(&self, address: &str) -> Vec<NextHop> {
        let hops = self.hops(self.publisher.current());
        let place = |hop: &NextHop| NextHop { first_bucket: 0, ..*hop };
        self.ids(address).into_iter().map(|id| place(hops.get(id))).collect()
    }
}

#[test]
fn a_full_vrf_keeps_no_next_hops_of_others() {
    let mut lab = Lab::full();
    let before = lab.churn();
    assert_eq!(lab.churn(), before, "ids and adjacencies are used again");
}

#[test]
fn what_a_full_table_still_leads_to_is_nobody_elses() {
    let mut lab = Lab::full();
    let (group, single) = (lab.ways("10.5.0.1"), lab.ways("10.6.0.1"));
    assert_eq!((group[0].kind, single[0].kind), (NextHopKind::Group, NextHopKind::Rewrite));
    // Refused: the entries stay as they are, though no route leads there any more.
    lab.route(1, "10.5.0.0/16", &[Via::Prohibit]);
    lab.route(1, "10.6.0.0/16", &[Via::Prohibit]);
    assert!(lab.settle_full());
    lab.churn();
    assert_eq!((lab.ways("10.5.0.1"), lab.ways("10.6.0.1")), (group.clone(), single.clone()));
    let hops = lab.hops(lab.publisher.current());
    for held in group.iter().chain(&single).filter(|hop| hop.adjacency != 0) {
        let others = hops.list.iter().filter(|hop| hop.adjacency == held.adjacency);
        assert!(others.clone().all(|hop| hop.neighbour() == held.neighbour()), "{held}");
    }
    // Once there is room, they are given up as all others.
    for n in 0..TOO_MANY {
        let address = core::net::Ipv4Addr::from((n * 3 + 0x1001) << 16 | 0x0100);
        lab.delete(1, &format!("{address}/24"));
    }
    assert!(!lab.settle_full());
    assert_eq!(lab.hop(1, "10.5.0.1").kind, NextHopKind::Prohibit);
    let in_use = lab.forwarding.summary().next_hops;
    let (ids, _) = lab.churn();
    let free = lab.hops(lab.publisher.current()).list.iter().filter(|hop| **hop == NextHop::default());
    assert!(free.count() >= 5, "{in_use} of {ids}");
}

#[test]
fn a_route_that_is_refused_again_and_again_is_missing_once() {
    let mut lab = Lab::full();
    lab.route(1, "10.7.7.0/24", &[via("10.0.2.12")]);
    assert!(lab.settle_full());
    assert!(lab.forwarding.unplaced().any(|(_, prefix, _)| prefix == super::prefix("10.7.7.0/24")));
    for _ in 0..4 {
        // Gone and there again before anybody looks.
        for up in [false, true] {
            let interface = super::interface(2, LinkMode::Ip, 1, &["10.0.2.1/24"]);
            let interface = crate::interface::Interface { up, ..interface };
            lab.forwarding.set_interface(2, Some(&interface)).unwrap();
        }
        assert!(lab.settle_full());
    }
    let missing = || lab.forwarding.unplaced().map(|(_, prefix, _)| prefix);
    assert_eq!(missing().count(), missing().collect::<BTreeSet<_>>().len());
}
