//! In a trust group, whose packets lie in memory that all members share.
//!
//! What members may do to each other's bytes is what trust means here. Whatever they write into rings and descriptors moves no buffer, reaches no
//! memory of others, and ends no link but their own.

use std::collections::BTreeSet;

use memif::Reason;
use memif::ring::Fault;
use rustix::fs::{FallocateFlags, SealFlags, fallocate, fcntl_add_seals, ftruncate};
use rustix::io::Errno;

use super::member::{BUFFER, Group, MARK, is_memory_lost};
use super::raw::Served;
use crate::wire::{Dice, HEAD, NEXT, SLOTS, Slot, TAIL, put, word};

/// Distance of buffers in the group's memory: with room in front, and an odd number of cache lines.
const STRIDE: u64 = 35 * 64;

/// A packet that is long enough to be exchanged.
fn packet(length: u32) -> Slot {
    Slot { length, ..Slot::default() }
}

/// Somewhere in the group's memory, at its end, beyond it, and in a region that there isn't.
fn elsewhere(group: &Group, step: u64) -> Slot {
    let places = [0, step * STRIDE % group.memory(), group.memory() - 1, group.memory(), u64::from(u32::MAX)];
    let regions = [0, 1, 2, 77, u16::MAX];
    let at = step as usize;
    Slot { region: regions[at % 5], offset: places[at / 5 % 5] as u32, ..packet(1514) }
}

/// The server sends packets from the next slots on, and tells of them; waits until they are taken, on a link that must stay up.
fn publish(group: &Group, served: &Served, mut describe: impl FnMut(u64)) {
    let (before, ended) = {
        let log = group.victim.shared.log();
        (log.received, log.count())
    };
    let tail = word(served.memory.as_ref().unwrap(), served.to_client + TAIL);
    for slot in 0..32 {
        describe(u64::from(tail.wrapping_add(slot)));
    }
    served.set(served.to_client, TAIL, tail.wrapping_add(32));
    group.victim.shared.wait("packets are taken", |log| {
        assert_eq!(log.count(), ended, "the link has ended: {:?}", log.ended);
        (log.received >= before + 32).then_some(())
    });
}

#[test]
fn trust_group_member_that_points_at_buffers_of_others() {
    let group = Group::new("group-offsets");
    let mut served = group.victim.listening.accept();
    served.handshake();
    for round in 0..40 {
        publish(&group, &served, |slot| {
            // Its own buffer has its own bytes; what it says of where that is, is no use to it.
            let own = served.posted(served.to_client, slot);
            put(served.pool(), own, &[MARK; 1514]);
            served.describe(slot, elsewhere(&group, round * 32 + slot));
        });
        // Where the client hasn't said yet what it posts anew, the next round would lie about the wrong one.
        let posted = || served.word(served.to_client, HEAD).wrapping_sub(served.word(served.to_client, TAIL));
        group.victim.shared.wait("slots are given back", |_| (posted() == 64).then_some(()));
    }
    let log = group.victim.shared.log();
    assert_eq!((log.received, log.mixed_up, log.count()), (40 * 32, 0, 0), "{log:?}");
    drop((log, served));
    group.finish();
}

#[test]
fn trust_group_member_that_gives_back_slots_of_others() {
    let group = Group::new("group-foreign");
    let mut served = group.victim.listening.accept();
    served.handshake();
    let memory = || served.memory.as_ref().unwrap();
    for round in 0..40 {
        let full =
            || served.word(served.to_server, HEAD) == served.word(served.to_server, TAIL).wrapping_add(64);
        group.victim.shared.wait("its ring is full", |_| full().then_some(()));
        // Nothing moves in it now: each slot has a buffer, of the group, that no other slot has.
        let buffers: BTreeSet<u64> =
            (0..64).map(|slot| served.posted(served.to_server, slot) / STRIDE).collect();
        assert_eq!(buffers.len(), 64, "two slots have one buffer");
        assert!(buffers.last().is_some_and(|last| *last < group.memory() / STRIDE));
        for slot in 0..64 {
            let lie = elsewhere(&group, round * 64 + slot).bytes();
            put(memory(), served.to_server + SLOTS + slot * 16, &lie);
        }
        served.set(served.to_server, TAIL, served.word(served.to_server, HEAD));
    }
    assert_eq!(group.victim.shared.log().count(), 0, "that is no fault");
    drop(served);
    group.finish();
}

#[test]
fn trust_group_member_that_gives_back_slots_it_never_had() {
    let group = Group::new("group-jump");
    for tail in [0x4000, 0x8000, 0xc000] {
        let ended = group.victim.shared.log().count();
        let mut served = group.victim.listening.accept();
        served.handshake();
        served.set(served.to_server, TAIL, tail);
        let words = crate::wire::last_words(&served.socket);
        assert!(words.starts_with("ring index ") && words.contains("is impossible"), "{words}");
        group.victim.shared.wait("it is counted", |log| (log.count() == ended + 1).then_some(()));
    }
    for tail in [65, 0x8000, 0xffff] {
        let words = format!("ring index {tail} is impossible: at 0, with 0 of 64 slots held");
        group.victim.disconnects(&words, |served| served.set(served.to_client, TAIL, tail));
    }
    group.finish();
}

