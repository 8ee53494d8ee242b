//! The application's interface: waiting, sleeping and waking, and the echo example as a host to ping.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;
#[allow(dead_code, reason = "its main is not used here")]
#[path = "../examples/echo.rs"]
mod echo;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::{PATIENCE, packet, small_queues};
use memif::app::{Batch, LinkEvent, Port};
use memif::{Address, ClientConfig, ClientTiming, ListenerSettings, ServerConfig};

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
    link(&mut server, |event| matches!(event, LinkEvent::Down(memif::Reason::Fault(_))));
    link(&mut client, |event| matches!(event, LinkEvent::Down(memif::Reason::Peer { .. })));
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
        assert_eq!(echo::answer(&hex(request)), Some(hex(answer)));
    }
    for ignored in ["", "0200", "ffffffffffff 020000000009 86dd 6000", "ffffffffffff 020000000009 0800 45"] {
        assert_eq!(echo::answer(&hex(ignored)), None);
    }
}
