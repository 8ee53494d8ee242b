//! What follows from what.

use super::super::{Forwarding, ForwardingError, Origin, Path, Pending, RouteState, Via};
use super::{Lab, interface, prefix, via};
use crate::interface::{Interface, LinkMode};
use crate::ip::NextHopKind;

#[test]
fn addresses_bring_their_networks_and_take_them_away() {
    let mut lab = Lab::new();
    lab.interface(1, LinkMode::Ethernet, 0, &["10.0.1.1/24", "10.9.9.9/32", "10.8.0.0/31", "2001:db8::1/64"]);
    lab.settle();
    let kind = |lab: &Lab, address| lab.hop(0, address).kind;
    for address in ["10.0.1.1", "10.9.9.9", "10.8.0.0", "2001:db8::1"] {
        assert_eq!(kind(&lab, address), NextHopKind::Local, "{address}");
    }
    for address in ["10.0.1.2", "10.8.0.1", "2001:db8::2", "2001:db8::ffff:ffff:ffff:ffff"] {
        assert_eq!(kind(&lab, address), NextHopKind::Glean, "{address}");
    }
    for address in ["10.0.1.0", "10.0.1.255"] {
        assert_eq!(kind(&lab, address), NextHopKind::Blackhole, "{address}");
    }
    lab.interface(1, LinkMode::Ethernet, 0, &["10.0.1.3/25"]);
    lab.settle();
    for (address, expected) in [
        ("10.0.1.1", NextHopKind::Glean),
        ("10.0.1.3", NextHopKind::Local),
        ("10.0.1.127", NextHopKind::Blackhole),
        ("10.0.1.255", NextHopKind::NoRoute),
        ("10.9.9.9", NextHopKind::NoRoute),
        ("2001:db8::1", NextHopKind::NoRoute),
    ] {
        assert_eq!(kind(&lab, address), expected, "{address}");
    }
    lab.forwarding.set_interface(1, None).unwrap();
    lab.settle();
    assert_eq!(kind(&lab, "10.0.1.3"), NextHopKind::NoRoute);
    let summary = lab.forwarding.summary();
    assert_eq!(
        (summary.v4_routes, summary.v6_routes, summary.next_hops),
        (1, 1, 1),
        "link-local ones are left"
    );
}

#[test]
fn a_route_waits_for_the_network_of_its_router_and_falls_back_without_it() {
    let mut lab = Lab::new();
    lab.interface(1, LinkMode::Ethernet, 0, &["10.0.1.1/24"]);
    lab.route(0, "10.0.0.0/8", &[via("10.0.1.9")]);
    let state = lab.forwarding.add_route(0, prefix("10.5.0.0/16"), &[via("10.0.2.9").into()]).unwrap();
    assert_eq!(state, RouteState::Pending(Pending::NotConnected("10.0.2.9".parse().unwrap())));
    lab.settle();
    assert_eq!(lab.hop(0, "10.5.0.1").tx_if, 1, "the shorter prefix is used meanwhile");
    lab.interface(2, LinkMode::Ethernet, 0, &["10.0.2.1/24"]);
    lab.settle();
    assert_eq!(lab.hop(0, "10.5.0.1").tx_if, 2);
    let down = Interface { up: false, ..interface(2, LinkMode::Ethernet, 0, &["10.0.2.1/24"]) };
    lab.forwarding.set_interface(2, Some(&down)).unwrap();
    lab.settle();
    assert_eq!(lab.hop(0, "10.5.0.1").tx_if, 1);
    assert_eq!(lab.hop(0, "10.0.2.1").tx_if, 1, "an address of an interface that is down is no longer ours");
    let views = lab.forwarding.routes_to(0, prefix("10.5.0.0/16")).unwrap();
    assert_eq!((views.len(), views[0].used), (1, false));
}

#[test]
fn a_neighbour_that_moves_takes_all_its_routes_along_and_no_fib_changes() {
    let mut lab = Lab::new();
    lab.interface(1, LinkMode::Ethernet, 0, &["10.0.1.1/24"]);
    for n in 0..100 {
        lab.route(0, &format!("10.1.{n}.0/24"), &[via("10.0.1.9")]);
    }
    lab.settle();
    let before = lab.id(lab.publisher.current(), 0, "10.1.7.1");
    assert_eq!(lab.hop(0, "10.1.7.1").kind, NextHopKind::Resolve);
    for (mac, kind) in
        [(Some(7), NextHopKind::Rewrite), (Some(8), NextHopKind::Rewrite), (None, NextHopKind::Resolve)]
    {
        lab.neighbour(1, "10.0.1.9", mac);
        lab.settle();
        for address in ["10.1.0.1", "10.1.99.1"] {
            let hop = lab.hop(0, address);
            assert_eq!(hop.kind, kind);
            let header = [2, 0, 0, 0, 0, mac.unwrap_or(0), 2, 0xfe, 0, 0, 0, 1, 8, 0];
            assert!(kind == NextHopKind::Resolve || hop.header[..14] == header, "{:02x?}", hop.header);
        }
        let direct = lab.hop(0, "10.0.1.9");
        let expected = if mac.is_some() { NextHopKind::Rewrite } else { NextHopKind::Glean };
        assert_eq!((direct.kind, direct.tx_if), (expected, 1), "the neighbour itself");
    }
    assert_eq!(lab.id(lab.publisher.current(), 0, "10.1.7.1"), before);
}

