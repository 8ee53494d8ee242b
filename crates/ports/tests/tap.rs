//! Taps of the real kernel, in network namespaces made here.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::{Joined, Namespace, PATIENCE, Side, link_becomes, receive, root, send};
use graph::port::{Quota, RxMode};
use ipnet::IpNet;
use quiver_ports::generator::{self, GeneratorOptions};
use quiver_ports::link::{self, HostRoute, LinkInfo, LinkOptions};
use quiver_ports::tap::{self, TapMode, TapOptions};
use quiver_ports::{LinkLayer, LinkState, Netns, PortError};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use wire::MacAddr;

const OURS: MacAddr = MacAddr([2, 0xfe, 0, 0, 0, 1]);
const THEIRS: MacAddr = MacAddr([2, 0xfe, 0, 0, 0, 2]);

fn options(namespace: &Namespace, address: &str) -> TapOptions {
    TapOptions {
        host: LinkOptions {
            mac: Some(THEIRS),
            mtu: Some(1400),
            addresses: vec![address.parse::<IpNet>().unwrap()],
            routes: vec![],
        },
        ..TapOptions::new(namespace.netns(), "eth0")
    }
}

/// RFC 826, as scapy writes it: `Ether(src=..., dst="ff:ff:ff:ff:ff:ff")/ARP(op=1, hwsrc=..., psrc="10.9.0.1",
/// pdst="10.9.0.2")`.
const ARP_REQUEST: [u8; 42] = [
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0xfe, 0, 0, 0, 1, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1, 2, 0xfe, 0, 0, 0,
    1, 10, 9, 0, 1, 0, 0, 0, 0, 0, 0, 10, 9, 0, 2,
];

#[test]
fn the_kernel_answers_arp_through_the_queues() {
    if !root("tap and ARP") {
        return;
    }
    let namespace = Namespace::new("arp");
    let mut port = tap::open(&options(&namespace, "10.9.0.2/24")).unwrap();
    assert_eq!((port.facts.mac, port.facts.mtu, port.facts.link), (Some(THEIRS), 1400, LinkLayer::Ethernet));
    assert!(port.facts.offload);
    assert_eq!(port.link.state(), LinkState::Up);
    let sent = send(&mut *port.tx[0], &ARP_REQUEST);
    assert_eq!((sent.packets, sent.bytes), (1, 42));
    let reply = receive(&mut *port.rx[0], |frame| frame[12..14] == [8, 6] && frame[21] == 2);
    let mut expected = ARP_REQUEST;
    expected[..6].copy_from_slice(&OURS.0);
    expected[6..12].copy_from_slice(&THEIRS.0);
    expected[21] = 2;
    expected[22..28].copy_from_slice(&THEIRS.0);
    expected[28..32].copy_from_slice(&[10, 9, 0, 2]);
    expected[32..38].copy_from_slice(&OURS.0);
    expected[38..42].copy_from_slice(&[10, 9, 0, 1]);
    assert_eq!(reply, expected);
}

#[test]
fn a_malformed_frame_is_refused_and_a_device_set_down_is_down() {
    if !root("tap and refused frames") {
        return;
    }
    let namespace = Namespace::new("refuse");
    let mut port = tap::open(&options(&namespace, "10.9.0.2/24")).unwrap();
    let sent = send(&mut *port.tx[0], &ARP_REQUEST[..13]);
    assert_eq!((sent.packets, sent.stop), (0, graph::port::Stop::Refused), "shorter than an Ethernet header");
    namespace.run(&["ip", "link", "set", "eth0", "down"]);
    link_becomes(&port, LinkState::Down);
    let sent = send(&mut *port.tx[0], &ARP_REQUEST);
    assert_eq!((sent.packets, sent.stop), (0, graph::port::Stop::Down));
    namespace.run(&["ip", "link", "set", "eth0", "up"]);
    link_becomes(&port, LinkState::Up);
    namespace.run(&["ip", "link", "del", "eth0"]);
    link_becomes(&port, LinkState::Gone);
    let mut packets = memory::packet::Packets::new();
    let fault = port.rx[0].receive(common::SCALAR, &mut packets, 0, Quota::packets(1)).unwrap_err();
    assert!(fault.reason.contains("eth0") && fault.reason.contains("deleted"), "{fault}");
}

