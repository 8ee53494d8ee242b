//! In the rings.

use memif::Reason;
use memif::ring::Fault;

use super::peer::{BUFFERS, MEMORY, RX, TX};
use crate::arena::Arena;
use crate::wire::{Dice, HEAD, NEXT, Slot, TAIL, put, word};

fn outside(slot: Slot) -> String {
    let Slot { region, length, offset, .. } = slot;
    format!("descriptor points outside of the regions: region {region}, offset {offset}, length {length}")
}

/// Publishes a packet, one that is bad, and another good one: alone, and as parts of a chain. What came before the bad one has come, and nothing
/// of its own chain or behind it.
fn bad_descriptor(arena: &Arena, counter: &str, words: &str, bad: Slot) {
    for (flags, innocent) in [(0, 2), (NEXT, 1)] {
        let before = arena.shared.log().received;
        arena.disconnected(counter, words, |peer| {
            let good = peer.good(TX, 1, 100);
            peer.publish(&[good, Slot { flags, ..good }, bad, good]);
        });
        assert_eq!(arena.shared.log().received - before, innocent, "{words}");
    }
}

#[test]
fn region_out_of_range() {
    let arena = Arena::new("d-region", |_| ());
    for region in [1, 2, 256, u16::MAX] {
        let bad = Slot { region, length: 100, offset: BUFFERS as u32, flags: 0 };
        bad_descriptor(&arena, "fault-range", &outside(bad), bad);
    }
    arena.finish();
}

#[test]
fn offset_out_of_range() {
    let arena = Arena::new("d-offset", |_| ());
    for offset in [MEMORY as u32, MEMORY as u32 - 99, u32::MAX, 1 << 31] {
        let bad = Slot { length: 100, offset, ..Slot::default() };
        bad_descriptor(&arena, "fault-range", &outside(bad), bad);
    }
    arena.finish();
}

#[test]
fn length_out_of_range() {
    let arena = Arena::new("d-length", |_| ());
    // One byte too far, and a sum that wraps around 32 bits.
    for (offset, length) in [(MEMORY as u32 - 1000, 1001), (u32::MAX - 10, 20), (u32::MAX, 9000)] {
        let bad = Slot { length, offset, ..Slot::default() };
        bad_descriptor(&arena, "fault-range", &outside(bad), bad);
    }
    arena.finish();
}

#[test]
fn length_oversize() {
    let arena = Arena::new("d-oversize", |_| ());
    for length in [9217, 65_535, 65_536, 65_636, 1 << 31, u32::MAX] {
        let words = format!("packet of {length} bytes, at most 9216 are allowed");
        arena.disconnected("fault-too-long", &words, |peer| {
            peer.publish(&[peer.good(TX, 0, 100), peer.good(TX, 1, length)]);
        });
    }
    arena.finish();
}

#[test]
fn length_oversize_of_a_chain() {
    let arena = Arena::new("d-oversize-chain", |_| ());
    arena.disconnected("fault-too-long", "packet of 10240 bytes, at most 9216 are allowed", |peer| {
        let part = Slot { flags: NEXT, ..peer.good(TX, 0, 2048) };
        peer.publish(&[part, part, part, part, Slot { flags: 0, ..part }]);
    });
    // The sum of two lengths wraps around 32 bits to something small.
    arena.disconnected("fault-too-long", "packet of 4294967295 bytes, at most 9216 are allowed", |peer| {
        let part = Slot { flags: NEXT, ..peer.good(TX, 0, 2048) };
        peer.publish(&[part, Slot { flags: 0, length: u32::MAX - 2000, ..part }]);
    });
    arena.finish();
}

#[test]
fn length_zero() {
    let arena = Arena::new("d-zero", |_| ());
    arena.disconnected("fault-empty", "empty packet", |peer| peer.publish(&[peer.good(TX, 0, 0)]));
    arena.disconnected("fault-empty", "empty packet", |peer| {
        let part = Slot { flags: NEXT, ..peer.good(TX, 0, 0) };
        peer.publish(&[part, part, Slot { flags: 0, ..part }]);
    });
    arena.finish();
}

