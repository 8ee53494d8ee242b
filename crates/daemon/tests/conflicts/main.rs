//! Objects that are right by themselves but not together. Every conflict is found in either order of arrival and in
//! one batch.
//!
//! * here: how that is seen, and interfaces and what is routed and bridged between them; `sessions`: tenants, pools, VIPs, endpoints; `classes`: tenants whose
//!   sessions are others';
//! * `references`: objects that name others.
#![allow(clippy::unwrap_used)] // helpers of tests are tests too

mod classes;
#[path = "../common/mod.rs"]
mod common;
mod references;
mod sessions;

use api::v1::{ApplyRequest, Config};
use common::{World, apply, config, controller, outcome, upserts};

/// (what, first objects, second objects, the second's refusal when it comes last: name, field, part of the reason)
type Row = (&'static str, &'static str, &'static str, &'static str, &'static str, &'static str);

const TABLE: &[Row] = &[
    (
        "an address twice in a VRF",
        "[[interface]]\nname = \"a\"\nsink = {}\naddresses = [\"10.0.0.1/24\"]",
        "[[interface]]\nname = \"b\"\nsink = {}\naddresses = [\"10.0.0.1/32\"]",
        "b",
        "addresses",
        "10.0.0.1 is already an address of interface a in the same VRF",
    ),
    (
        "a network twice in a VRF",
        "[[interface]]\nname = \"a\"\nsink = {}\naddresses = [\"fd00::1/64\"]",
        "[[interface]]\nname = \"b\"\nsink = {}\naddresses = [\"fd00::2/64\"]",
        "b",
        "addresses",
        "fd00::/64 is already the network of interface a",
    ),
    (
        "an id twice on a socket",
        "[[interface]]\nname = \"a\"\nmemif = { socket = \"@x\", id = 3 }",
        "[[interface]]\nname = \"b\"\nmemif = { socket = \"@x\", id = 3 }",
        "b",
        "memif.id",
        "id 3 on the memif socket @x is already taken by interface a",
    ),
    (
        "both roles on a socket",
        "[[interface]]\nname = \"a\"\nmemif = { socket = \"/run/x\", id = 3 }",
        "[[interface]]\nname = \"b\"\nmemif = { socket = \"/run/x\", id = 4, role = \"client\" }",
        "b",
        "memif.role",
        "interface a has the other role on /run/x",
    ),
    (
        "two quotas of a socket",
        "[[interface]]\nname = \"a\"\nmemif = { socket = \"@x\", socket_max_descriptors = 100 }",
        "[[interface]]\nname = \"b\"\nmemif = { socket = \"@x\", id = 1 }",
        "b",
        "memif.socket_max_descriptors",
        "interface a has another for @x",
    ),
    (
        "two quotas of memory of a socket",
        "[[interface]]\nname = \"a\"\nmemif = { socket = \"@x\", socket_max_memory = 1048576 }",
        "[[interface]]\nname = \"b\"\nmemif = { socket = \"@x\", id = 1 }",
        "b",
        "memif.socket_max_memory",
        "interface a has another for @x",
    ),
    (
        "buffers of two sizes in a trust group",
        "[[interface]]\nname = \"a\"\nmemif = { socket = \"/run/x\", role = \"client\", trust_group = \"g\" }",
        "[[interface]]\nname = \"b\"\nmemif = { socket = \"/run/y\", role = \"client\", trust_group = \"g\", buffer_size = 4096 }",
        "b",
        "memif.buffer_size",
        "interface a has another size in trust group g",
    ),
    (
        "two that take what nothing else does",
        "[[interface]]\nname = \"a\"\nmemif = { socket = \"/run/x\", mode = \"punt_inject\" }",
        "[[interface]]\nname = \"b\"\nmemif = { socket = \"/run/y\", mode = \"punt_inject\" }",
        "b",
        "memif.mode",
        "interface a is punt-inject in the same VRF already",
    ),
    (
        "a device twice",
        "[[interface]]\nname = \"a\"\ntap = { netns = \"pod\", host_name = \"eth0\" }",
        "[[interface]]\nname = \"b\"\naf_packet = { netns = \"/run/netns/pod\", host_interface = \"eth0\" }",
        "b",
        "",
        "the device eth0 in pod is already taken by interface a",
    ),
    (
        "a VLAN twice",
        "[[interface]]\nname = \"a.1\"\nvlan = { parent = \"a\", outer_id = 7 }",
        "[[interface]]\nname = \"a.2\"\nvlan = { parent = \"a\", outer_id = 7 }",
        "a.2",
        "vlan.outer_id",
        "VLAN 7 of a is already taken by interface a.1",
    ),
    (
        // Both the role and, of necessity, the id: told once.
        "two roles for one id of a socket",
        "[[interface]]\nname = \"a\"\nmemif = { socket = \"@x\" }",
        "[[interface]]\nname = \"b\"\nmemif = { socket = \"@x\", role = \"client\" }",
        "b",
        "memif.role",
        "interface a has the other role on @x",
    ),
    (
        "a file written twice",
        "[[interface]]\nname = \"a\"\npcap = { tx_file = \"/tmp/x\" }",
        "[[interface]]\nname = \"b\"\npcap = { tx_file = \"/tmp/x\" }",
        "b",
        "pcap.tx_file",
        "the file /tmp/x is already taken",
    ),
    (
        "a vlan on a vlan",
        "[[interface]]\nname = \"a\"\nvlan = { parent = \"x\", outer_id = 7 }",
        "[[interface]]\nname = \"b\"\nvlan = { parent = \"a\", outer_id = 7 }",
        "b",
        "vlan.parent",
        "interface a is a vlan itself",
    ),
    (
        "a tunnel twice",
        "[[interface]]\nname = \"a\"\nvxlan = { local = \"10.0.0.1\", remote = \"10.0.0.2\", vni = 7 }",
        "[[interface]]\nname = \"b\"\nvxlan = { local = \"10.0.0.1\", remote = \"10.0.0.2\", vni = 7 }",
        "b",
        "",
        "vni 7 from 10.0.0.1 to 10.0.0.2 port 4789 in VRF default is already taken by interface a",
    ),
    (
        "two formats on a port",
        "[[interface]]\nname = \"a\"\nvxlan = { local = \"10.0.0.1\", remote = \"10.0.0.2\", vni = 7 }",
        "[[interface]]\nname = \"b\"\ngeneve = { local = \"10.0.0.1\", remote = \"10.0.0.3\", port = 4789 }",
        "b",
        "geneve.port",
        "4789 of 10.0.0.1 is that of interface a, of another format",
    ),
    (
        "a tunnel to ourselves",
        "[[interface]]\nname = \"a\"\naddresses = [\"10.0.0.2/24\"]\nsink = {}",
        "[[interface]]\nname = \"b\"\nvxlan = { local = \"10.0.0.1\", remote = \"10.0.0.2\", vni = 7 }",
        "b",
        "vxlan.remote",
        "10.0.0.2 is an own address, of interface a",
    ),
    (
        "a tunnel through a tunnel",
        "[[interface]]\nname = \"a\"\naddresses = [\"10.0.0.1/24\"]\nvxlan = { local = \"10.1.0.1\", remote = \"10.1.0.2\" }",
        "[[interface]]\nname = \"b\"\nvxlan = { local = \"10.0.0.1\", remote = \"10.0.0.2\", vni = 7 }",
        "b",
        "vxlan.local",
        "10.0.0.1 is an address of a, which is a tunnel",
    ),
    (
        "a tunnel that doesn't fit",
        "[[interface]]\nname = \"a\"\naddresses = [\"10.0.0.1/24\"]\nsink = {}",
        "[[interface]]\nname = \"b\"\nmtu = 1451\nvxlan = { local = \"10.0.0.1\", remote = \"10.0.0.2\", vni = 7 }",
        "b",
        "mtu",
        "1451 takes 1501 with the tunnel's headers, and that of a is 1500",
    ),
    (
        "a tunnel's vlan that doesn't fit",
        "[[interface]]\nname = \"a\"\naddresses = [\"10.0.0.1/24\"]\nsink = {}\n\
         [[interface]]\nname = \"b\"\nvxlan = { local = \"10.0.0.1\", remote = \"10.0.0.2\", vni = 7 }",
        "[[interface]]\nname = \"c\"\nmtu = 1443\nvlan = { parent = \"b\", outer_id = 7, inner_id = 8 }",
        "c",
        "mtu",
        "1443 takes 1501 with the tunnel's headers, and that of a is 1500",
    ),
    (
        "a vlan of a tunnel that is too small for IPv6",
        "[[interface]]\nname = \"a\"\nmtu = 1280\nvxlan = { local = \"10.0.0.1\", remote = \"10.0.0.2\", vni = 7 }",
        "[[interface]]\nname = \"b\"\naddresses = [\"fd00::1/64\"]\nvlan = { parent = \"a\", outer_id = 7 }",
        "b",
        "mtu",
        "1276 is too small for IPv6",
    ),
    (
        "a vlan on IP packets",
        "[[interface]]\nname = \"a\"\ntap = { mode = \"tun\" }",
        "[[interface]]\nname = \"b\"\nvlan = { parent = \"a\", outer_id = 7 }",
        "b",
        "vlan.parent",
        "carries IP packets",
    ),
    (
        "two routed legs",
        "[[interface]]\nname = \"a\"\nloopback = {}\nbridge = { name = \"lan\", bvi = true }",
        "[[interface]]\nname = \"b\"\nloopback = {}\nbridge = { name = \"lan\", bvi = true }",
        "b",
        "bridge.bvi",
        "interface a is already the routed leg of bridge lan",
    ),
    (
        "an Ethernet address twice in a bridge",
        "[[interface]]\nname = \"a\"\nsink = {}\nmac = \"02:00:00:00:00:01\"\nbridge = { name = \"lan\" }",
        "[[interface]]\nname = \"b\"\nsink = {}\nmac = \"02:00:00:00:00:01\"\nbridge = { name = \"lan\" }",
        "b",
        "mac",
        "02:00:00:00:00:01 is already the address of interface a in bridge lan",
    ),
    (
        "the address of the routed leg as a fixed one",
        "[[interface]]\nname = \"a\"\nloopback = {}\nmac = \"02:00:00:00:00:01\"\nbridge = { name = \"lan\", bvi = true }",
        "[[bridge]]\nname = \"lan\"\nstatic_macs = [{ mac = \"02:00:00:00:00:01\", drop = true }]",
        "lan",
        "static_macs",
        "02:00:00:00:00:01 is the address of the routed leg a",
    ),
    (
        "a cross-connect to a third",
        "[[interface]]\nname = \"a\"\nsink = {}\ncross_connect = \"c\"",
        "[[interface]]\nname = \"b\"\nsink = {}\ncross_connect = \"c\"",
        "b",
        "cross_connect",
        "c is already cross-connected to interface a",
    ),
    (
        "a chain of cross-connects",
        "[[interface]]\nname = \"a\"\nsink = {}\ncross_connect = \"c\"",
        "[[interface]]\nname = \"b\"\nsink = {}\ncross_connect = \"a\"",
        "b",
        "cross_connect",
        "a is cross-connected to c",
    ),
    (
        "a cross-connect to a bridge member",
        "[[interface]]\nname = \"a\"\nsink = {}\nbridge = { name = \"lan\" }",
        "[[interface]]\nname = \"b\"\nsink = {}\ncross_connect = \"a\"",
        "b",
        "cross_connect",
        "a is a member of bridge lan",
    ),
    (
        "a cross-connect to a routed interface",
        "[[interface]]\nname = \"a\"\nsink = {}\naddresses = [\"10.0.0.1/24\"]",
        "[[interface]]\nname = \"b\"\nsink = {}\ncross_connect = \"a\"",
        "b",
        "cross_connect",
        "a has addresses",
    ),
    (
        "a cross-connect between frames and packets",
        "[[interface]]\nname = \"a\"\ntap = { mode = \"tun\" }",
        "[[interface]]\nname = \"b\"\nsink = {}\ncross_connect = \"a\"",
        "b",
        "cross_connect",
        "or the reverse",
    ),
    (
        "a VRF number twice",
        "[[vrf]]\nname = \"blue\"\nid = 7",
        "[[vrf]]\nname = \"red\"\nid = 7",
        "red",
        "id",
        "7 is that of vrf blue",
    ),
    (
        "a neighbour with our own address",
        "[[interface]]\nname = \"a\"\nsink = {}\naddresses = [\"10.0.0.1/24\"]",
        "[[neighbor]]\ninterface = \"a\"\naddress = \"10.0.0.1\"\nmac = \"02:00:00:00:00:01\"",
        "a/10.0.0.1",
        "address",
        "is the own address of interface a",
    ),
    (
        "a neighbour without Ethernet",
        "[[interface]]\nname = \"a\"\nmemif = { socket = \"@x\", mode = \"ip\" }",
        "[[neighbor]]\ninterface = \"a\"\naddress = \"10.0.0.1\"\nmac = \"02:00:00:00:00:01\"",
        "a/10.0.0.1",
        "address",
        "interface a has no Ethernet",
    ),
];