#[test]
fn of_several_routes_the_preferred_one_that_leads_somewhere_is_used() {
    let mut lab = Lab::new();
    lab.interface(1, LinkMode::Ethernet, 0, &["10.0.1.1/24"]);
    lab.interface(2, LinkMode::Ethernet, 0, &["10.0.2.1/24"]);
    lab.neighbour(1, "10.0.1.9", Some(9));
    lab.route(0, "10.0.1.9/32", &[via("10.0.2.9")]);
    lab.route(0, "10.0.1.0/24", &[via("10.0.2.9")]);
    lab.route(0, "10.0.1.1/32", &[Via::Blackhole]);
    lab.settle();
    assert_eq!(lab.hop(0, "10.0.1.9").tx_if, 2, "what is configured, before what was learned");
    assert_eq!(lab.hop(0, "10.0.1.10").tx_if, 1, "the connected network, before what is configured");
    assert_eq!(lab.hop(0, "10.0.1.1").kind, NextHopKind::Local);
    let origins = lab.forwarding.routes_to(0, prefix("10.0.1.9/32")).unwrap();
    let origins: Vec<_> = origins.iter().map(|view| (view.origin, view.used, view.interface)).collect();
    assert_eq!(origins, [(Origin::Static, true, None), (Origin::Neighbour, false, Some(1))]);
    lab.delete(0, "10.0.1.9/32");
    lab.delete(0, "10.0.1.0/24");
    lab.settle();
    assert_eq!(lab.hop(0, "10.0.1.9").tx_if, 1);
    assert!(!lab.forwarding.delete_route(0, prefix("10.0.1.0/24")).unwrap(), "it is gone");
    assert_eq!(lab.hop(0, "10.0.1.10").tx_if, 1, "and the connected network isn't");
}

#[test]
fn interfaces_without_neighbours_need_none() {
    let mut lab = Lab::new();
    lab.interface(3, LinkMode::Ip, 0, &["10.0.3.1/24", "2001:db8:3::1/64"]);
    lab.route(0, "0.0.0.0/0", &[via("10.0.3.9")]);
    lab.route(0, "10.3.0.0/16", &[Via::Interface(3)]);
    lab.settle();
    for address in ["192.0.2.1", "10.3.0.1", "10.0.3.255", "2001:db8:3::9"] {
        let hop = lab.hop(0, address);
        assert_eq!((hop.kind, hop.header_len, hop.tx_if), (NextHopKind::Rewrite, 0, 3), "{address}");
    }
}

#[test]
fn flows_are_shared_by_weight_and_stay_when_another_way_is_lost() {
    let mut lab = Lab::new();
    for index in 1..=3 {
        lab.interface(index, LinkMode::Ip, 0, &[&format!("10.0.{index}.1/24")]);
    }
    let paths = [1, 2, 3].map(|n| Path { via: via(&format!("10.0.{n}.9")), weight: n });
    lab.forwarding.add_route(0, prefix("10.1.0.0/16"), &paths).unwrap();
    lab.settle();
    let ways = |lab: &Lab| -> Vec<u16> {
        let tables = lab.publisher.current();
        let (hops, group) = (lab.hops(tables), lab.hop(0, "10.1.0.1"));
        assert_eq!(group.kind, NextHopKind::Group);
        (0..6000).map(|hash| hops.get(hops.choose(&group, hash)).tx_if).collect()
    };
    let before = ways(&lab);
    let count = |ways: &[u16], index| ways.iter().filter(|way| **way == index).count();
    for (index, share) in [(1, 1000), (2, 2000), (3, 3000usize)] {
        assert!(count(&before, index).abs_diff(share) < 100, "interface {index}: {}", count(&before, index));
    }
    let down = Interface { up: false, ..interface(3, LinkMode::Ip, 0, &["10.0.3.1/24"]) };
    lab.forwarding.set_interface(3, Some(&down)).unwrap();
    lab.settle();
    let after = ways(&lab);
    assert_eq!(count(&after, 3), 0);
    assert!(before.iter().zip(&after).all(|(before, after)| before == after || *before == 3));
    for index in 1..=2 {
        lab.forwarding.set_interface(index, None).unwrap();
    }
    lab.settle();
    assert_eq!(lab.hop(0, "10.1.0.1").kind, NextHopKind::NoRoute);
}