#[test]
fn chain_that_loops() {
    let arena = Arena::new("d-loop", |_| ());
    // A chain goes on in the next slot: one through all slots comes back to its beginning.
    for length in [1, 0] {
        arena.disconnected("fault-endless-chain", "chain without end", |peer| {
            let slots: Vec<_> =
                (0..64).map(|slot| Slot { flags: NEXT, ..peer.good(TX, slot, length) }).collect();
            peer.publish(&slots);
        });
    }
    arena.finish();
}

#[test]
fn chain_without_end_in_pieces() {
    let arena = Arena::new("d-endless", |_| ());
    arena.disconnected("fault-endless-chain", "chain without end", |peer| {
        for slot in 0..64 {
            peer.describe(TX, slot, Slot { flags: NEXT, ..peer.good(TX, slot, 1) });
            peer.set(TX, HEAD, slot as u16 + 1);
            arena.shared.traffic_flows(1);
        }
    });
    arena.finish();
}

/// A chain of which the rest never comes holds up nobody else, and counts when it does come.
#[test]
fn chain_that_stops_in_the_middle() {
    let arena = Arena::new("d-middle", |_| ());
    let peer = arena.peer();
    peer.handshake();
    peer.publish(&[Slot { flags: NEXT, ..peer.good(TX, 0, 100) }; 3]);
    arena.shared.traffic_flows(300);
    assert_eq!((arena.shared.log().received, peer.tail(TX)), (0, 0));
    peer.describe(TX, 3, peer.good(TX, 3, 100));
    peer.set(TX, HEAD, 4);
    arena.shared.wait("the chain is taken", |log| (log.received == 1).then_some(()));
    arena.ends(&peer, "closed", "connection closed by the peer", |peer| {
        rustix::net::shutdown(&peer.socket, rustix::net::Shutdown::Write).unwrap();
    });
    arena.finish();
}

fn impossible(index: u16, taken: u16) -> String {
    format!("ring index {index} is impossible: at {taken}, with 0 of 64 slots held")
}

#[test]
fn head_that_jumps_ahead() {
    let arena = Arena::new("head-ahead", |_| ());
    for head in [65, 66, 1000, 0x7fff, 0x8000, 0xffff] {
        arena.disconnected("fault-index", &impossible(head, 0), |peer| peer.set(TX, HEAD, head));
    }
    arena.finish();
}

#[test]
fn head_that_jumps_back() {
    let arena = Arena::new("head-back", |_| ());
    for head in [9, 0, 0xfff0] {
        arena.disconnected("fault-index", &impossible(head, 10), |peer| {
            peer.publish(&[peer.good(TX, 0, 100); 10]);
            let taken = || (peer.tail(TX) == 10).then_some(());
            arena.shared.wait("the packets are taken", |_| taken());
            peer.set(TX, HEAD, head);
        });
    }
    arena.finish();
}

/// The server never reads its own index back: who overwrites it hurts nobody but itself.
#[test]
fn tail_that_is_not_the_peers_to_write() {
    let arena = Arena::new("tail", |_| ());
    let peer = arena.peer();
    peer.handshake();
    for head in 1..=200_u16 {
        for ring in [TX, RX] {
            peer.set(ring, TAIL, head.wrapping_mul(7919));
        }
        peer.set(TX, HEAD, head);
        arena.shared.wait("the packet is taken", |log| (log.received == u64::from(head)).then_some(()));
    }
    drop(peer);
    arena.finish();
}

#[test]
fn head_of_the_other_ring_that_jumps() {
    let arena = Arena::new("head-rx", |_| ());
    // The server may have sent already: its own index is not known exactly.
    for head in [0x4000, 0x8000, 0xc000] {
        let peer = arena.peer();
        peer.handshake();
        let words = {
            peer.set(RX, HEAD, head);
            crate::wire::last_words(&peer.socket)
        };
        assert!(words.starts_with(&format!("ring index {head} is impossible")), "{words}");
    }
    arena.shared.wait("all are counted", |log| (log.counters.get("fault-index") == Some(&3)).then_some(()));
    assert_eq!(arena.shared.log().count(), 3);
    arena.finish();
}