fn all() -> impl Iterator<Item = &'static Row> {
    TABLE.iter().chain(sessions::TABLE)
}

#[test]
fn the_later_one_is_refused_and_says_why() {
    for (what, first, second, name, field, reason) in all() {
        let (directory, world) = (tempfile::tempdir().unwrap(), World::default());
        let mut controller = controller(directory.path(), &world);
        apply(&mut controller, &upserts(first));
        let response = controller.apply(&upserts(second)).unwrap();
        assert!(!response.committed, "{what}: accepted");
        let answer = outcome(&response, name);
        assert!(answer.starts_with(&format!("refused {field}: ")), "{what}: {answer}");
        assert!(answer.contains(reason), "{what}: {answer}");
        assert_eq!(response.generation, 1, "{what}");
    }
}

#[test]
fn order_does_not_help() {
    for (what, first, second, ..) in all() {
        let (directory, world) = (tempfile::tempdir().unwrap(), World::default());
        let mut controller = controller(directory.path(), &world);
        apply(&mut controller, &upserts(second));
        let response = controller.apply(&upserts(first)).unwrap();
        assert!(!response.committed, "{what}: accepted in reverse order");
        let both = upserts(&format!("{first}\n{second}"));
        let response = controller.apply(&both).unwrap();
        assert!(!response.committed, "{what}: accepted together");
    }
}

