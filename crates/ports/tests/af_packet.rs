//! Packet sockets on the real kernel's devices, in network namespaces made here.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::{Joined, Namespace, SCALAR, Side, link_becomes, receive, receive_all, root, send};
use graph::port::{Quota, Stop};
use ipnet::IpNet;
use memory::packet::Packets;
use quiver_ports::af_packet::{self, AfPacketOptions};
use quiver_ports::link::{self, LinkOptions};
use quiver_ports::tap::{self, TapOptions};
use quiver_ports::{LinkState, Netns, PortError};
use std::net::Ipv6Addr;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// `peer0` in namespace `a`, `eth0` in namespace `b`.
fn veth(a: &Namespace, b: &Namespace) {
    let add = ["ip", "link", "add", "peer0", "type", "veth", "peer", "name", "eth0", "netns", &b.name];
    a.run(&add);
    a.run(&["ip", "link", "set", "peer0", "address", "02:fe:00:00:00:01", "up"]);
    b.run(&["ip", "link", "set", "eth0", "address", "02:fe:00:00:00:02", "up"]);
}

/// Sends one frame from a namespace's device with a raw socket.
fn inject(namespace: &Namespace, device: &str, frame: &[u8]) {
    const SEND: &str = "import socket,sys
s=socket.socket(socket.AF_PACKET,socket.SOCK_RAW); s.bind((sys.argv[1],0)); s.send(bytes.fromhex(sys.argv[2]))";
    let hex: String = frame.iter().map(|byte| format!("{byte:02x}")).collect();
    namespace.run(&["/usr/bin/python3", "-c", SEND, device, &hex]);
}

/// An Ethernet frame for a third station, with these bytes behind the addresses.
fn frame(rest: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0xfe, 0, 0, 0, 9, 2, 0xfe, 0, 0, 0, 8];
    frame.extend_from_slice(rest);
    frame.extend((0..60u8).map(|n| n ^ 0x55));
    frame
}

#[test]
fn tags_that_the_kernel_takes_off_are_put_back() {
    if !root("AF_PACKET and VLAN tags") {
        return;
    }
    let (a, b) = (Namespace::new("vlan-a"), Namespace::new("vlan-b"));
    veth(&a, &b);
    let mut port = af_packet::open(&AfPacketOptions::new(b.netns(), "eth0")).unwrap();
    assert_eq!(port.facts.mac.unwrap().to_string(), "02:fe:00:00:00:02");
    assert!(port.facts.offload);
    assert_eq!(port.link.state(), LinkState::Up);
    let kinds: [&[u8]; 4] = [
        &[0x88, 0xb5],
        &[0x81, 0x00, 0x60, 0x64, 0x88, 0xb5],
        &[0x88, 0xa8, 0x00, 0x07, 0x81, 0x00, 0x00, 0x64, 0x88, 0xb5],
        &[0x81, 0x00, 0x00, 0x00, 0x88, 0xb5],
    ];
    for rest in kinds {
        let sent = frame(rest);
        inject(&a, "peer0", &sent);
        let got = receive(&mut *port.rx[0], |frame| frame[..12] == sent[..12]);
        assert_eq!(got, sent);
    }
}

#[test]
fn what_we_or_the_kernel_send_leaves_and_does_not_come_back() {
    if !root("AF_PACKET and own frames") {
        return;
    }
    let (a, b) = (Namespace::new("own-a"), Namespace::new("own-b"));
    veth(&a, &b);
    for rx_queues in [1, 2] {
        let options = AfPacketOptions { rx_queues, ..AfPacketOptions::new(b.netns(), "eth0") };
        let mut port = af_packet::open(&options).unwrap();
        let mut peer = af_packet::open(&AfPacketOptions::new(a.netns(), "peer0")).unwrap();
        let tagged = frame(&[0x81, 0x00, 0x00, 0x64, 0x88, 0xb5]);
        assert_eq!(send(&mut *port.tx[0], &tagged).packets, 1);
        let got = receive(&mut *peer.rx[0], |frame| frame[..12] == tagged[..12]);
        assert_eq!(got, tagged);
        // What the kernel sends by the device is its own matter too.
        let hosts = frame(&[0x88, 0xb6]);
        inject(&b, "eth0", &hosts);
        receive(&mut *peer.rx[0], |frame| *frame == hosts);
        // A copy would have been queued here before the frame reached the other end.
        let mut packets = Packets::new();
        for rx in &mut port.rx {
            assert!(receive_all(&mut **rx, &mut packets).iter().all(|frame| frame[..12] != tagged[..12]));
        }
    }
}

/// An untagged frame from `peer0` to `eth0` of [`veth`], or behind a tag.
fn ip_frame(station: u8, tag: &[u8], kind: [u8; 2], at: usize, destination: &[u8]) -> Vec<u8> {
    let mut frame = [&[2, 0xfe, 0, 0, 0, station, 2, 0xfe, 0, 0, 0, 1], tag, &kind[..]].concat();
    let header = frame.len();
    frame.resize(header + 60, 0);
    frame[header..][at..][..destination.len()].copy_from_slice(destination);
    frame
}

