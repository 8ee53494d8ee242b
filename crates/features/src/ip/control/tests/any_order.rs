//! Objects may arrive in any order: what workers find depends on what there is, not on how it came about.

use super::super::{Path, Prefix, Via};
use super::{Lab, interface};
use crate::interface::{Interface, LinkMode};
use crate::ip::{NextHop, NextHopKind};
use core::net::IpAddr;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use wire::MacAddr;

/// What there can be.
#[derive(Clone, Debug, PartialEq)]
enum Object {
    Vrf(u16),
    /// Index, VRF, third octet of its network, whether it is up, whether it has link-layer headers.
    Interface(u16, u16, u8, bool, bool),
    /// Interface, third and last octet of its address, last octet of its MAC address.
    Neighbour(u16, u8, u8, u8),
    /// VRF, second octet, whether it is a /24 instead of a /16, ways.
    Route(u16, u8, bool, Vec<Way>),
}

#[derive(Clone, Debug, PartialEq)]
enum Way {
    Address(u8, u8),
    On(u16, u8, u8),
    Out(u16),
    Vrf(u16),
    Blackhole,
}

/// What tells one object from another of its kind: a later one replaces an earlier one.
fn name(object: &Object) -> String {
    match object {
        Object::Vrf(vrf) => format!("vrf {vrf}"),
        Object::Interface(index, ..) => format!("interface {index}"),
        Object::Neighbour(index, net, host, _) => format!("neighbour {index} {net} {host}"),
        Object::Route(vrf, net, long, _) => format!("route {vrf} {net} {long}"),
    }
}

fn ip(text: String) -> IpAddr {
    text.parse().unwrap()
}

impl Way {
    fn path(&self) -> Path {
        Path::from(match self {
            Self::Address(net, host) => {
                Via::Address { address: ip(format!("10.0.{net}.{host}")), interface: None }
            }
            Self::On(index, net, host) => {
                Via::Address { address: ip(format!("10.0.{net}.{host}")), interface: Some(*index) }
            }
            Self::Out(index) => Via::Interface(*index),
            Self::Vrf(vrf) => Via::Vrf(*vrf),
            Self::Blackhole => Via::Blackhole,
        })
    }
}

fn destination(net: u8, long: bool) -> Prefix {
    Prefix::covering(ip(format!("10.{net}.3.0")), if long { 24 } else { 16 }).unwrap()
}

impl Lab {
    /// Makes, changes or (`!there`) removes an object. What the tables refuse (a VRF in use, an interface in a VRF that
    /// isn't there) is left as it was; false then.
    fn put(&mut self, object: &Object, there: bool) -> bool {
        let forwarding = &mut self.forwarding;
        match object {
            Object::Vrf(vrf) if there => forwarding.create_vrf(*vrf, "vrf", false).is_ok(),
            Object::Vrf(vrf) => forwarding.delete_vrf(*vrf).is_ok(),
            Object::Interface(index, vrf, net, up, ethernet) => {
                let mode = if *ethernet { LinkMode::Ethernet } else { LinkMode::Ip };
                let link = interface(*index, mode, *vrf, &[&format!("10.0.{net}.1/24")]);
                let link = Interface { up: *up, ..link };
                forwarding.set_interface(*index, there.then_some(&link)).is_ok()
            }
            Object::Neighbour(index, net, host, mac) => {
                let mac = there.then_some(MacAddr([2, 0, 0, 0, 0, *mac]));
                forwarding.set_neighbour(*index, ip(format!("10.0.{net}.{host}")), mac).is_ok()
            }
            Object::Route(vrf, net, long, ways) => {
                let paths: Vec<Path> = ways.iter().map(Way::path).collect();
                let prefix = destination(*net, *long);
                if there {
                    forwarding.add_route(*vrf, prefix, &paths).is_ok()
                } else {
                    forwarding.delete_route(*vrf, prefix).is_ok()
                }
            }
        }
    }