#[test]
fn what_looks_alike_but_is_not_the_same_is_accepted() {
    let accepted = [
        // other VRFs, link-local addresses, hosts within a network
        "[[vrf]]\nname = \"red\"
         [[interface]]\nname = \"a\"\nsink = {}\naddresses = [\"10.0.0.1/24\", \"fe80::1/64\", \"169.254.1.1/32\"]
         [[interface]]\nname = \"b\"\nsink = {}\naddresses = [\"10.0.0.1/24\"]\nvrf = \"red\"
         [[interface]]\nname = \"c\"\nsink = {}\naddresses = [\"10.0.0.2/32\", \"fe80::1/64\", \"169.254.1.1/32\"]",
        // one socket for several interfaces, the same abstract name in two namespaces in two roles
        "[[interface]]\nname = \"a\"\nmemif = { socket = \"@x\", id = 1 }
         [[interface]]\nname = \"b\"\nmemif = { socket = \"@x\", id = 2 }
         [[interface]]\nname = \"c\"\nmemif = { socket = \"@x\", id = 1, role = \"client\", netns = \"pod\" }",
        // both sides of a cross-connect name each other; QinQ beside a single tag
        "[[interface]]\nname = \"a\"\nsink = {}\ncross_connect = \"b\"
         [[interface]]\nname = \"b\"\nsink = {}\ncross_connect = \"a\"
         [[interface]]\nname = \"a.7\"\nvlan = { parent = \"a\", outer_id = 7 }
         [[interface]]\nname = \"a.7.1\"\nvlan = { parent = \"a\", outer_id = 7, inner_id = 1 }",
        // a bridge with a routed leg
        "[[bridge]]\nname = \"lan\"
         [[interface]]\nname = \"bvi\"\nloopback = {}\naddresses = [\"10.0.0.1/24\"]\nbridge = { name = \"lan\", bvi = true }
         [[interface]]\nname = \"a\"\nsink = {}\nbridge = { name = \"lan\" }",
        // one address with several ports and protocols, and in two address spaces; an interface of another one
        "[[vip]]\nname = \"a\"\naddress = \"10.96.0.1\"\nport = 53
         [[vip]]\nname = \"b\"\naddress = \"10.96.0.1\"\nport = 53\nprotocol = \"udp\"
         [[vip]]\nname = \"c\"\naddress = \"10.96.0.1\"\nport = 54\nbackends = [{ address = \"10.96.0.1\", port = 55 }]
         [[vip]]\nname = \"d\"\naddress = \"10.96.0.1\"\nport = 53\ncontext = 7
         [[tenant]]\nname = \"blue\"\ncontext = 9\ninterfaces = [\"a\"]
         [[interface]]\nname = \"a\"\nsink = {}\naddresses = [\"10.96.0.1/24\"]",
        // one address in two address spaces, and neighbours of it
        "[[nat_pool]]\nname = \"a\"\naddresses = [\"192.0.2.1\", \"192.0.2.3-192.0.2.4\"]
         [[nat_pool]]\nname = \"b\"\naddresses = [\"192.0.2.2\", \"192.0.2.5\", \"192.0.2.0-192.0.2.0\"]
         [[nat_pool]]\nname = \"c\"\naddresses = [\"192.0.2.0/24\"]\ncontext = 7",
        // a VIP at a pool's address, at ports that it gives nobody, and in another address space
        "[[nat_pool]]\nname = \"out\"\naddresses = [\"192.0.2.1\"]
         mappings = [{ inside = \"10.0.0.2\", outside = \"192.0.2.1\", outside_port = 53, protocol = \"udp\" }]
         [[vip]]\nname = \"a\"\naddress = \"192.0.2.1\"\nport = 53
         [[vip]]\nname = \"b\"\naddress = \"192.0.2.1\"\nport = 8080\ncontext = 7
         [[vip]]\nname = \"c\"\naddress = \"192.0.2.2\"\nport = 8080",
    ];
    for toml in accepted {
        let (directory, world) = (tempfile::tempdir().unwrap(), World::default());
        let mut controller = controller(directory.path(), &world);
        let response = apply(&mut controller, &upserts(toml));
        assert_eq!(response.counts.unwrap().pending, 0, "{:#?}", response.results);
    }
}

#[test]
fn a_conflict_can_be_resolved_and_exchanged_in_one_batch() {
    let (directory, world) = (tempfile::tempdir().unwrap(), World::default());
    let mut controller = controller(directory.path(), &world);
    let lab = |a: &str, b: &str, id_a: u32, id_b: u32| {
        config(&format!(
            "[[interface]]\nname = \"a\"\nmemif = {{ socket = \"@x\", id = {id_a} }}\naddresses = [\"{a}\"]
             [[interface]]\nname = \"b\"\nmemif = {{ socket = \"@x\", id = {id_b} }}\naddresses = [\"{b}\"]"
        ))
    };
    let batch = |upserts: Config| ApplyRequest { upserts: Some(upserts), ..ApplyRequest::default() };
    apply(&mut controller, &batch(lab("10.0.0.1/24", "10.0.1.1/24", 1, 2)));
    // The referee would object to any state in between that has an address or an id twice.
    apply(&mut controller, &batch(lab("10.0.1.1/24", "10.0.0.1/24", 2, 1)));
}
