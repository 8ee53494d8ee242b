//! On the control channel.

use std::os::fd::AsFd;
use std::time::Duration;

use rustix::fs::{SealFlags, fcntl_add_seals};

use super::victim::Victim;
use crate::wire::{ACK, ADD_RING, CONNECTED, DISCONNECT, INIT, message, send};

#[test]
fn hello_of_another_version() {
    let victim = Victim::new("version", |_| ());
    for (min, max) in [(0x0100, 0x0100), (0x0201, 0x0300), (0x0300, 0x0100)] {
        let versions = if min == max {
            format!("version {max:#06x}")
        } else {
            format!("versions {min:#06x} to {max:#06x}")
        };
        let words = format!("unsupported {versions}, this end speaks 0x0200");
        victim.leaves(&words, |served| served.hello_with(min, max, 14));
    }
    victim.finish();
}

#[test]
fn hello_with_rings_too_small() {
    let victim = Victim::new("hello-rings", |_| ());
    for log2 in [0, 5] {
        let words = format!("ring size 2^{log2}, allowed are 2^6..=2^14");
        victim.leaves(&words, |served| served.hello_with(0x0200, 0x0200, log2));
    }
    victim.finish();
}

/// It keeps us from keeping it from freeing pages that we touch.
#[test]
fn memory_that_is_sealed_against_seals() {
    let victim = Victim::new("sealed", |_| ());
    let words = "the region's file can't be sealed against freeing its pages: leave out F_SEAL_SEAL";
    victim.leaves(words, |served| {
        served.until_connect();
        fcntl_add_seals(served.memory.as_ref().unwrap(), SealFlags::SEAL).unwrap();
        served.say(CONNECTED);
    });
    victim.finish();
}

#[test]
fn hello_that_never_comes() {
    let limit = Duration::from_secs(2);
    let victim = Victim::new("loris", |timing| timing.handshake_timeout = limit);
    victim.leaves("handshake timed out", |_| ());
    victim.leaves("handshake timed out", |served| served.hello());
    victim.leaves("handshake timed out", |served| served.until_connect());
    victim.finish();
}

#[test]
fn message_of_a_wrong_size() {
    let victim = Victim::new("size", |_| ());
    for size in [1, 127, 129, 4096] {
        let words = format!("message of {} bytes, all have 128", size.min(129));
        victim.leaves(&words, |served| send(&served.socket, &vec![2; size], &[]));
        victim.disconnects(&words, |served| send(&served.socket, &vec![2; size], &[]));
    }
    victim.finish();
}

#[test]
fn message_of_an_unknown_type() {
    let victim = Victim::new("type", |_| ());
    for kind in [0, 9, 0xffff] {
        let words = format!("unknown message type {kind:#x}");
        victim.disconnects(&words, |served| served.say(kind));
    }
    victim.finish();
}

#[test]
fn message_out_of_place() {
    let victim = Victim::new("order", |_| ());
    let unexpected = |name: &str, state: &str| format!("unexpected message {name} while {state}");
    for (kind, name) in [(ACK, "ACK"), (CONNECTED, "CONNECTED"), (INIT, "INIT"), (ADD_RING, "ADD_RING")] {
        victim.leaves(&unexpected(name, "waiting for HELLO"), |served| served.say(kind));
        if kind != ACK {
            victim.leaves(&unexpected(name, "waiting for ACK"), |served| {
                served.hello();
                served.say(kind);
            });
        }
        victim.disconnects(&unexpected(name, "connected"), |served| served.say(kind));
    }
    victim.leaves(&unexpected("ACK", "waiting for CONNECTED"), |served| {
        served.until_connect();
        served.say(ACK);
    });
    victim.leaves(&unexpected("HELLO", "waiting for ACK"), |served| {
        served.hello();
        served.hello();
    });
    victim.finish();
}

#[test]
fn fd_where_none_belongs() {
    let victim = Victim::new("fd", |_| ());
    let (pipe, _end) = rustix::pipe::pipe().unwrap();
    victim.leaves("file descriptors with ACK, which has none", |served| {
        send(&served.socket, &message(ACK, &[]), &[pipe.as_fd()]);
    });
    victim.disconnects("file descriptors with ACK, which has none", |served| {
        send(&served.socket, &message(ACK, &[]), &[pipe.as_fd(); 100]);
    });
    victim.finish();
}

/// It takes every client, and ends each link as soon as it is up: the client waits longer from time to time,
/// and nobody else notices.
#[test]
fn disconnect_storm() {
    let victim = Victim::new("storm", |_| ());
    for n in 1..=30 {
        let mut served = victim.listening.accept();
        served.handshake();
        served.say(DISCONNECT);
        victim.shared.wait("it is logged", |log| (log.counters.get("peer") == Some(&n)).then_some(()));
    }
    assert_eq!(victim.shared.log().up, 30);
    victim.finish();
}

#[test]
fn connection_that_is_closed_without_a_word() {
    let victim = Victim::new("close", |_| ());
    for n in 1..=10 {
        let mut served = victim.listening.accept();
        if n % 2 == 0 {
            served.handshake();
        }
        drop(served);
        victim.shared.wait("it is logged", |log| (log.counters.get("closed") == Some(&n)).then_some(()));
    }
    victim.finish();
}