/// The server writes where the client says: only inside of what the client has announced.
fn bad_buffer(test: &str, counter: &str, bads: &[Slot], words: impl Fn(&Slot) -> Vec<String>) {
    let arena = Arena::new(test, |_| ());
    for (n, bad) in (1..).zip(bads) {
        let peer = arena.peer();
        for slot in 0..64 {
            peer.describe(RX, slot, *bad);
        }
        peer.handshake();
        let said = crate::wire::last_words(&peer.socket);
        assert!(words(bad).iter().any(|words| said.starts_with(words)), "{said}");
        arena.shared.wait("it is counted", |log| (log.counters.get(counter) == Some(&n)).then_some(()));
        assert_eq!(arena.shared.log().count(), n);
    }
    arena.finish();
}

#[test]
fn buffer_to_send_into_out_of_range() {
    let slot = |region, offset| Slot { region, offset, length: 2048, flags: 0 };
    let end = MEMORY as u32;
    let bads = [slot(1, 0), slot(u16::MAX, 0), slot(0, end), slot(0, end - 59), slot(0, u32::MAX)];
    bad_buffer("b-range", "fault-range", &bads, |bad| {
        let Slot { region, offset, .. } = bad;
        vec![format!("descriptor points outside of the regions: region {region}, offset {offset}, length ")]
    });
}

#[test]
fn buffer_to_send_into_without_room() {
    let bads = [Slot { length: 0, offset: BUFFERS as u32, ..Slot::default() }];
    bad_buffer("b-empty", "fault-no-capacity", &bads, |_| vec!["buffer without room posted".into()]);
}

/// A peer that has the server write its packets over the rings themselves: rubbish in, a fault or nothing out.
#[test]
fn buffers_on_top_of_the_rings() {
    let arena = Arena::new("b-rings", |_| ());
    for _ in 0..3 {
        let peer = arena.peer();
        for slot in 0..64 {
            peer.describe(RX, slot, Slot { offset: (slot * 16) as u32, length: 4096, ..Slot::default() });
            peer.describe(TX, slot, Slot { offset: (slot * 16) as u32, length: 64, ..Slot::default() });
        }
        peer.handshake();
        peer.set(TX, HEAD, 64);
        arena.shared.traffic_flows(200);
        drop(peer);
    }
    arena.finish();
}

/// Changes descriptors and indices all the time while they are used.
#[test]
fn words_that_change_while_they_are_read() {
    let arena = Arena::new("race", |_| ());
    for round in 1..=5 {
        let peer = arena.peer();
        peer.handshake();
        let mut dice = Dice::new(round);
        let (taken, reason) = arena.shared.race(2000, |step, lies| {
            let dice = dice.roll();
            let ring = if dice & 1 == 0 { TX } else { RX };
            let slot = match dice >> 1 & 0x3ff {
                0 if lies => {
                    Slot { region: (dice >> 16) as u16, length: (dice >> 8) as u32, ..Slot::default() }
                }
                n => Slot {
                    flags: u16::from(n < 64),
                    ..peer.good(ring, step, 60 + (dice >> 40) as u32 % 1900)
                },
            };
            peer.describe(ring, step, slot);
            for ring in [TX, RX] {
                put(
                    &peer.memory,
                    ring + HEAD,
                    &word(&peer.memory, ring + TAIL).wrapping_add(64).to_le_bytes(),
                );
            }
        });
        assert!(taken >= 2000, "{taken} packets in round {round}");
        // A packet of that length, in that region; or a buffer to send into that isn't there.
        let right = matches!(reason, Reason::Fault(Fault::TooLong { .. } | Fault::Range { .. }));
        assert!(right, "round {round}: {reason}");
        assert_eq!(arena.shared.log().count(), round, "and nothing else has ended");
    }
    arena.finish();
}
