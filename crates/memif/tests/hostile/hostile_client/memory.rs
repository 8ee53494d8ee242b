//! With its memory.

use std::os::fd::AsFd;

use memif::region::{SealPolicy, notices_punched_holes};
use rustix::fs::{FallocateFlags, SealFlags, fallocate, fstat, ftruncate};
use rustix::io::Errno;

use super::peer::{MEMORY, Peer, RX, TX, memfd};
use crate::arena::Arena;
use crate::wire::{HEAD, last_words, skipped};

#[test]
fn region_smaller_than_claimed() {
    let arena = Arena::new("claimed", |setting| setting.hostile.seals = SealPolicy::Allow);
    for claimed in [MEMORY + 1, 2 * MEMORY, 1 << 20] {
        let words = format!("the region claims {claimed} bytes but its file has {MEMORY}");
        arena.turned_away("region-too-small", &words, |peer| {
            peer.init();
            peer.region_with(0, claimed, &[peer.memory.as_fd()]);
        });
    }
    arena.turned_away("region-size", "region size 0 is not in 1..=4294967296", |peer| {
        peer.init();
        peer.region_with(0, 0, &[peer.memory.as_fd()]);
    });
    arena.finish();
}

#[test]
fn region_huge() {
    let arena = Arena::new("huge", |_| ());
    for (claimed, total) in [((1 << 20) + 1, (1 << 20) + 1), (u64::MAX, u64::MAX), (1 << 40, 1 << 40)] {
        let words = format!("regions of {total} bytes, at most 1048576");
        arena.turned_away("too-much-memory", &words, |peer| {
            peer.init();
            peer.region_with(0, claimed, &[peer.memory.as_fd()]);
        });
    }
    // A sum that wraps.
    let words = format!("regions of {} bytes, at most 1048576", u64::MAX);
    arena.turned_away("too-much-memory", &words, |peer| {
        peer.begin();
        peer.region_with(1, u64::MAX, &[peer.memory.as_fd()]);
    });
    arena.finish();
}

/// More than 32-bit offsets can reach, where as much memory as it likes is allowed.
#[test]
fn region_beyond_4_gib() {
    let arena = Arena::new("4gib", |setting| setting.hostile.max_memory = u64::MAX);
    let sparse = memfd(1 << 40, SealFlags::SHRINK);
    let words = format!("region size {} is not in 1..=4294967296", (1_u64 << 32) + 1);
    arena.turned_away("region-size", &words, |peer| {
        peer.init();
        peer.region_with(0, (1 << 32) + 1, &[sparse.as_fd()]);
    });
    arena.finish();
}

/// A file of a tebibyte, of which it announces a little: that is all that is mapped.
#[test]
fn fd_of_a_huge_file() {
    let arena = Arena::new("huge-file", |_| ());
    let peer = Peer::with_memory(&arena.name, memfd(1 << 40, SealFlags::SHRINK));
    peer.handshake();
    peer.publish(&[peer.good(TX, 0, 100)]);
    arena.shared.wait("its packet is taken", |log| (log.received == 1).then_some(()));
    arena.ends(
        &peer,
        "fault-range",
        &format!("descriptor points outside of the regions: region 0, offset {MEMORY}, length 1"),
        |peer| {
            peer.describe(
                TX,
                1,
                crate::wire::Slot { offset: MEMORY as u32, length: 1, ..Default::default() },
            );
            peer.set(TX, HEAD, 2);
        },
    );
    arena.finish();
}

#[test]
fn region_unsealed_is_refused() {
    for (policy, test) in [(SealPolicy::Require, "unsealed"), (SealPolicy::Shared, "unsealed-shared")] {
        refuses_what_is_unsealed(Arena::new(test, |setting| setting.hostile.seals = policy));
    }
}

fn refuses_what_is_unsealed(arena: Arena) {
    for seals in [SealFlags::empty(), SealFlags::GROW, SealFlags::SEAL] {
        let peer = Peer::with_memory(&arena.name, memfd(MEMORY, seals));
        arena.ends(
            &peer,
            "region-unsealed",
            "the region's file is not sealed against shrinking (F_SEAL_SHRINK)",
            Peer::begin,
        );
    }
    arena.finish();
}