#[test]
fn only_what_is_for_the_destinations_is_received() {
    if !root("AF_PACKET filters") {
        return;
    }
    let (a, b) = (Namespace::new("filter-a"), Namespace::new("filter-b"));
    veth(&a, &b);
    let texts = ["10.244.1.0/24", "10.9.0.7/32", "fd00:10:244:1::/64", "fd00::7/128", "2000::/3"];
    let mut destinations: Vec<IpNet> = texts.iter().map(|text| text.parse().unwrap()).collect();
    // As many as there may be: ways over them are long.
    destinations.splice(2..2, (0..59).map(|n| format!("172.16.{n}.0/25").parse().unwrap()));
    let options =
        AfPacketOptions { destinations, promiscuous: false, ..AfPacketOptions::new(b.netns(), "eth0") };
    let mut port = af_packet::open(&options).unwrap();
    let four = |station, address: [u8; 4]| ip_frame(station, &[], [8, 0], 16, &address);
    let six = |text: &str| ip_frame(2, &[], [0x86, 0xdd], 24, &text.parse::<Ipv6Addr>().unwrap().octets());
    let tagged = ip_frame(2, &[0x81, 0, 0, 7], [8, 0], 16, &[10, 244, 1, 9]);
    for left_out in [
        four(2, [10, 244, 2, 1]),
        four(2, [10, 9, 0, 6]),
        four(2, [172, 16, 58, 128]),
        // To another station, and to all.
        four(9, [10, 244, 1, 9]),
        [&[255; 6], &four(2, [10, 244, 1, 9])[6..]].concat(),
        six("fd00:10:244:2::1"),
        six("fd00::107"),
        six("4000::1"),
        tagged,
        ip_frame(2, &[], [8, 6], 16, &[10, 244, 1, 9]),
        // Shorter than where the address should be.
        four(2, [10, 244, 1, 9])[..31].to_vec(),
    ] {
        inject(&a, "peer0", &left_out);
    }
    let taken = [
        four(2, [10, 244, 1, 0]),
        four(2, [10, 244, 1, 255]),
        four(2, [10, 9, 0, 7]),
        four(2, [172, 16, 58, 127]),
        six("fd00:10:244:1:ffff::1"),
        six("fd00::7"),
        six("3fff::1"),
    ];
    for frame in &taken {
        inject(&a, "peer0", frame);
        // In the order in which they were sent: what is left out would have been first.
        assert_eq!(receive(&mut *port.rx[0], |_| true), *frame);
    }
    let many = AfPacketOptions { destinations: vec![IpNet::default(); 65], ..options };
    let error = af_packet::open(&many).unwrap_err().to_string();
    assert!(error.contains("65: at most 64"), "{error}");
}

