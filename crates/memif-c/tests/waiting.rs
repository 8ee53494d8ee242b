//! Packets that found no place in an application's array: out of the ring, and still there to be received.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::time::Duration;

use common::connect;
use memif::{Address, ListenerSettings, ServerConfig};
use quiver_memif::port::Port;
use quiver_memif::wait::{Woken, wait};
use quiver_memif::watch::watch;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

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
