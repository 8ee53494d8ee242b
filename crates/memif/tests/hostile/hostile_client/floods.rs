//! Too much of everything, or too little.

use std::os::fd::OwnedFd;
use std::time::Duration;

use memif::ring::{DoorbellSettings, Signals};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::write;

use super::peer::{RX, TX};
use crate::arena::Arena;
use crate::traffic::client;
use crate::wire::{ACK, HEAD, address, last_words, message, receive, socket};

/// Sockets that connect and say nothing.
fn silent(arena: &Arena, count: usize) -> Vec<OwnedFd> {
    let connect = |_| {
        let socket = socket();
        rustix::net::connect(&socket, &address(&arena.name)).unwrap();
        socket
    };
    (0..count).map(connect).collect()
}

#[test]
fn connect_storm() {
    let arena = Arena::new("storm", |_| ());
    for _ in 0..20 {
        // Closed at once, in any state.
        let sockets = silent(&arena, 50);
        for socket in sockets.iter().step_by(2) {
            crate::wire::send(socket, &message(ACK, &[]), &[]);
        }
    }
    // Among those who stay, the oldest have to go; each is told.
    let sockets = silent(&arena, 200);
    arena.shared.wait("the oldest are ended", |log| {
        log.counters.get("too-many-connections").is_some_and(|ended| *ended >= 136).then_some(())
    });
    assert_eq!(last_words(&sockets[0]), "too many connections");
    // And in the midst of it, somebody new gets through.
    let mut newcomer = client(&arena.name, 0);
    let mut storm = Vec::new();
    arena.shared.wait("somebody new is served", |log| {
        newcomer.process(std::time::Instant::now());
        drop(std::mem::replace(&mut storm, silent(&arena, 3)));
        (log.up > 0).then_some(())
    });
    drop((newcomer, sockets));
    arena.finish();
}

#[test]
fn handshake_slow_loris() {
    let limit = Duration::from_secs(1);
    let arena = Arena::new("loris", |setting| setting.listener.handshake_timeout = limit);
    // Nothing at all; INIT, and with it the interface; everything but CONNECT, one message at a time.
    arena.turned_away("timeout", "handshake timed out", |_| ());
    arena.turned_away("timeout", "handshake timed out", |peer| peer.init());
    arena.turned_away("timeout", "handshake timed out", |peer| {
        let pause = || std::thread::sleep(limit / 10);
        peer.init();
        pause();
        peer.region();
        pause();
        peer.ring(super::peer::TX_RING);
        pause();
        peer.ring(super::peer::RX_RING);
    });
    arena.finish();
}

/// Many of them at once.
#[test]
fn handshakes_half_open() {
    let arena = Arena::new("half-open", |setting| setting.listener.max_handshakes = 8);
    let sockets = silent(&arena, 40);
    arena.shared.wait("all but eight are ended", |log| {
        (log.counters.get("too-many-connections") == Some(&32)).then_some(())
    });
    for socket in &sockets[..32] {
        assert_eq!(last_words(socket), "too many connections");
    }
    // Who has claimed an interface isn't pushed out by those that say nothing.
    let peer = arena.peer();
    peer.begin();
    for _ in 0..3 {
        receive(&peer.socket).unwrap();
    }
    let more = silent(&arena, 40);
    arena.shared.wait("those are ended, too", |log| {
        log.counters.get("too-many-connections").is_some_and(|ended| *ended >= 72).then_some(())
    });
    peer.ring(super::peer::TX_RING);
    peer.say_connect();
    arena.shared.wait("it is served", |log| (log.up == 1).then_some(()));
    drop((sockets, more, peer));
    arena.finish();
}

#[test]
fn control_messages_flood() {
    let arena = Arena::new("flood", |_| ());
    arena.disconnected("unexpected-message", "unexpected message ACK while connected", |peer| {
        let flags = fcntl_getfl(&peer.socket).unwrap();
        fcntl_setfl(&peer.socket, flags | OFlags::NONBLOCK).unwrap();
        (0..1000).for_each(|_| peer.send(&message(ACK, &[]), &[]));
        fcntl_setfl(&peer.socket, flags).unwrap();
    });
    arena.finish();
}

/// Signals without end, a counter that is full, and a descriptor that is made to block: a server that sleeps
/// between packets wakes too often, and that is all.
#[test]
fn eventfd_flood() {
    floods_eventfds("eventfd", Signals::Doorbell(DoorbellSettings::default()));
}

/// The same to a program whose queues signal themselves.
#[test]
fn eventfd_flood_of_an_application() {
    floods_eventfds("eventfd-direct", Signals::Direct);
}

fn floods_eventfds(test: &str, signals: Signals) {
    let arena = Arena::new(test, |setting| {
        setting.interrupts = true;
        setting.hostile.signals = signals;
    });
    let peer = arena.peer();
    peer.handshake();
    for round in 0..2000_u64 {
        let _ = write(&peer.event, &if round % 2 == 0 { 1_u64 } else { u64::MAX - 1 }.to_le_bytes());
    }
    arena.shared.traffic_flows(200);
    // Full and blocking, and the server has to signal: the client asks for it.
    while write(&peer.wake, &(u64::MAX - 1).to_le_bytes()).is_err() {
        let _ = rustix::io::read(&peer.wake, &mut [0; 8]);
    }
    for event in [&peer.event, &peer.wake] {
        fcntl_setfl(event, OFlags::empty()).unwrap();
    }
    peer.set(RX, 4, 0);
    for head in 1..=50 {
        peer.set(RX, HEAD, 64 + head);
        peer.set(TX, HEAD, head);
        arena.shared.wait("its packet is taken", |log| (log.received == head.into()).then_some(()));
    }
    arena.shared.traffic_flows(200);
    assert_eq!(arena.shared.log().count(), 0, "that is no fault");
    drop(peer);
    arena.finish();
}