#[test]
fn trust_group_member_with_packets_longer_than_its_buffers() {
    let group = Group::new("group-long");
    for length in [BUFFER + 1, BUFFER + 192, u32::MAX] {
        for flags in [0, NEXT] {
            let words = format!("packet of {length} bytes, at most {BUFFER} are allowed");
            group.victim.disconnects(&words, |served| {
                served.publish(&[packet(1514), Slot { flags, ..packet(length) }, packet(1514)]);
            });
        }
    }
    group.victim.disconnects("empty packet", |served| served.publish(&[packet(1514), packet(0)]));
    for length in [0, 1] {
        group.victim.disconnects("chain without end", |served| {
            served.publish(&[Slot { flags: NEXT, ..packet(length) }; 64]);
        });
    }
    group.finish();
}

#[test]
fn trust_group_member_that_truncates_the_pool() {
    let group = Group::new("group-truncate");
    let mut served = group.victim.listening.accept();
    served.handshake();
    for size in [0, 4096, group.memory() - 4096, group.memory() + 4096] {
        assert_eq!(ftruncate(served.pool(), size), Err(Errno::PERM));
    }
    // Nor can it keep others from mapping it.
    for seal in [SealFlags::WRITE, SealFlags::FUTURE_WRITE] {
        assert_eq!(fcntl_add_seals(served.pool(), seal), Err(Errno::PERM));
    }
    publish(&group, &served, |slot| served.describe(slot, packet(1514)));
    assert_eq!(group.victim.shared.log().count(), 0, "that is no fault");
    drop(served);
    group.finish();
}

/// It takes the bytes of all members, which it may overwrite as well, and may so end links of members whose peers notice that (this one's
/// does, where there is userfaultfd): not the dataplane's memory, and not links of others.
#[test]
fn trust_group_member_that_frees_the_pages_of_the_pool() {
    let group = Group::of_two("group-holes");
    let mut served = group.victim.listening.accept();
    served.handshake();
    for _ in 0..5 {
        publish(&group, &served, |slot| served.describe(slot, packet(1514)));
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(served.pool(), punch, 0, group.memory()).unwrap();
    }
    publish(&group, &served, |slot| served.describe(slot, packet(1514)));
    assert_eq!(group.victim.shared.log().count(), 0, "that is no fault here");
    drop(served);
    let noticed = group.member_ended();
    assert!(noticed.iter().all(is_memory_lost), "{noticed:?}");
    group.finish();
}

/// Its packets are in the other member's ring by then, and packets for it in its own: the next link finds as many buffers as this one.
#[test]
fn trust_group_member_that_dies_holding_slots() {
    let group = Group::new("group-dies");
    for n in 1..=30_u16 {
        let mut served = group.victim.listening.accept();
        served.handshake();
        let full = || served.word(served.to_server, HEAD) == 64;
        group.victim.shared.wait("it holds all slots of its ring", |_| full().then_some(()));
        // Some of them are taken before it dies, and some are not.
        served.publish(&vec![packet(1514); usize::from(n * 2)]);
        drop(served);
        let closed = |log: &crate::arena::Log| log.counters.get("closed") == Some(&n.into());
        group.victim.shared.wait("its end is counted", |log| closed(log).then_some(()));
    }
    assert_eq!(group.victim.shared.log().count(), 30);
    group.finish();
}

/// It keeps the memory of a link that is over, and goes on writing there.
#[test]
fn trust_group_member_that_writes_after_its_end() {
    let group = Group::new("group-after");
    let mut served = group.victim.listening.accept();
    served.handshake();
    publish(&group, &served, |slot| served.describe(slot, packet(1514)));
    let Served { memory, to_client, to_server, socket, .. } = served;
    drop(socket);
    group.victim.shared.wait("its end is counted", |log| (log.count() == 1).then_some(()));
    let mut served = group.victim.listening.accept();
    served.handshake();
    let size = to_client.max(to_server) + SLOTS + 64 * 16;
    put(memory.as_ref().unwrap(), 0, &vec![0xff; size as usize]);
    publish(&group, &served, |slot| {
        put(served.pool(), served.posted(served.to_client, slot), &[MARK; 1514]);
        served.describe(slot, packet(1514));
    });
    assert_eq!(group.victim.shared.log().count(), 1, "that is no fault");
    drop(served);
    group.finish();
}

/// Whatever it writes into descriptors and indices all the time while packets change rings.
#[test]
fn trust_group_member_whose_words_change_while_they_are_read() {
    let group = Group::new("group-race");
    for round in 1..=5 {
        let mut served = group.victim.listening.accept();
        served.handshake();
        let mut dice = Dice::new(round);
        let (taken, reason) = group.victim.shared.race(2000, |step, lies| {
            let dice = dice.roll();
            let length =
                if lies && dice & 0x3ff == 0 { dice as u32 } else { 60 + (dice >> 40) as u32 % 1900 };
            let flags = u16::from(dice >> 12 & 0xf == 0);
            // Where it says that they are counts for nothing, from the beginning.
            let lie = Slot { length, flags, ..elsewhere(&group, dice >> 20) };
            served.describe(step, lie);
            put(served.memory.as_ref().unwrap(), served.to_server + SLOTS + step % 64 * 16, &lie.bytes());
            for ring in [served.to_client, served.to_server] {
                served.set(ring, TAIL, served.word(ring, HEAD));
            }
        });
        assert!(taken >= 2000, "{taken} packets in round {round}");
        assert!(matches!(reason, Reason::Fault(Fault::TooLong { .. })), "round {round}: {reason}");
        assert_eq!(group.victim.shared.log().count(), round, "and nothing else has ended");
    }
    group.finish();
}
