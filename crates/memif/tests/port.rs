//! The application's interface: waiting, sleeping and waking, and the echo example as a host to ping.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[allow(dead_code, reason = "the other examples use the rest")]
#[path = "../examples/answer/mod.rs"]
mod answer;
mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::{PATIENCE, packet, small_queues};
use memif::app::{Batch, LinkEvent, Port, Progress};
use memif::{Address, ClientConfig, ClientTiming, ListenerSettings, Reason, ServerConfig};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

fn client(address: &Address) -> Port {
    let config = ClientConfig { queues: small_queues(), ..ClientConfig::default() };
    Port::client(address.clone(), config, ClientTiming::default()).unwrap()
}

fn server(address: &Address) -> Port {
    Port::server(address, 0, ServerConfig::default(), ListenerSettings::default()).unwrap()
}

/// Waits for an event of the link.
fn link(port: &mut Port, wanted: impl Fn(&LinkEvent) -> bool) {
    let started = Instant::now();
    while !port.wait(Some(Duration::from_millis(20))).unwrap().iter().any(&wanted) {
        assert!(started.elapsed() < PATIENCE);
    }
}

/// Sends a packet and waits for one.
fn ask(port: &mut Port, batch: &mut Batch, request: &[u8]) -> Vec<u8> {
    let started = Instant::now();
    assert_eq!(port.send(&[request]).unwrap(), 1);
    while port.receive(batch).unwrap() == 0 {
        port.wait(Some(Duration::from_secs(1))).unwrap();
        assert!(started.elapsed() < PATIENCE);
    }
    batch.packets().next().unwrap().to_vec()
}

#[test]
fn a_sleeping_port_is_woken_by_packets() {
    let address = Address::abstract_name(format!("quiver-port-{}", std::process::id()));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut port, mut batch) = (server(&address), Batch::new(256));
            while !done.load(Ordering::Relaxed) {
                port.wait(Some(Duration::from_millis(20))).unwrap();
                while port.receive(&mut batch).unwrap() > 0 {
                    let back: Vec<_> = batch.packets().collect();
                    assert_eq!(port.send(&back).unwrap(), back.len());
                }
            }
        });
        let (mut port, mut batch) = (client(&address), Batch::new(256));
        link(&mut port, |event| *event == LinkEvent::Up);
        assert_eq!(port.connection().unwrap().rx.len(), 1);
        for round in 0..300 {
            let request = packet(round, 60 + round * 30);
            assert_eq!(ask(&mut port, &mut batch, &request), request);
        }
        done.store(true, Ordering::Relaxed);
        link(&mut port, |event| matches!(event, LinkEvent::Down(_)));
        assert!(port.connection().is_none());
        assert_eq!(port.send(&[[0; 60]]).unwrap(), 0);
        assert_eq!(port.receive(&mut batch).unwrap(), 0);
    });
}

#[test]
fn a_peer_at_fault_is_disconnected_and_may_come_back() {
    let address = Address::abstract_name(format!("quiver-port-fault-{}", std::process::id()));
    let (mut server, mut client, mut batch) = (server(&address), client(&address), Batch::new(8));
    let up = |server: &mut Port, client: &mut Port| {
        let started = Instant::now();
        while server.connection().is_none() || client.connection().is_none() {
            server.wait(Some(Duration::from_millis(1))).unwrap();
            client.wait(Some(Duration::from_millis(1))).unwrap();
            assert!(started.elapsed() < PATIENCE);
        }
    };
    up(&mut server, &mut client);
    // The client's head of the ring to the server, far too far on.
    client.connection().unwrap().tx[0].regions().check(0, 6, 2).unwrap().write(&[0xff, 0x7f]);
    assert!(server.receive(&mut batch).is_err());
    assert!(server.connection().is_none());
    link(&mut server, |event| matches!(event, LinkEvent::Down(Reason::Fault(_))));
    link(&mut client, |event| matches!(event, LinkEvent::Down(Reason::Peer { .. })));
    up(&mut server, &mut client);
    assert_eq!(client.send(&[[7; 60]]).unwrap(), 1);
    server.wait(None).unwrap();
    assert_eq!(server.receive(&mut batch).unwrap(), 1);
}