/// Its ring is full, and its packets are dropped: nobody waits for it.
#[test]
fn peer_that_stops_consuming() {
    let arena = Arena::new("consuming", |_| ());
    let peer = arena.peer();
    peer.handshake();
    arena.shared.wait("its packets find no room", |log| (log.dropped > 1000).then_some(()));
    assert_eq!(peer.tail(RX), 64);
    // It still may send, and it may come back to its senses.
    peer.publish(&[peer.good(TX, 0, 100); 10]);
    arena.shared.wait("what it sends is taken", |log| (log.received == 10).then_some(()));
    peer.set(RX, HEAD, 128);
    arena.shared.wait("it is sent packets again", |_| (peer.tail(RX) == 128).then_some(()));
    assert_eq!(arena.shared.log().count(), 0, "that is no fault");
    drop(peer);
    arena.finish();
}

/// It doesn't read what it is told on the socket either.
#[test]
fn peer_that_never_listens() {
    let arena = Arena::new("deaf", |_| ());
    for _ in 0..10 {
        let before = arena.shared.log().count();
        let peer = arena.peer();
        peer.begin();
        peer.ring(super::peer::TX_RING);
        peer.say_connect();
        peer.publish(&[peer.good(TX, 0, 0)]);
        arena.shared.wait("it is ended all the same", |log| (log.count() == before + 1).then_some(()));
    }
    arena.finish();
}

/// Peers use up the process's descriptors: those who are connected go on, and hear of each other's end; new ones
/// wait. In a process of its own, whose limit is its own.
#[test]
fn descriptors_used_up() {
    use std::time::Instant;

    use memif::region::CheckedRange;
    use memif::{Address, Listener, ListenerSettings, RxSink, ServerConfig, ServerEvent};
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    struct Nothing;
    impl RxSink for Nothing {
        fn packet(&mut self, _: CheckedRange<'_>) {}
        fn chain(&mut self, _: &[CheckedRange<'_>], _: u32) {}
    }

    if std::env::var_os("QUIVER_TEST_DESCRIPTORS").is_none() {
        let name = "hostile_client::floods::descriptors_used_up";
        let status = std::process::Command::new(std::env::current_exe().unwrap())
            .args([name, "--exact", "--nocapture"])
            .env("QUIVER_TEST_DESCRIPTORS", "1")
            .status();
        assert!(status.unwrap().success());
        return;
    }
    let name = format!("quiver-arena-descriptors-{}", std::process::id());
    let mut listener = Listener::bind(&Address::abstract_name(&name), ListenerSettings::default()).unwrap();
    listener.register(0, ServerConfig::default()).unwrap();
    let mut peer = Some(super::peer::Peer::connect(&name));
    let start = Instant::now();
    listener.process(start).unwrap();
    peer.as_ref().unwrap().begin();
    peer.as_ref().unwrap().ring(super::peer::TX_RING);
    peer.as_ref().unwrap().say_connect();
    // Its region is mapped elsewhere.
    let mut connection = loop {
        assert!(start.elapsed() < crate::wire::PATIENCE, "it isn't connected");
        if let Some(ServerEvent::Connected(connection)) = listener.process(start).unwrap().pop() {
            break connection;
        }
    };

    let sockets: Vec<_> = (0..3).map(|_| socket()).collect();
    let usual = getrlimit(Resource::Nofile);
    let lowest = std::os::fd::AsRawFd::as_raw_fd(&rustix::io::dup(&sockets[0]).unwrap());
    setrlimit(Resource::Nofile, Rlimit { current: Some(lowest as u64), ..usual }).unwrap();
    for socket in &sockets {
        rustix::net::connect(socket, &address(&name)).unwrap();
    }
    let told = listener.process(start).unwrap();
    assert!(matches!(&told[..], [ServerEvent::NotAccepting { .. }]), "{told:?}");
    // Who is connected goes on.
    let good = peer.as_ref().unwrap();
    good.publish(&[good.good(TX, 0, 60), good.good(TX, 1, 60)]);
    assert_eq!(connection.rx[0].receive(9, &mut Nothing), Ok(2));
    connection.rx[0].release();
    // Not at once again: whoever waits for the listener would be kept busy.
    assert!(listener.next_deadline().is_some_and(|at| at > start));
    assert!(listener.process(start).unwrap().is_empty());
    let again = start + Duration::from_secs(1);
    assert!(listener.process(again).unwrap().is_empty(), "it was told");
    // The end of the one that is connected isn't lost, and makes room.
    drop(peer.take());
    let ended = listener.process(again).unwrap();
    assert!(matches!(&ended[..], [ServerEvent::Disconnected { id: 0, .. }, ..]), "{ended:?}");
    drop((ended, connection));
    setrlimit(Resource::Nofile, usual).unwrap();
    listener.process(again + Duration::from_secs(1)).unwrap();
    for socket in &sockets {
        let (hello, _) = receive(socket).unwrap();
        assert_eq!(crate::wire::kind(&hello), crate::wire::HELLO);
    }
}