#[test]
fn flows_are_spread_over_queues_and_each_arrives_once() {
    if !root("AF_PACKET fanout") {
        return;
    }
    let (a, b) = (Namespace::new("fan-a"), Namespace::new("fan-b"));
    veth(&a, &b);
    a.run(&["ip", "addr", "add", "10.9.0.1/24", "dev", "peer0"]);
    a.run(&["ip", "neigh", "add", "10.9.0.2", "lladdr", "02:fe:00:00:00:02", "dev", "peer0"]);
    let options = AfPacketOptions { rx_queues: 3, tx_queues: 4, ..AfPacketOptions::new(b.netns(), "eth0") };
    let mut port = af_packet::open(&options).unwrap();
    assert_eq!((port.rx.len(), port.tx.len()), (3, 4));
    const FLOWS: usize = 64;
    const SEND: &str = "import socket
s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM); s.bind(('10.9.0.1',4000))
for p in range(64): s.sendto(b'flow',('10.9.0.2',5000+p))";
    a.run(&["/usr/bin/python3", "-c", SEND]);
    let mut ports: Vec<Vec<u16>> = vec![vec![]; 3];
    let mut packets = Packets::new();
    let end = Instant::now() + common::PATIENCE;
    while ports.iter().map(Vec::len).sum::<usize>() < FLOWS && Instant::now() < end {
        for (rx, ports) in port.rx.iter_mut().zip(&mut ports) {
            let udp = |frame: &Vec<u8>| frame[12..14] == [8, 0] && frame[23] == 17;
            let frames = receive_all(&mut **rx, &mut packets).into_iter().filter(udp);
            ports.extend(frames.map(|frame| u16::from_be_bytes([frame[36], frame[37]])));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(ports.iter().all(|queue| !queue.is_empty()), "{ports:?}");
    let mut all: Vec<u16> = ports.concat();
    all.sort_unstable();
    assert_eq!(all, (5000..5064).collect::<Vec<u16>>());
    assert_eq!(port.control.lost().unwrap(), 0);
}

#[test]
fn losses_of_a_full_socket_are_counted() {
    if !root("AF_PACKET losses") {
        return;
    }
    let (a, b) = (Namespace::new("lost-a"), Namespace::new("lost-b"));
    veth(&a, &b);
    let port = af_packet::open(&AfPacketOptions::new(b.netns(), "eth0")).unwrap();
    const SEND: &str = "import socket,sys
s=socket.socket(socket.AF_PACKET,socket.SOCK_RAW); s.bind(('peer0',0)); f=bytes.fromhex(sys.argv[1])+bytes(1400)
for _ in range(20000): s.send(f)";
    a.run(&["/usr/bin/python3", "-c", SEND, "02fe0000000902fe0000000888b5"]);
    let lost = port.control.lost().unwrap();
    assert!((1..20000).contains(&lost), "{lost}");
    assert!(port.control.lost().unwrap() >= lost, "the count doesn't begin anew");
}

#[test]
fn a_device_down_is_waited_for_and_a_deleted_one_is_a_fault() {
    if !root("AF_PACKET link state") {
        return;
    }
    let (a, b) = (Namespace::new("link-a"), Namespace::new("link-b"));
    veth(&a, &b);
    let mut port = af_packet::open(&AfPacketOptions::new(b.netns(), "eth0")).unwrap();
    let probe = frame(&[0x88, 0xb5]);
    b.run(&["ip", "link", "set", "eth0", "down"]);
    link_becomes(&port, LinkState::Down);
    let mut packets = Packets::new();
    for _ in 0..3 {
        port.rx[0].receive(SCALAR, &mut packets, 0, Quota::packets(8)).unwrap();
    }
    let sent = send(&mut *port.tx[0], &probe);
    assert_eq!((sent.packets, sent.stop), (0, Stop::Down));
    b.run(&["ip", "link", "set", "eth0", "up"]);
    assert_eq!(send(&mut *port.tx[0], &probe).packets, 1);
    inject(&a, "peer0", &probe);
    receive(&mut *port.rx[0], |frame| frame == probe);
    let long = [&probe[..], &[0; 2000]].concat();
    let sent = send(&mut *port.tx[0], &long);
    assert_eq!((sent.packets, sent.stop), (0, Stop::Refused), "longer than the MTU");
    a.run(&["ip", "link", "del", "peer0"]);
    let fault =
        (0..100).find_map(|_| port.rx[0].receive(SCALAR, &mut packets, 0, Quota::packets(8)).err()).unwrap();
    assert!(fault.reason.contains("eth0") && fault.reason.contains("deleted"), "{fault}");
}

/// The kernel's device at one end has an address, a tap at the other; TCP with the kernel's offloads between them.
#[test]
fn super_frames_pass_between_a_device_and_a_tap() {
    if !root("TCP between AF_PACKET and tap") {
        return;
    }
    let (a, b, c) = (Namespace::new("tso-a"), Namespace::new("tso-b"), Namespace::new("tso-c"));
    veth(&a, &b);
    link::configure(
        &a.netns(),
        "peer0",
        &LinkOptions { addresses: vec!["10.9.0.1/24".parse().unwrap()], ..LinkOptions::default() },
    )
    .unwrap();
    let host = LinkOptions { addresses: vec!["10.9.0.3/24".parse().unwrap()], ..LinkOptions::default() };
    let mut tap = tap::open(&TapOptions { host, ..TapOptions::new(c.netns(), "eth0") }).unwrap();
    let mut device = af_packet::open(&AfPacketOptions::new(b.netns(), "eth0")).unwrap();
    let mut joined = Joined::new([
        Side::new(&mut device, "af-packet-input", "af-packet-tx"),
        Side::new(&mut tap, "tap-input", "tap-tx"),
    ]);
    joined.while_running(|| {
        c.run(&["ping", "-c", "2", "-i", "0.2", "-W", "5", "-s", "3000", "10.9.0.1"]);
        common::transfer(&a, &c, "10.9.0.1", 4 << 20);
        common::transfer(&c, &a, "10.9.0.3", 4 << 20);
    });
    assert!(joined.seen.longest.load(Ordering::Relaxed) > 20_000, "{:?}", joined.seen);
    assert!(joined.seen.gso.load(Ordering::Relaxed) > 100, "{:?}", joined.seen);
}

#[test]
fn what_cannot_be_opened_is_explained() {
    if !root("AF_PACKET errors") {
        return;
    }
    let namespace = Namespace::new("perr");
    let open = |name: &str| af_packet::open(&AfPacketOptions::new(namespace.netns(), name)).unwrap_err();
    let error = open("eth7");
    assert!(matches!(error, PortError::System { .. }), "{error}");
    assert!(error.to_string().contains("eth7") && error.to_string().contains("no such device"), "{error}");
    let error = open("lo").to_string();
    assert!(error.contains("no Ethernet device"), "{error}");
    let error = open("a name").to_string();
    assert!(error.contains("name contains a blank"), "{error}");
    let options = AfPacketOptions::new(Netns::Named("qvt-none".into()), "eth0");
    assert!(af_packet::open(&options).unwrap_err().to_string().contains("ip netns add"));
}
