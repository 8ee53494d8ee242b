//! The text forms as people write and read them.
#![allow(clippy::unwrap_used)] // helpers of tests are tests too

use api::text::{Format, read_config, write};
use api::v1::interface::Port;
use api::v1::{
    BridgePort, Config, Interface, Memif, MemifRole, NextHop, PortSplit, ReversePathFilter, Route,
    RouteAction, Tap, Vlan,
};
use proptest::prelude::*;

const LAB: &str = r#"
[[interface]]
name = "pod-a"
memif = { socket = "@vpp/memif-eth0", id = 0, role = "server", mode = "ip", netns = "pod-a" }
addresses = ["10.0.0.1/24", "fd00::1/64"]
rpf = "strict"

[[interface]]
name = "pod-b"
admin_up = false
bridge = { name = "lan", split_horizon_group = 1, max_macs = 8 }
[interface.tap]
netns = "pod-b"
host_name = "eth0"
gso = false
host_routes = [{ prefix = "10.0.0.0/8", via = "10.0.1.1" }]

[[bridge]]
name = "lan"
learn = false
mac_age_seconds = 0

[[route]]
prefix = "192.0.2.0/24"
next_hops = [{ address = "10.0.0.2", weight = 3 }]

[[route]]
vrf = "red"
prefix = "::/0"
action = "blackhole"
"#;

#[test]
fn a_lab_file_is_read_as_it_is_meant() {
    let config = read_config(LAB, Format::Toml).unwrap();
    let [a, b] = &config.interfaces[..] else { panic!("two interfaces: {config:?}") };
    let Some(Port::Memif(memif)) = &a.port else { panic!("a memif: {a:?}") };
    assert_eq!(memif.role(), MemifRole::Server);
    assert_eq!(memif.socket, "@vpp/memif-eth0");
    assert_eq!(a.rpf(), ReversePathFilter::Strict);
    assert_eq!(a.admin_up, None);
    let Some(Port::Tap(tap)) = &b.port else { panic!("a tap: {b:?}") };
    assert_eq!(tap.gso, Some(false));
    assert_eq!(tap.host_routes[0].via, "10.0.1.1");
    assert_eq!(b.admin_up, Some(false));
    assert_eq!(config.bridges[0].mac_age_seconds, Some(0));
    assert_eq!(config.bridges[0].forward, None);
    assert_eq!(config.routes[1].action(), RouteAction::Blackhole);
}

#[test]
fn json_and_toml_say_the_same() {
    let config = read_config(LAB, Format::Toml).unwrap();
    for format in [Format::Toml, Format::Json] {
        let text = write(&config, format).unwrap();
        assert_eq!(Format::of_text(&text), format);
        assert_eq!(read_config(&text, format).unwrap(), config, "{text}");
    }
}

#[test]
fn json_has_the_ports_name_as_key() {
    let config = Config {
        interfaces: vec![Interface {
            name: "u.100".into(),
            port: Some(Port::Vlan(Vlan { parent: "u".into(), outer_id: 100, ..Vlan::default() })),
            ..Interface::default()
        }],
        ..Config::default()
    };
    let json = serde_json::to_value(&config).unwrap();
    assert_eq!(
        json,
        serde_json::json!({"interface": [{"name": "u.100", "vlan": {"parent": "u", "outer_id": 100}}]})
    );
}

/// What a mistake is answered with: the parts that help to find it.
#[test]
fn a_mistake_is_named_with_its_place() {
    for (text, parts) in [
        ("[[interface]]\nname = \"a\"\nadresses = []", &["line 3", "adresses", "addresses"][..]),
        ("[[interface]]\nname = \"a\"\nmemif = { sokcet = \"@x\" }", &["line 3", "sokcet", "socket"]),
        ("[[interface]]\nmemif = { role = \"master\" }", &["line 2", "master", "server", "client"]),
        ("[[interfaces]]\nname = \"a\"", &["line 1", "interfaces", "interface"]),
        ("[[interface]]\nname = \"a\"\nsink = {}\nloopback = {}", &["\"a\" has 2 ports: sink, loopback"]),
        ("[[interface]]\nname = \"a\"\nmtu = \"big\"", &["line 3", "mtu", "u32"]),
        ("[[interface]]\nname = \"a\"\nmtu = -1", &["line 3", "-1"]),
        ("[[bridge]]\nname = \"b\"\nmac_age = 3", &["line 3", "mac_age", "mac_age_seconds"]),
        ("[[route]\nprefix", &["line 1"]),
    ] {
        let error = read_config(text, Format::Toml).unwrap_err().to_string();
        for part in parts {
            assert!(error.contains(part), "{part:?} is missing in: {error}");
        }
    }
    let error = read_config("{\"route\": [{\"prefx\": \"::/0\"}]}", Format::Json).unwrap_err().to_string();
    assert!(error.contains("prefx") && error.contains("line 1"), "{error}");
}

fn any_interface() -> impl Strategy<Value = Interface> {
    let port = prop_oneof![
        ("[@/][a-z\"\\\\\n ]{1,9}", any::<u32>(), 0..3i32)
            .prop_map(|(socket, id, role)| Port::Memif(Memif { socket, id, role, ..Memif::default() })),
        (any::<Option<bool>>(), 0..3i32, prop::collection::vec(".{0,9}", 0..3)).prop_map(
            |(gso, mode, host_addresses)| Port::Tap(Tap { gso, mode, host_addresses, ..Tap::default() })
        ),
        Just(Port::Sink(api::v1::Sink {})),
    ];
    (
        ".{0,9}",
        prop::option::of(port),
        any::<Option<bool>>(),
        0..4i32,
        any::<u32>(),
        prop::option::of(("[a-z]{0,3}", any::<bool>())),
    )
        .prop_map(|(name, port, admin_up, rpf, mtu, bridge)| Interface {
            name,
            port,
            admin_up,
            rpf,
            mtu,
            bridge: bridge.map(|(name, bvi)| BridgePort {
                name,
                bvi,
                split_horizon_group: 0,
                max_macs: None,
            }),
            ..Interface::default()
        })
}

fn any_route() -> impl Strategy<Value = Route> {
    let hop = |(address, weight): (String, u32)| NextHop { address, weight, ..NextHop::default() };
    let hops = prop::collection::vec((".{0,9}", any::<u32>()).prop_map(hop), 0..3);
    let split = (
        prop::collection::vec(".{0,9}", 0..3),
        prop::option::of((".{0,9}", any::<u32>()).prop_map(hop)),
        0..3i32,
    )
        .prop_map(|(ports, next_hop, without_peer)| PortSplit { ports, next_hop, without_peer });
    (".{0,5}", ".{0,9}", hops, 0..5i32, prop::option::of(split)).prop_map(
        |(vrf, prefix, next_hops, action, port_split)| Route { vrf, prefix, next_hops, action, port_split },
    )
}

proptest! {
    /// Whatever can be said in messages can be written and comes back the same.
    #[test]
    fn every_config_comes_back(
        interfaces in prop::collection::vec(any_interface(), 0..4),
        routes in prop::collection::vec(any_route(), 0..4),
    ) {
        let config = Config { interfaces, routes, ..Config::default() };
        for format in [Format::Toml, Format::Json] {
            let text = write(&config, format).unwrap();
            prop_assert_eq!(&read_config(&text, format).unwrap(), &config, "{}", text);
        }
    }

    /// No text makes the reader panic.
    #[test]
    fn any_text_is_answered(text in ".{0,200}") {
        for format in [Format::Toml, Format::Json] {
            let _ = read_config(&text, format);
        }
    }
}