#[test]
fn a_tun_carries_ip_packets_and_has_its_routes() {
    if !root("tun") {
        return;
    }
    let namespace = Namespace::new("tun");
    let mut options = TapOptions { mode: TapMode::Tun, ..options(&namespace, "10.9.0.2/32") };
    options.host.mac = None;
    options.host.addresses.push("fd09::2/128".parse().unwrap());
    options.host.routes = vec![
        HostRoute::default_via("169.254.1.1".parse().unwrap()),
        HostRoute { prefix: "fd0a::7/64".parse().unwrap(), via: None },
    ];
    let mut port = tap::open(&options).unwrap();
    assert_eq!((port.facts.mac, port.facts.link), (None, LinkLayer::Ip));
    let routes = namespace.run(&["ip", "route"]);
    assert!(routes.contains("default via 169.254.1.1 dev eth0"), "{routes}");
    let routes = namespace.run(&["ip", "-6", "route"]);
    assert!(routes.contains("fd0a::/64 dev eth0"), "{routes}");

    let child = namespace
        .command(&["ping", "-c", "1", "-W", "20", "192.0.2.7"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut request = receive(&mut *port.rx[0], |packet| packet[0] == 0x45 && packet[9] == 1);
    assert_eq!(request[12..20], [10, 9, 0, 2, 192, 0, 2, 7]);
    // The answer: addresses exchanged (IPv4's checksum stays right), type 0 instead of 8 (RFC 792, RFC 1624).
    request[12..20].copy_from_slice(&[192, 0, 2, 7, 10, 9, 0, 2]);
    request[20] = 0;
    let checksum = u16::from_be_bytes([request[22], request[23]]);
    request[22..24].copy_from_slice(&wire::checksum::update_u16(checksum, 0x0800, 0).to_be_bytes());
    assert_eq!(send(&mut *port.tx[0], &request).packets, 1);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "ping got its answer");

    namespace.command(&["ping", "-6", "-c", "1", "-W", "1", "fd0a::1"]).output().unwrap();
    let request =
        receive(&mut *port.rx[0], |packet| packet[0] >> 4 == 6 && packet[6] == 58 && packet[40] == 128);
    assert_eq!(
        request[8..10],
        [0xfd, 0x09],
        "no neighbour discovery, no wait for duplicate address detection"
    );
}

/// A device whose queues were just closed, when it has none: a process that another test is starting holds them, too, until it has started.
fn released(options: &TapOptions) -> LinkInfo {
    let since = Instant::now();
    loop {
        let link = link::get(&options.netns, "eth0").unwrap().unwrap();
        if link.tun.unwrap().queues == 0 || since.elapsed() > PATIENCE {
            return link;
        }
        std::thread::yield_now();
    }
}

#[test]
fn a_persistent_device_is_taken_over_and_removed_in_the_end() {
    if !root("persistent tap") {
        return;
    }
    let namespace = Namespace::new("persist");
    let options = TapOptions { persist: true, ..options(&namespace, "10.9.0.2/24") };
    let port = tap::open(&options).unwrap();
    let index = port.facts.host_ifindex;
    let error = tap::open(&options).unwrap_err();
    assert!(matches!(error, PortError::InUse { .. }), "{error}");
    drop(port);
    let left = released(&options);
    assert!(
        left.up && !left.carrier && left.tun.unwrap().persist && left.tun.unwrap().queues == 0,
        "{left:?}"
    );
    namespace.run(&["ip", "addr", "add", "10.9.7.7/32", "dev", "eth0"]);

    // Held while it is opened again with other queues, it never loses its link.
    let port = tap::open(&options).unwrap();
    let control = port.control;
    drop((port.rx, port.tx));
    let held = control.hold().unwrap();
    let left = released(&options);
    assert!(left.up && left.carrier && left.tun.unwrap().queues == 0, "{left:?}");
    let port = tap::open(&TapOptions { rx_queues: 2, ..options.clone() }).unwrap();
    drop(held);
    assert_eq!(link::get(&options.netns, "eth0").unwrap().unwrap().tun.unwrap().queues, 2);
    drop(port);
    released(&options);

    let wider = TapOptions { rx_queues: 3, tx_queues: 4, ..options.clone() };
    let port = tap::open(&wider).unwrap();
    assert_eq!((port.facts.host_ifindex, port.rx.len(), port.tx.len()), (index, 3, 4));
    // What the kernel has told of the queues that were closed before may still be on its way.
    link_becomes(&port, LinkState::Up);
    assert_eq!(link::get(&options.netns, "eth0").unwrap().unwrap().tun.unwrap().queues, 3);
    let addresses = namespace.run(&["ip", "addr", "show", "eth0"]);
    assert!(addresses.contains("10.9.7.7/32") && addresses.contains("10.9.0.2/24"), "{addresses}");
    port.control.remove().unwrap();
    assert_eq!(link::get(&options.netns, "eth0").unwrap(), None);
}

#[test]
fn what_was_ours_and_is_no_more_wanted_goes_and_what_others_added_stays() {
    if !root("tap that changes") {
        return;
    }
    let namespace = Namespace::new("former");
    let route = |prefix: &str, via: Option<&str>| HostRoute {
        prefix: prefix.parse().unwrap(),
        via: via.map(|via| via.parse().unwrap()),
    };
    let mut options = TapOptions { persist: true, ..options(&namespace, "10.9.0.2/24") };
    options.host.addresses.push("fd09::2/64".parse().unwrap());
    options.host.routes = vec![
        HostRoute::default_via("10.9.0.1".parse().unwrap()),
        route("10.8.0.0/16", Some("10.9.0.1")),
        route("fd0a::/64", None),
    ];
    drop(tap::open(&options).unwrap());
    namespace.run(&["ip", "addr", "add", "10.7.7.7/32", "dev", "eth0"]);
    namespace.run(&["ip", "route", "add", "10.6.0.0/16", "dev", "eth0"]);
    // Gone by other means: no error.
    namespace.run(&["ip", "route", "del", "10.8.0.0/16"]);
    let host = LinkOptions {
        // In the same network as the one that goes, which the kernel would have made a secondary one.
        addresses: vec!["10.9.0.3/24".parse().unwrap()],
        routes: vec![HostRoute::default_via("10.9.0.9".parse().unwrap())],
        mtu: Some(1300),
        ..LinkOptions::default()
    };
    let former = std::mem::replace(&mut options.host, host);
    let _port = tap::open(&TapOptions { former, ..options }).unwrap();
    let addresses = namespace.run(&["ip", "addr", "show", "eth0"]);
    assert!(addresses.contains("10.9.0.3/24") && addresses.contains("10.7.7.7/32"), "{addresses}");
    assert!(!addresses.contains("10.9.0.2/") && !addresses.contains("fd09::2"), "{addresses}");
    assert!(addresses.contains("mtu 1300"), "{addresses}");
    let routes = namespace.run(&["ip", "route"]) + &namespace.run(&["ip", "-6", "route"]);
    assert!(routes.contains("default via 10.9.0.9") && routes.contains("10.6.0.0/16"), "{routes}");
    assert!(!routes.contains("10.9.0.1 ") && !routes.contains("fd0a::"), "{routes}");
}

#[test]
fn a_device_that_is_not_persistent_ends_with_its_port() {
    if !root("tap that ends") {
        return;
    }
    let namespace = Namespace::new("ends");
    let port = tap::open(&options(&namespace, "10.9.0.2/24")).unwrap();
    drop(port);
    // A program that another test starts at this moment has our descriptors until it runs.
    let patience = Instant::now() + Duration::from_secs(10);
    while link::get(&namespace.netns(), "eth0").unwrap().is_some() {
        assert!(Instant::now() < patience, "the device is still there");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn what_cannot_be_opened_is_explained() {
    if !root("tap errors") {
        return;
    }
    let namespace = Namespace::new("errors");
    let good = options(&namespace, "10.9.0.2/24");
    let missing = TapOptions { netns: Netns::Named("qvt-none".into()), ..good.clone() };
    let error = tap::open(&missing).unwrap_err().to_string();
    assert!(error.contains("ip netns add qvt-none"), "{error}");

    namespace.run(&["ip", "link", "add", "eth0", "type", "veth", "peer", "name", "eth1"]);
    let error = tap::open(&good).unwrap_err().to_string();
    assert!(error.contains("eth0") && error.contains("neither tap nor tun"), "{error}");
    namespace.run(&["ip", "link", "del", "eth0"]);
    namespace.run(&["ip", "tuntap", "add", "eth0", "mode", "tun", "multi_queue"]);
    let error = tap::open(&good).unwrap_err().to_string();
    assert!(error.contains("a tun device of this name exists"), "{error}");
    namespace.run(&["ip", "link", "del", "eth0"]);

    let mut bad = TapOptions { persist: true, ..good.clone() };
    bad.host.routes = vec![HostRoute::default_via("10.9.0.2".parse().unwrap())];
    let error = tap::open(&bad).unwrap_err().to_string();
    assert!(error.contains("route to 0.0.0.0/0"), "a gateway that is our own address: {error}");
    assert_eq!(link::get(&good.netns, "eth0").unwrap(), None, "what failed leaves nothing behind");
}

/// TCP between two namespaces: the kernel hands us super-frames, and takes them.
fn transfer(gso: bool) -> (usize, usize) {
    let (a, b) = (Namespace::new("tcp-a"), Namespace::new("tcp-b"));
    let mut options_a = TapOptions { gso, ..options(&a, "10.9.0.1/24") };
    options_a.host.mac = Some(OURS);
    options_a.host.addresses.push("fd09::1/64".parse().unwrap());
    let mut options_b = TapOptions { gso, ..options(&b, "10.9.0.2/24") };
    options_b.host.addresses.push("fd09::2/64".parse().unwrap());
    let (mut port_a, mut port_b) = (tap::open(&options_a).unwrap(), tap::open(&options_b).unwrap());
    let side = |port| Side::new(port, "tap-input", "tap-tx");
    let mut joined = Joined::new([side(&mut port_a), side(&mut port_b)]);
    joined.while_running(|| {
        b.run(&["ping", "-c", "2", "-i", "0.2", "-W", "5", "10.9.0.1"]);
        b.run(&["ping", "-c", "2", "-i", "0.2", "-W", "5", "-s", "4000", "fd09::1"]);
        for address in ["10.9.0.1", "fd09::1"] {
            common::transfer(&a, &b, address, 8 << 20);
        }
    });
    (joined.seen.longest.load(Ordering::Relaxed), joined.seen.gso.load(Ordering::Relaxed))
}

#[test]
fn super_frames_cross_whole() {
    if !root("TCP between taps") {
        return;
    }
    let (longest, gso) = transfer(true);
    assert!(longest > 20_000 && gso > 100, "longest packet {longest}, super-frames {gso}");
}

#[test]
fn without_gso_the_kernel_cuts() {
    if !root("TCP between taps without offload") {
        return;
    }
    let (longest, gso) = transfer(false);
    assert_eq!((longest, gso), (1414, 0));
}

#[test]
fn a_sleeping_worker_is_woken_by_a_tap() {
    if !root("tap and interrupts") {
        return;
    }
    let (a, b) = (Namespace::new("wake-a"), Namespace::new("wake-b"));
    let mut port_a = tap::open(&TapOptions { rx_queues: 2, ..options(&a, "10.9.0.1/24") }).unwrap();
    let mut options_b = options(&b, "10.9.0.2/24");
    options_b.host.mac = Some(OURS);
    let mut port_b = tap::open(&options_b).unwrap();
    let side = |port| Side { mode: RxMode::Interrupt, ..Side::new(port, "tap-input", "tap-tx") };
    let (worker, _publisher) = Joined::new([side(&mut port_a), side(&mut port_b)]).into_worker();
    b.run(&["ping", "-c", "5", "-i", "0.2", "-W", "5", "10.9.0.1"]);
    let counters = worker.counters();
    assert!(counters.interface(0).rx_packets.get() >= 5 && counters.interface(0).tx_packets.get() >= 5);
    let (sleeps, rounds) = (counters.rounds.sleeps.get(), counters.rounds.rounds.get());
    assert!(sleeps >= 5 && rounds < 100 * sleeps, "{sleeps} sleeps in {rounds} rounds");
}

#[test]
fn only_the_frame_that_is_refused_is_dropped() {
    if !root("tap and a refused frame") {
        return;
    }
    let namespace = Namespace::new("mixed");
    let mut port = tap::open(&options(&namespace, "10.9.0.2/24")).unwrap();
    let frames = vec![ARP_REQUEST.to_vec(), ARP_REQUEST[..13].to_vec(), ARP_REQUEST.to_vec()];
    let options = GeneratorOptions { frames, count: 6, ..GeneratorOptions::new("mixed", vec![]) };
    let mut source = generator::open(&options).unwrap();
    let mut joined = Joined::new([
        Side::new(&mut source, "generator-input", "sink-tx"),
        Side::new(&mut port, "tap-input", "tap-tx"),
    ]);
    let end = Instant::now() + PATIENCE;
    while joined.round() > 0 || joined.drops("tap-tx", "refused") < 2 {
        assert!(Instant::now() < end, "the kernel refuses two of the frames");
    }
    while joined.graph.counters().interface(1).tx_packets.get() < 4 && Instant::now() < end {
        joined.round();
    }
    let counters = joined.graph.counters().interface(1);
    assert_eq!((counters.tx_packets.get(), counters.tx_bytes.get(), counters.tx_drops.get()), (4, 4 * 42, 2));
}

#[test]
fn what_the_kernel_could_not_hand_over_is_counted() {
    if !root("tap losses") {
        return;
    }
    let namespace = Namespace::new("full");
    let port = tap::open(&options(&namespace, "10.9.0.2/24")).unwrap();
    assert_eq!(port.control.lost().unwrap(), 0);
    namespace.run(&["ip", "neigh", "add", "10.9.0.1", "lladdr", "02:fe:00:00:00:01", "dev", "eth0"]);
    const SEND: &str = "import socket
s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM)
for _ in range(4000): s.sendto(b'x',('10.9.0.1',9))";
    namespace.run(&["/usr/bin/python3", "-c", SEND]);
    let lost = port.control.lost().unwrap();
    assert!((2000..4000).contains(&lost), "{lost} of 4000 packets; 1000 wait (txqueuelen)");
}