#[test]
fn vrfs_lead_into_each_other_when_they_are_there() {
    let mut lab = Lab::new();
    lab.route(0, "10.6.0.0/16", &[Via::Vrf(7)]);
    lab.settle();
    assert_eq!(lab.hop(0, "10.6.0.1").kind, NextHopKind::NoRoute);
    lab.forwarding.create_vrf(7, "green", true).unwrap();
    lab.interface(1, LinkMode::Ethernet, 7, &["10.0.1.1/24"]);
    lab.route(7, "10.6.0.0/16", &[via("10.0.1.9")]);
    lab.settle();
    assert_eq!((lab.hop(0, "10.6.0.1").kind, lab.hop(0, "10.6.0.1").vrf), (NextHopKind::LookupIn, 7));
    assert_eq!(lab.hop(7, "10.6.0.1").tx_if, 1);
    assert_eq!(lab.hop(0, "10.0.1.1").kind, NextHopKind::NoRoute, "VRFs are apart");
    assert_eq!(
        lab.explain(0, "10.6.0.1"),
        [
            "VRF 0: 10.6.0.0/16 static",
            "vrf 7: look up in VRF 7",
            "VRF 7: 10.6.0.0/16 static",
            "via 10.0.1.9: resolve on interface 1 to 10.0.1.9, MTU 1500"
        ]
    );
    let used = lab.forwarding.delete_vrf(7);
    assert_eq!(used, Err(ForwardingError::VrfInUse { vrf: 7, interface: 1 }));
    lab.interface(1, LinkMode::Ethernet, 0, &["10.0.1.1/24"]);
    lab.forwarding.delete_vrf(7).unwrap();
    lab.settle();
    assert_eq!(lab.hop(0, "10.6.0.1").kind, NextHopKind::NoRoute);
    assert_eq!(lab.hop(0, "10.0.1.1").kind, NextHopKind::Local, "the interface has moved");
}

#[test]
fn link_local_addresses_are_known_by_link() {
    let mut lab = Lab::new();
    lab.interface(1, LinkMode::Ethernet, 0, &["fe80::1/64"]);
    lab.interface(2, LinkMode::Ethernet, 0, &["2001:db8::1/64"]);
    lab.interface(3, LinkMode::Ip, 0, &["10.0.0.1/24"]);
    lab.neighbour(2, "fe80::9", Some(9));
    lab.settle();
    let kind = |lab: &Lab, index, address| lab.scoped(index, address).kind;
    assert_eq!(kind(&lab, 1, "fe80::1"), NextHopKind::Local);
    assert_eq!(kind(&lab, 2, "fe80::fe:ff:fe00:2"), NextHopKind::Local, "made from the MAC address");
    assert_eq!(kind(&lab, 2, "fe80::1"), NextHopKind::Glean, "another link's address");
    assert_eq!(lab.scoped(2, "fe80::9").header[..6], [2, 0, 0, 0, 0, 9]);
    assert_eq!(kind(&lab, 1, "fe80::9"), NextHopKind::Glean);
    assert_eq!(kind(&lab, 3, "fe80::9"), NextHopKind::NoRoute, "no IPv6 there");
    assert_eq!(lab.hop(0, "fe80::1").kind, NextHopKind::LinkLocal);
    lab.route(0, "0.0.0.0/0", &[Via::Blackhole]);
    lab.settle();
    assert_eq!(lab.hop(0, "169.254.7.7").kind, NextHopKind::LinkLocal, "no default route leads there");
    lab.route(0, "169.254.0.0/16", &[Via::Unreachable]);
    lab.settle();
    assert_eq!(lab.hop(0, "169.254.7.7").kind, NextHopKind::Unreachable, "one of its own does");
    lab.neighbour(2, "fe80::9", None);
    lab.forwarding.set_interface(1, None).unwrap();
    lab.settle();
    assert_eq!(kind(&lab, 2, "fe80::9"), NextHopKind::Glean);
    assert_eq!(kind(&lab, 1, "fe80::1"), NextHopKind::NoRoute);
}

