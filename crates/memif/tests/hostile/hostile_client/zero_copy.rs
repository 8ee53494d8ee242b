//! With a pool of its own that it exposes: rings in one region, packet buffers in another that isn't sealed, as clients do that don't copy
//! (DPDK's `zero-copy=yes`).

use std::os::fd::{AsFd, OwnedFd};

use memif::region::SealPolicy;
use rustix::fs::{SealFlags, ftruncate};

use super::peer::{BUFFERS, Peer, RX, TX, memfd};
use crate::arena::Arena;
use crate::wire::{CONNECTED, HEAD, Slot, kind, receive};

const POOL: u64 = 2 * 64 * 2048;

/// A server that takes such pools.
fn arena(test: &str) -> Arena {
    Arena::new(test, |setting| setting.hostile.seals = SealPolicy::Allow)
}

/// A client that is connected, its ring to the server empty, all buffers in the pool.
fn connected(arena: &Arena) -> (Peer, OwnedFd) {
    let peer = arena.peer();
    let pool = memfd(POOL, SealFlags::empty());
    for slot in 0..64 {
        peer.describe(TX, slot, in_pool(TX, slot, 1514));
        peer.describe(RX, slot, in_pool(RX, slot, 2048));
    }
    peer.begin();
    peer.region_with(1, POOL, &[pool.as_fd()]);
    peer.ring(super::peer::TX_RING);
    peer.ring(super::peer::RX_RING);
    peer.say_connect();
    while kind(&receive(&peer.socket).expect("the handshake is as it should be").0) != CONNECTED {}
    (peer, pool)
}

fn in_pool(ring: u64, slot: u64, length: u32) -> Slot {
    let at = (ring / RX * 64 + slot % 64) * 2048;
    Slot { flags: 0, region: 1, length, offset: at as u32 }
}

#[test]
fn zero_copy_pool_truncated_while_it_is_read() {
    let arena = arena("pool-rx");
    for left in [0, 4096, POOL / 2] {
        let (peer, pool) = connected(&arena);
        arena.ends(&peer, "fault-memory-lost", "shared memory was truncated", |peer| {
            let received = arena.shared.log().received;
            peer.set(TX, HEAD, 32);
            arena.shared.wait("packets are taken", |log| (log.received > received).then_some(()));
            ftruncate(&pool, left).unwrap();
            // The rings are still there.
            (32..96).for_each(|slot| peer.describe(TX, slot, in_pool(RX, 63, 1514)));
            peer.set(TX, HEAD, 64);
        });
    }
    arena.finish();
}

#[test]
fn zero_copy_pool_truncated_while_it_is_written() {
    let arena = arena("pool-tx");
    for left in [0, 4096] {
        let (peer, pool) = connected(&arena);
        arena.ends(&peer, "fault-memory-lost", "shared memory was truncated", |peer| {
            // Whether or not there was a packet for it already: what is posted from here on isn't there.
            ftruncate(&pool, left).unwrap();
            (0..64).for_each(|slot| peer.describe(RX, slot, in_pool(RX, slot, 2048)));
            for _ in 0..10 {
                let ended = arena.shared.log().count();
                peer.set(RX, HEAD, peer.tail(RX).wrapping_add(64));
                std::thread::sleep(std::time::Duration::from_millis(5));
                if arena.shared.log().count() > ended {
                    break;
                }
            }
        });
    }
    arena.finish();
}

#[test]
fn zero_copy_pool_offsets_and_regions_that_are_not_its_own() {
    let arena = arena("pool-range");
    let last = POOL as u32;
    let lies = [
        Slot { offset: last, length: 1, ..in_pool(TX, 0, 1) },
        Slot { offset: last - 1, length: 2, ..in_pool(TX, 0, 1) },
        Slot { offset: u32::MAX, length: 1514, ..in_pool(TX, 0, 1) },
        Slot { region: 2, ..in_pool(TX, 0, 1514) },
        Slot { region: u16::MAX, ..in_pool(TX, 0, 1514) },
    ];
    for lie in lies {
        let Slot { region, offset, length, .. } = lie;
        let words = format!(
            "descriptor points outside of the regions: region {region}, offset {offset}, length {length}"
        );
        let (peer, _pool) = connected(&arena);
        arena.ends(&peer, "fault-range", &words, |peer| peer.publish(&[in_pool(TX, 0, 1514), lie]));
    }
    arena.finish();
}

/// All slots of both rings have one buffer, or lie across each other and over the rings: its packets are a mess, and nobody else's.
#[test]
fn zero_copy_pool_buffers_in_several_slots() {
    let arena = arena("pool-same");
    let before = arena.shared.log().received;
    let (peer, _pool) = connected(&arena);
    for round in 0..20_u16 {
        for slot in 0..64 {
            let shared = Slot { offset: u32::from(round) * 100 + slot as u32 % 3, ..in_pool(TX, 0, 1514) };
            peer.describe(TX, slot, shared);
            // Behind the rings, where the peer has buffers that it doesn't use; and the same as it sends.
            let over = Slot { region: 0, offset: BUFFERS as u32 + slot as u32, length: 2048, flags: 0 };
            peer.describe(RX, slot, if slot % 2 == 0 { over } else { Slot { length: 2048, ..shared } });
        }
        peer.set(TX, HEAD, 64 * (round + 1));
        let wanted = before + 64 * u64::from(round + 1);
        arena.shared.wait("packets are taken", |log| (log.received == wanted).then_some(()));
        peer.set(RX, HEAD, peer.tail(RX).wrapping_add(64));
    }
    assert_eq!(arena.shared.log().count(), 0, "that is no fault: {:?}", arena.shared.log().ended);
    drop(peer);
    arena.finish();
}

/// It goes while the server has buffers of it, read and written, and a pool that nobody else has.
#[test]
fn zero_copy_client_that_dies_holding_slots() {
    let arena = arena("pool-dies");
    for n in 1..=20 {
        let (peer, pool) = connected(&arena);
        peer.set(TX, HEAD, 64);
        // Nothing is ever taken from the ring to it, and the slots of the other are not used again.
        let filled = || peer.tail(RX) > 0;
        arena.shared.wait("it was sent something", |_| filled().then_some(()));
        drop((peer, pool));
        let closed = |log: &crate::arena::Log| log.counters.get("closed") == Some(&n);
        arena.shared.wait("its end is counted", |log| closed(log).then_some(()));
    }
    assert_eq!(arena.shared.log().count(), 20);
    arena.finish();
}
