//! Eventfds that cost whoever signals them.

use std::os::fd::OwnedFd;
use std::time::Duration;

use memif::Reason;
use rustix::event::epoll;
use rustix::io::dup;

use super::peer::{Peer, RX, RX_RING, TX, TX_RING, init};
use crate::arena::Arena;
use crate::wire::{HEAD, last_words};

/// What waits for a descriptor: entries of 200 epoll sets, tens of thousands in all, which take milliseconds to call.
fn watches(descriptor: &OwnedFd, copies: usize) -> Vec<OwnedFd> {
    let copies: Vec<_> = (0..copies).map(|_| dup(descriptor).unwrap()).collect();
    let set = |_| {
        let set = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
        for copy in &copies {
            epoll::add(&set, copy, epoll::EventData::new_u64(0), epoll::EventFlags::IN).unwrap();
        }
        set
    };
    let sets: Vec<_> = (0..200).map(set).collect();
    sets.into_iter().chain(copies).collect()
}

/// Asks for a signal with each packet, and makes room for all.
fn takes_all(peer: &Peer) {
    peer.set(RX, 4, 0);
    peer.set(RX, HEAD, peer.tail(RX).wrapping_add(64));
}

/// Who is signalled loses its link, is told why, and is kept out for a while; the others' packets go on meanwhile.
#[test]
fn eventfd_with_a_crowd_of_waiters() {
    let arena = Arena::new("crowd", |_| ());
    let peer = arena.peer();
    peer.handshake();
    let crowd = watches(&peer.wake, 200);
    let reason = arena.shared.wait("it is ended", |log| {
        takes_all(&peer);
        log.ended.first().cloned()
    });
    let Reason::SignalCost { last, excluded: 1 } = reason else { panic!("{reason}") };
    assert!(last > 50, "{last} us");
    let words = last_words(&peer.socket);
    assert!(words.starts_with("signals cost too much: ") && words.ends_with("try again in 1 s"), "{words}");
    drop((peer, crowd));
    // Whoever it is: that nobody can tell.
    let peer = arena.peer();
    peer.send(&init(0x0200, 0, 0, ""), &[]);
    assert_eq!(last_words(&peer.socket), "signals cost too much before: try again in 1 s");
    arena.shared.wait("both are counted", |log| {
        let counted = |kind| log.counters.get(kind) == Some(&1);
        (counted("signal-cost") && counted("signal-cost-excluded")).then_some(())
    });
    std::thread::sleep(Duration::from_secs(1));
    arena.finish();
}

/// By what it wakes us nobody waits but us, and what it does to that is its own time.
#[test]
fn eventfd_with_a_crowd_that_waits_for_the_peer_itself() {
    let arena = Arena::new("own-crowd", |setting| setting.interrupts = true);
    let peer = arena.peer();
    peer.handshake();
    let crowd = watches(&peer.event, 200);
    for head in 1..=50 {
        peer.set(TX, HEAD, head);
        let _ = rustix::io::write(&peer.event, &1_u64.to_le_bytes());
        arena.shared.wait("its packet is taken", |log| (log.received == head.into()).then_some(()));
    }
    assert_eq!(arena.shared.log().count(), 0, "that is no fault");
    drop((peer, crowd));
    arena.finish();
}

/// What waits for its end of the control socket, is called by a thread of its origin. Who makes that slow is turned away, and told.
#[test]
fn control_socket_with_a_crowd_of_waiters() {
    let arena = Arena::new("control-crowd", |_| ());
    let peer = arena.peer();
    let crowd = watches(&peer.socket, 300);
    peer.begin();
    peer.ring(TX_RING);
    peer.ring(RX_RING);
    peer.say_connect();
    let words = last_words(&peer.socket);
    assert!(words.starts_with("signals cost too much: "), "{words}");
    arena.shared.wait("it is turned away", |log| (log.counters.get("signal-cost") == Some(&1)).then_some(()));
    drop((peer, crowd));
    std::thread::sleep(Duration::from_secs(1));
    arena.finish();
}