#[test]
fn a_lookup_is_explained_in_words() {
    let mut lab = Lab::new();
    lab.interface(1, LinkMode::Ethernet, 0, &["10.0.1.1/24"]);
    lab.interface(2, LinkMode::Ip, 0, &["10.0.2.1/24"]);
    lab.neighbour(1, "10.0.1.9", Some(9));
    let paths = [(via("10.0.1.9"), 1), (via("10.0.2.9"), 3), (via("10.0.4.9"), 1)];
    let paths = paths.map(|(via, weight)| Path { via, weight });
    lab.forwarding.add_route(0, prefix("10.1.0.0/16"), &paths).unwrap();
    assert_eq!(
        lab.explain(0, "10.1.0.1"),
        [
            "VRF 0: 10.1.0.0/16 static",
            "via 10.0.1.9 weight 1 (16/64): send by interface 1 to 10.0.1.9 behind 02000000000902fe000000010800, \
             MTU 1500",
            "via 10.0.2.9 weight 3 (48/64): send by interface 2 to 10.0.2.9, MTU 1500",
            "via 10.0.4.9 weight 1 (0/64): pending, no connected network contains 10.0.4.9",
        ]
    );
    assert_eq!(lab.explain(0, "192.0.2.1"), ["VRF 0: no route"]);
    assert_eq!(
        lab.explain(0, "10.0.1.1"),
        ["VRF 0: 10.0.1.1/32 local", "local, interface 1: deliver here, interface 1"]
    );
    assert_eq!(
        lab.forwarding.explain(3, "10.0.0.1".parse().unwrap()),
        Err(ForwardingError::NoVrf { vrf: 3 })
    );
}

#[test]
fn what_cannot_be_is_refused_by_name_and_changes_nothing() {
    let mut lab = Lab::new();
    lab.route(0, "10.0.0.0/8", &[Via::Blackhole]);
    let before = lab.forwarding.summary();
    let mut refuse = |vrf, paths: &[Path], message: &str| {
        let error = lab.forwarding.add_route(vrf, prefix("10.0.0.0/8"), paths).unwrap_err();
        assert_eq!(error.to_string(), message);
    };
    refuse(0, &[], "route 10.0.0.0/8 has no next hop: give one, or `blackhole`");
    refuse(9, &[Via::Blackhole.into()], "VRF 9 doesn't exist: create it first");
    refuse(
        0,
        &[via("2001:db8::1").into()],
        "route 10.0.0.0/8 via 2001:db8::1: the next hop must be of the same IP version",
    );
    refuse(
        0,
        &[via("10.0.0.1").into(), Via::Prohibit.into()],
        "route 10.0.0.0/8: `prohibit` must be the only next hop",
    );
    let weight = Path { via: via("10.0.0.1"), weight: 0 };
    refuse(0, &[weight], "route 10.0.0.0/8 via 10.0.0.1: the weight must be from 1 to 65535");
    refuse(0, &[Via::Vrf(0).into()], "route 10.0.0.0/8: it leads into VRF 0, where it is already");
    let many: Vec<Path> = (0..1025).map(|n| via(&format!("10.0.{}.{}", n / 256, n % 256)).into()).collect();
    refuse(0, &many, "route 10.0.0.0/8 has 1025 next hops: at most 1024 are possible");
    let bad = interface(1, LinkMode::Ethernet, 0, &["10.0.0.1/33"]);
    let errors = [
        lab.forwarding.set_interface(0, None).unwrap_err(),
        lab.forwarding.set_interface(1, Some(&bad)).unwrap_err(),
        lab.forwarding.set_interface(1, Some(&interface(1, LinkMode::Ethernet, 4, &[]))).unwrap_err(),
        lab.forwarding.set_neighbour(1, "10.0.0.1".parse().unwrap(), None).unwrap_err(),
        lab.forwarding.create_vrf(0, "again", false).unwrap_err(),
        lab.forwarding.delete_vrf(0).unwrap_err(),
        lab.forwarding.delete_vrf(5).unwrap_err(),
    ];
    let text: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        text,
        [
            "interface 0 is reserved: number interfaces from 1",
            "address 10.0.0.1/33 of interface 1: the prefix length is beyond the address",
            "VRF 4 doesn't exist: create it first",
            "interface 1 doesn't exist: create it first",
            "VRF 0 exists already: delete it first, or use another number",
            "VRF 0, `default`, can't be deleted",
            "VRF 5 doesn't exist: create it first",
        ]
    );
    assert_eq!(lab.forwarding.summary(), before);
}

#[test]
fn tables_without_its_parts_are_refused() {
    let error = Forwarding::new(&graph::publish::Schema::default()).unwrap_err();
    assert_eq!(error, ForwardingError::Schema);
}
