//! Packets that found no place in an application's array: out of the ring, and still there to be received.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::time::{Duration, Instant};

use memif::region::HugePages;
use memif::{
    Address, Client, ClientConfig, ClientEvent, ClientTiming, Connection, ListenerSettings, QueueConfig,
    ServerConfig,
};
use quiver_memif::port::Port;
use quiver_memif::wait::{Woken, wait};
use quiver_memif::watch::watch;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Longer than anything takes.
const PATIENCE: Duration = Duration::from_secs(60);

fn connect(address: &Address, server: &Port) -> (Client, Connection) {
    let queues = QueueConfig { buffer_size: 64, huge_pages: HugePages::Never, ..QueueConfig::default() };
    let config = ClientConfig { queues, ..ClientConfig::default() };
    let mut client = Client::new(address.clone(), config, ClientTiming::default()).unwrap();
    let started = Instant::now();
    loop {
        assert!(started.elapsed() < PATIENCE, "no link");
        wait(&[server], Duration::from_millis(5)).unwrap();
        while server.next_news().is_some() {}
        for event in client.process(Instant::now()) {
            if let ClientEvent::Connected(connection) = event {
                return (client, connection);
            }
        }
    }
}

/// Whether an application with an event loop would look.
fn readable(server: &Port) -> bool {
    let fd = watch(server).unwrap();
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], Some(&now)).unwrap() == 1
}

#[test]
fn packets_that_found_no_place_are_told_of() {
    let address = Address::abstract_name(format!("quiver/waiting-{}", std::process::id()));
    let server = Port::server(&address, 0, ServerConfig::default(), ListenerSettings::default()).unwrap();
    let (_client, mut connection) = connect(&address, &server);
    while server.next_news().is_some() {}
    // Of three parts each.
    assert_eq!(connection.tx[0].send_batch(&[[1; 192], [2; 192], [3; 192], [4; 192]]).unwrap(), 4);
    for packet in 1..=4 {
        assert!(server.ready(0).unwrap() && readable(&server), "packet {packet}");
        assert_eq!(wait(&[&server], Duration::ZERO).unwrap(), Woken::Ready, "packet {packet}");
        assert_eq!(server.receive(0, |_| {}, 4).unwrap(), 3);
        // Whether or not what it has is given back.
        if packet % 2 == 0 {
            server.release(0).unwrap();
        }
    }
    assert!(!server.ready(0).unwrap());
    assert_eq!(wait(&[&server], Duration::ZERO).unwrap(), Woken::Timeout);
    // Nobody waits for what a link had that is gone.
    assert_eq!(connection.tx[0].send_batch(&[[1; 192], [2; 192]]).unwrap(), 2);
    assert_eq!(server.receive(0, |_| {}, 4).unwrap(), 3);
    server.admin_down("");
    while server.next_news().is_some() {}
    assert_eq!(wait(&[&server], Duration::ZERO).unwrap(), Woken::Asked);
    assert_eq!(wait(&[&server], Duration::ZERO).unwrap(), Woken::Timeout);
}