#[test]
fn region_unsealed_is_served_where_allowed() {
    let arena = Arena::new("trusting", |setting| setting.hostile.seals = SealPolicy::Allow);
    let peer = Peer::with_memory(&arena.name, memfd(MEMORY, SealFlags::empty()));
    peer.handshake();
    peer.publish(&[peer.good(TX, 0, 100); 5]);
    arena.shared.wait("its packets are taken", |log| (log.received == 5).then_some(()));
    drop(peer);
    arena.finish();
}

#[test]
fn region_sealed_against_writing() {
    for (policy, test) in [(SealPolicy::Require, "readonly"), (SealPolicy::Allow, "readonly-trusting")] {
        let arena = Arena::new(test, |setting| setting.hostile.seals = policy);
        for seal in [SealFlags::WRITE, SealFlags::FUTURE_WRITE] {
            let sealed = memfd(MEMORY, SealFlags::SHRINK | seal);
            arena.turned_away(
                "region-sealed-against-writing",
                "the region's file is sealed against writing: a file can be announced once",
                |peer| {
                    peer.init();
                    peer.region_with(0, MEMORY, &[sealed.as_fd()]);
                },
            );
        }
        arena.finish();
    }
}

/// Its pages could be freed, and a worker that touches one meanwhile sleeps until all are.
#[test]
fn region_sealed_against_seals() {
    let arena = Arena::new("unsealable", |_| ());
    for also in [SealFlags::empty(), SealFlags::GROW] {
        let sealed = memfd(MEMORY, SealFlags::SHRINK | SealFlags::SEAL | also);
        arena.turned_away(
            "region-unsealed",
            "the region's file can't be sealed against freeing its pages: leave out F_SEAL_SEAL",
            |peer| {
                peer.init();
                peer.region_with(0, MEMORY, &[sealed.as_fd()]);
            },
        );
    }
    arena.finish();
}

/// A file of half a gibibyte, all of it there, behind a little region: to free that would take tens of milliseconds, and who touches a page
/// of the region meanwhile sleeps all that time. It can't be done.
#[test]
fn region_whose_pages_cannot_be_freed() {
    const FILE: u64 = 512 << 20;
    let arena = Arena::new("pages", |_| ());
    for allocated in [0, FILE] {
        let memory = memfd(FILE, SealFlags::SHRINK);
        if allocated > 0 {
            fallocate(&memory, FallocateFlags::empty(), 0, allocated).unwrap();
        }
        let peer = Peer::with_memory(&arena.name, memory);
        let before = arena.shared.log().received;
        peer.handshake();
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        for (mode, at, len) in [
            (punch, 0, FILE),
            (punch, MEMORY.next_multiple_of(4096), FILE / 2),
            (FallocateFlags::empty(), FILE, FILE),
            (FallocateFlags::KEEP_SIZE, FILE, FILE),
        ] {
            assert_eq!(fallocate(&peer.memory, mode, at, len), Err(Errno::PERM), "{mode:?} {at} {len}");
        }
        assert_eq!(ftruncate(&peer.memory, 2 * FILE), Err(Errno::PERM));
        peer.publish(&[peer.good(TX, 0, 2048); 32]);
        arena.shared.wait("its packets are taken", |log| (log.received >= before + 32).then_some(()));
    }
    arena.finish();
}

/// The server reads: its worker gets SIGBUS in the middle of a copy, and goes on.
#[test]
fn region_truncated_while_it_is_read() {
    let arena = Arena::new("truncated-rx", |setting| setting.hostile.seals = SealPolicy::Allow);
    for left in [0, 4096, MEMORY / 2] {
        let peer = Peer::with_memory(&arena.name, memfd(MEMORY, SealFlags::empty()));
        peer.handshake();
        arena.ends(&peer, "fault-memory-lost", "shared memory was truncated", |peer| {
            let slots: Vec<_> = (0..64).map(|slot| peer.good(TX, slot, 2048)).collect();
            peer.publish(&slots[..32]);
            arena.shared.wait("packets are taken", |log| (log.received > 0).then_some(()));
            ftruncate(&peer.memory, left).unwrap();
            if left > 0 {
                // The rings are still there: descriptors of pages that are not.
                (0..32).for_each(|slot| {
                    peer.describe(
                        TX,
                        slot,
                        crate::wire::Slot {
                            offset: MEMORY as u32 - 2048,
                            length: 2048,
                            ..Default::default()
                        },
                    );
                });
                peer.set(TX, HEAD, 64);
            }
        });
    }
    arena.finish();
}