/// Requests and answers as scapy builds them:
/// `Ether(src="02:00:00:00:00:09",dst="ff:ff:ff:ff:ff:ff")/ARP(op=1,hwsrc="02:00:00:00:00:09",psrc="192.0.2.9",pdst="192.0.2.1")`
/// and
/// `Ether(src="02:00:00:00:00:09",dst="02:fe:00:00:00:01")/IP(src="192.0.2.9",dst="192.0.2.1",id=7)/ICMP(id=0xbeef,seq=3)/b"quiver"`.
#[test]
fn the_echo_example_is_a_host() {
    let hex = |text: &str| -> Vec<u8> {
        let text = text.replace(' ', "");
        (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
    };
    for (request, answer) in [
        (
            "ffffffffffff 020000000009 0806 0001 0800 06 04 0001 020000000009 c0000209 000000000000 c0000201",
            "020000000009 02fe00000001 0806 0001 0800 06 04 0002 02fe00000001 c0000201 020000000009 c0000209",
        ),
        (
            "02fe00000001020000000009080045000022000700004001f6c9c0000209c00002010800f8aebeef0003717569766572",
            "02000000000902fe00000001080045000022000700004001f6c9c0000201c0000209000000afbeef0003717569766572",
        ),
    ] {
        assert_eq!(answer::answer(&hex(request)), Some(hex(answer)));
    }
    for ignored in ["", "0200", "ffffffffffff 020000000009 86dd 6000", "ffffffffffff 020000000009 0800 45"] {
        assert_eq!(answer::answer(&hex(ignored)), None);
    }
}

/// What the administrator of one side does is an event on his, with his words; and on the other, as the reason.
#[test]
fn a_link_that_is_taken_down_stays_down_until_it_is_let_up() {
    let address = Address::abstract_name(format!("quiver-admin-{}", std::process::id()));
    let (mut server, mut client) = (server(&address), client(&address));
    let up = |event: &LinkEvent| *event == LinkEvent::Up;
    let words = "administratively down: for lunch";
    both(&mut server, &mut client, up, up);

    server.admin_down("for lunch");
    let ours =
        |event: &LinkEvent| matches!(event, LinkEvent::AdminDown(reason) if reason.to_string() == words);
    let told = |event: &LinkEvent| match event {
        LinkEvent::Down(Reason::Peer { text, .. }) => text.as_str() == words,
        _ => false,
    };
    both(&mut server, &mut client, ours, told);
    // Whoever tries meanwhile is told the same.
    let turned_away =
        |event: &LinkEvent| matches!(event, LinkEvent::Refused(reason) if reason.to_string() == words);
    let refused = |event: &LinkEvent| match event {
        LinkEvent::Refused(Reason::Peer { text, .. }) => text.as_str() == words,
        _ => false,
    };
    both(&mut server, &mut client, turned_away, refused);
    assert!(server.connection().is_none() && client.connection().is_none());
    server.admin_up();
    both(&mut server, &mut client, up, up);

    client.admin_down("");
    let ours = |event: &LinkEvent| event.to_string() == "link down: administratively down";
    let told = |event: &LinkEvent| event.to_string().contains("by the peer: administratively down (code 0)");
    both(&mut server, &mut client, told, ours);
    // It doesn't come back by itself: its next deadline is none.
    assert_eq!(client.poll().unwrap(), Progress::Sleep(None));
    client.admin_up();
    both(&mut server, &mut client, up, up);
}

/// Waits for an event of each.
fn both(a: &mut Port, b: &mut Port, of_a: impl Fn(&LinkEvent) -> bool, of_b: impl Fn(&LinkEvent) -> bool) {
    let (started, mut seen) = (Instant::now(), (false, false));
    while seen != (true, true) {
        let some = |port: &mut Port| port.wait(Some(Duration::from_millis(5))).unwrap();
        seen = (seen.0 | some(a).iter().any(&of_a), seen.1 | some(b).iter().any(&of_b));
        assert!(started.elapsed() < PATIENCE, "{seen:?}");
    }
}

/// An event loop of the application's own: the descriptor is readable when, and only when, there is something to do.
#[test]
fn a_port_can_be_watched() {
    let address = Address::abstract_name(format!("quiver-watched-{}", std::process::id()));
    let (mut server, mut client) = (server(&address), client(&address));
    let up = |event: &LinkEvent| *event == LinkEvent::Up;
    both(&mut server, &mut client, up, up);
    let readable = |port: &Port, milliseconds| {
        let limit = Timespec::try_from(Duration::from_millis(milliseconds)).unwrap();
        poll(&mut [PollFd::from_borrowed_fd(port.fd(), PollFlags::IN)], Some(&limit)).unwrap() == 1
    };
    let mut batch = Batch::new(8);
    for round in 0..100_u8 {
        assert!(matches!(server.poll().unwrap(), Progress::Sleep(Some(_))));
        assert!(!readable(&server, 0), "round {round}");
        assert_eq!(client.send(&[[round; 60]]).unwrap(), 1);
        assert!(readable(&server, 10_000), "round {round}");
        assert_eq!(server.poll().unwrap(), Progress::Ready(Vec::new()));
        // Ready is ready until it is received.
        assert_eq!(server.poll().unwrap(), Progress::Ready(Vec::new()));
        assert_eq!(server.receive(&mut batch).unwrap(), 1);
        assert_eq!(batch.packets().next().unwrap(), [round; 60]);
    }
    drop(client);
    assert!(readable(&server, 10_000));
    assert!(
        matches!(server.poll().unwrap(), Progress::Ready(events) if matches!(events[..], [LinkEvent::Down(_)]))
    );
}

#[test]
fn errors_name_the_interface_and_the_cause() {
    let address = Address::abstract_name(format!("quiver-named-{}", std::process::id()));
    let first = server(&address);
    let second = Port::server(&address, 7, ServerConfig::default(), ListenerSettings::default()).unwrap_err();
    assert_eq!(second.interface, format!("{address} id 7"));
    assert_eq!(second.cause, memif::Error::InUse { address: address.to_string() });
    assert_eq!(
        second.to_string(),
        format!("{address} id 7: {address} is in use: another process listens there")
    );
    assert_eq!(first.name(), format!("{address} id 0"));
}

/// Expected bytes: scapy 2.5, `Ether()/IPv6()/ICMPv6ND_NS()/ICMPv6NDOptSrcLLAddr()` and `…/ICMPv6EchoRequest()`, and the answers
/// built the same way.
#[test]
fn the_echo_example_answers_ipv6() {
    for (name, asked, expected) in ANSWERS6 {
        let bytes = |hex: &str| -> Vec<u8> {
            (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
        };
        assert_eq!(answer::answer(&bytes(asked)).unwrap(), bytes(expected), "{name}");
    }
}

const ANSWERS6: [(&str, &str, &str); 2] = [
    (
        "neighbour",
        "3333ff00000102000000000986dd6000000000203aff20010db8000000000000000000000009ff0200000000000000000001ff00000187001c190000000020010db80000000000000000000000010101020000000009",
        "02000000000902fe0000000186dd6000000000203aff20010db800000000000000000000000120010db80000000000000000000000098800896e6000000020010db8000000000000000000000001020102fe00000001",
    ),
    (
        "ping",
        "02fe0000000102000000000986dd60000000000e3a4020010db800000000000000000000000920010db80000000000000000000000018000d1a112340007717569766572",
        "02000000000902fe0000000186dd60000000000e3a4020010db800000000000000000000000120010db80000000000000000000000098100d0a112340007717569766572",
    ),
];