    /// Where packets to all the addresses in question go; of a group, all ways.
    fn outcome(&self) -> BTreeMap<(u16, IpAddr), BTreeSet<String>> {
        let tables = self.publisher.current();
        let hops = self.hops(tables);
        let fibs = tables.get(self.schema.key::<crate::ip::Fibs>().unwrap());
        let nets = (0..8u8).flat_map(|net| [(net, 3, 7), (net, 4, 7)]);
        let hosts = (0..4u8).flat_map(|net| [0, 1, 2, 3, 255].map(|host| (0, net, host)));
        let addresses: Vec<_> = nets.chain(hosts).map(|(a, b, c)| ip(format!("10.{a}.{b}.{c}"))).collect();
        let mut all = BTreeMap::new();
        for (vrf, address) in (0..4).flat_map(|vrf| addresses.iter().map(move |a| (vrf, *a))) {
            let Some(vrf_tables) = fibs.get(vrf) else { continue };
            let IpAddr::V4(bits) = address else { continue };
            let hop = hops.get(vrf_tables.v4.lookup(bits.to_bits()).0);
            let ways = match hop.kind {
                NextHopKind::Group => {
                    let buckets = 0..=u32::from(hop.bucket_mask);
                    buckets.map(|hash| show(hops.get(hops.choose(hop, hash)))).collect()
                }
                _ => BTreeSet::from([show(hop)]),
            };
            all.insert((vrf, address), ways);
        }
        all
    }
}

fn show(hop: &NextHop) -> String {
    hop.to_string()
}

fn way() -> impl Strategy<Value = Way> {
    prop_oneof![
        4 => (0..4u8, 2..4u8).prop_map(|(net, host)| Way::Address(net, host)),
        2 => (1..4u16, 0..4u8, 2..4u8).prop_map(|(index, net, host)| Way::On(index, net, host)),
        1 => (1..4u16).prop_map(Way::Out),
        1 => (0..3u16).prop_map(Way::Vrf),
        1 => Just(Way::Blackhole),
    ]
}

fn object() -> impl Strategy<Value = Object> {
    prop_oneof![
        1 => (1..3u16).prop_map(Object::Vrf),
        3 => (1..4u16, 0..3u16, 0..4u8, any::<bool>(), any::<bool>())
            .prop_map(|(index, vrf, net, up, ethernet)| Object::Interface(index, vrf, net, up, ethernet)),
        3 => (1..4u16, 0..4u8, 2..4u8, 0..2u8)
            .prop_map(|(index, net, host, mac)| Object::Neighbour(index, net, host, mac)),
        5 => (0..3u16, 0..4u8, any::<bool>(), proptest::collection::vec(way(), 1..4))
            .prop_map(|(vrf, net, long, ways)| Object::Route(vrf, net, long, ways)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]
    #[test]
    fn what_workers_find_depends_only_on_what_there_is(
        changes in proptest::collection::vec((object(), 0..4u8, any::<bool>()), 1..60),
    ) {
        let mut lab = Lab::new();
        let mut objects: BTreeMap<String, Object> = BTreeMap::new();
        for (object, chance, settle) in &changes {
            let there = *chance > 0;
            if lab.put(object, there) {
                if there {
                    objects.insert(name(object), object.clone());
                } else {
                    objects.remove(&name(object));
                    // What goes along with it.
                    objects.retain(|_, other| match (object, other) {
                        (Object::Vrf(gone), Object::Route(vrf, ..)) => vrf != gone,
                        (Object::Interface(gone, ..), Object::Neighbour(index, ..)) => index != gone,
                        _ => true,
                    });
                }
            }
            if *settle {
                lab.settle();
            } else {
                lab.commit();
            }
        }
        lab.settle();

        // The same, made at once: VRFs, then interfaces, then the others as their names come.
        let mut anew = Lab::new();
        let rank = |object: &Object| match object {
            Object::Vrf(_) => 0,
            Object::Interface(..) => 1,
            _ => 2,
        };
        let mut sorted: Vec<&Object> = objects.values().collect();
        sorted.sort_by_key(|object| rank(object));
        for object in sorted {
            prop_assert!(anew.put(object, true), "{object:?}");
        }
        anew.settle();
        prop_assert_eq!(lab.outcome(), anew.outcome());
        let (ours, theirs) = (lab.forwarding.summary(), anew.forwarding.summary());
        prop_assert_eq!((ours.v4_routes, ours.path_sets), (theirs.v4_routes, theirs.path_sets));
        prop_assert_eq!(ours.next_hops, theirs.next_hops);
    }
}