/// The server writes: into pages that have gone.
#[test]
fn region_truncated_while_it_is_written() {
    let arena = Arena::new("truncated-tx", |setting| setting.hostile.seals = SealPolicy::Allow);
    for n in 1..=3 {
        let peer = Peer::with_memory(&arena.name, memfd(MEMORY, SealFlags::empty()));
        peer.handshake();
        ftruncate(&peer.memory, 16_384).unwrap();
        // Makes room for ever, so that the server goes on writing.
        for step in 0..12_000_u16 {
            peer.set(RX, HEAD, peer.tail(RX) + 64);
            if arena.shared.log().counters.get("fault-memory-lost") == Some(&n) {
                break;
            }
            assert!(step < 11_999 || arena.shared.log().count() == n);
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert_eq!(last_words(&peer.socket), "shared memory was truncated");
        arena
            .shared
            .wait("it is counted", |log| (log.counters.get("fault-memory-lost") == Some(&n)).then_some(()));
        assert_eq!(arena.shared.log().count(), n);
    }
    arena.finish();
}

/// Where regions needn't be kept. What was allocated beforehand is freed while it is used: the server doesn't pay for it instead.
#[test]
fn region_with_allocated_pages_freed_while_in_use() {
    if let Err(errno) = notices_punched_holes() {
        skipped(&format!("userfaultfd: {errno} (pages that a peer frees are made anew here)"));
        return;
    }
    let arena = Arena::new("freed", |setting| setting.hostile.seals = SealPolicy::Shared);
    for n in 1..=3 {
        let memory = memfd(MEMORY, SealFlags::SHRINK);
        fallocate(&memory, FallocateFlags::empty(), 0, MEMORY).unwrap();
        let peer = Peer::with_memory(&arena.name, memory);
        let before = arena.shared.log().received;
        peer.handshake();
        peer.publish(&[peer.good(TX, 0, 2048); 32]);
        arena.shared.wait("packets are taken", |log| (log.received >= before + 32).then_some(()));
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(&peer.memory, punch, 0, MEMORY).unwrap();
        assert_eq!(last_words(&peer.socket), "shared memory was truncated");
        arena
            .shared
            .wait("it is counted", |log| (log.counters.get("fault-memory-lost") == Some(&n)).then_some(()));
        assert_eq!(arena.shared.log().count(), n);
        assert_eq!(fstat(&peer.memory).unwrap().st_blocks, 0, "the server has made pages");
    }
    arena.finish();
}

/// Where regions needn't be sealed, a file may be punched full of holes: what is read there is zero. This one had holes to begin with, and is
/// on the interface's account.
#[test]
fn region_with_holes_punched_while_in_use() {
    let arena = Arena::new("holes", |setting| setting.hostile.seals = SealPolicy::Allow);
    let peer = arena.peer();
    peer.handshake();
    peer.publish(&[peer.good(TX, 0, 2048); 32]);
    arena.shared.wait("packets are taken", |log| (log.received >= 32).then_some(()));
    fallocate(&peer.memory, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 0, MEMORY).unwrap();
    // Its indices, too, of both rings: those are impossible ones. Or the server was just about to send, and met a buffer of
    // no bytes before it looked at an index again.
    let words = last_words(&peer.socket);
    let counter = match words.as_str() {
        "buffer without room posted" => "fault-no-capacity",
        words => {
            assert!(words.starts_with("ring index 0 is impossible"), "{words}");
            "fault-index"
        }
    };
    arena.shared.wait("it is counted", |log| (log.counters.get(counter) == Some(&1)).then_some(()));
    assert_eq!(arena.shared.log().count(), 1);
    arena.finish();
}
