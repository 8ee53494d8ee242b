//! In the rings, which are the client's memory.

use memif::Reason;
use memif::ring::Fault;
use rustix::event::EventfdFlags;
use rustix::fs::{FallocateFlags, fallocate, ftruncate};
use rustix::io::{Errno, write};

use super::raw::Served;
use super::victim::Victim;
use crate::wire::{Dice, HEAD, NEXT, Slot, TAIL, last_words};

/// A packet of this length; where it lies the client knows itself.
fn packet(length: u32) -> Slot {
    Slot { length, ..Slot::default() }
}

#[test]
fn tail_that_jumps_ahead() {
    let victim = Victim::new("ahead", |_| ());
    for tail in [65, 1000, 0x8000, 0xffff] {
        let words = format!("ring index {tail} is impossible: at 0, with 0 of 64 slots held");
        victim.disconnects(&words, |served| served.set(served.to_client, TAIL, tail));
    }
    victim.finish();
}

#[test]
fn tail_that_jumps_back() {
    let victim = Victim::new("back", |_| ());
    victim.disconnects("ring index 9 is impossible: at 10, with 0 of 64 slots held", |served| {
        served.publish(&[packet(100); 10]);
        victim.shared.wait("they are taken", |log| (log.received == 10).then_some(()));
        served.set(served.to_client, TAIL, 9);
    });
    victim.finish();
}

/// Beyond the client's own head: it would free, or send again, what was never sent.
#[test]
fn tail_of_the_other_ring_that_jumps() {
    let victim = Victim::new("other", |_| ());
    for (n, tail) in (1..).zip([0x4000, 0x8000, 0xc000]) {
        let mut served = victim.listening.accept();
        served.handshake();
        served.set(served.to_server, TAIL, tail);
        let words = last_words(&served.socket);
        assert!(words.starts_with("ring index ") && words.contains("is impossible"), "{words}");
        let counted = |log: &crate::arena::Log| log.counters.get("fault-index") == Some(&n);
        victim.shared.wait("it is counted", |log| counted(log).then_some(()));
        assert_eq!(victim.shared.log().count(), n);
    }
    victim.finish();
}

#[test]
fn length_oversize() {
    let victim = Victim::new("long", |_| ());
    for length in [2049, 65_536, u32::MAX] {
        let words = format!("packet of {length} bytes, at most 2048 are allowed");
        for flags in [0, NEXT] {
            victim.disconnects(&words, |served| {
                served.publish(&[packet(100), Slot { flags, ..packet(length) }, packet(100)]);
            });
        }
    }
    victim.finish();
}

#[test]
fn length_zero() {
    let victim = Victim::new("zero", |_| ());
    victim.disconnects("empty packet", |served| served.publish(&[packet(100), packet(0)]));
    victim.finish();
}

#[test]
fn chain_that_loops() {
    let victim = Victim::new("loop", |_| ());
    for length in [0, 1] {
        victim.disconnects("chain without end", |served| {
            served.publish(&[Slot { flags: NEXT, ..packet(length) }; 64]);
        });
    }
    victim.finish();
}

/// Where buffers lie the client knows itself: what is written there counts for nothing.
#[test]
fn descriptors_that_point_elsewhere() {
    let victim = Victim::new("elsewhere", |_| ());
    let mut served = victim.listening.accept();
    served.handshake();
    let elsewhere = Slot { region: 77, offset: u32::MAX, length: 2048, flags: 0 };
    served.publish(&[elsewhere; 64]);
    victim.shared.wait("they are taken", |log| (log.received == 64).then_some(()));
    assert_eq!(victim.shared.log().count(), 0, "that is no fault");
    drop(served);
    victim.finish();
}

#[test]
fn memory_that_it_cannot_truncate() {
    let victim = Victim::new("truncate", |_| ());
    let mut served = victim.listening.accept();
    served.handshake();
    let memory = served.memory.as_ref().unwrap();
    for size in [0, 4096, 1 << 30] {
        assert_eq!(ftruncate(memory, size), Err(Errno::PERM));
    }
    // Nor free its pages, so that whoever touches one meanwhile sleeps: from when the client has heard that it is connected.
    served.publish(&[packet(60)]);
    victim.shared.wait("a packet is taken", |log| (log.received == 1).then_some(()));
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    assert_eq!(fallocate(memory, punch, 0, 4096), Err(Errno::PERM));
    drop(served);
    victim.finish();
}

fn flood(served: &Served) {
    let event = served.event.as_ref().unwrap();
    for round in 0..2000_u64 {
        let _ = write(event, &if round % 2 == 0 { 1_u64 } else { u64::MAX - 1 }.to_le_bytes());
    }
}

#[test]
fn eventfd_flood() {
    let victim = Victim::new("eventfd", |_| ());
    let mut served = victim.listening.accept();
    served.handshake();
    flood(&served);
    // A full counter, and it asks to be signalled: the client must not wait.
    served.set(served.to_server, 4, 0);
    victim.shared.traffic_flows(300);
    assert_eq!(victim.shared.log().count(), 0, "that is no fault");
    assert!(rustix::event::eventfd(0, EventfdFlags::empty()).is_ok());
    drop(served);
    victim.finish();
}

#[test]
fn peer_that_stops_consuming() {
    let victim = Victim::new("consuming", |_| ());
    let mut served = victim.listening.accept();
    served.handshake();
    victim.shared.wait("its packets find no room", |log| (log.dropped > 1000).then_some(()));
    assert_eq!(served.word(served.to_server, HEAD), 64);
    served.publish(&[packet(100); 10]);
    victim.shared.wait("what it sends is taken", |log| (log.received == 10).then_some(()));
    served.set(served.to_server, TAIL, 64);
    victim
        .shared
        .wait("it is sent packets again", |_| (served.word(served.to_server, HEAD) == 128).then_some(()));
    assert_eq!(victim.shared.log().count(), 0, "that is no fault");
    drop(served);
    victim.finish();
}

/// Changes lengths, flags and indices all the time while they are used.
#[test]
fn words_that_change_while_they_are_read() {
    let victim = Victim::new("race", |_| ());
    for round in 1..=5 {
        let mut served = victim.listening.accept();
        served.handshake();
        let mut dice = Dice::new(round);
        let (taken, reason) = victim.shared.race(2000, |step, lies| {
            let dice = dice.roll();
            let length =
                if lies && dice & 0x3ff == 0 { dice as u32 } else { 60 + (dice >> 40) as u32 % 1900 };
            served.describe(step, Slot { flags: u16::from(dice >> 12 & 0xf == 0), ..packet(length) });
            served.set(served.to_client, TAIL, served.word(served.to_client, HEAD));
        });
        assert!(taken >= 2000, "{taken} packets in round {round}");
        // The length is all that counts.
        assert!(matches!(reason, Reason::Fault(Fault::TooLong { .. })), "round {round}: {reason}");
        assert_eq!(victim.shared.log().count(), round, "and nothing else has ended");
    }
    victim.finish();
}
