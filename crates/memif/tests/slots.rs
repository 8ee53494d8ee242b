//! From ring to packet slots to ring, as a dataplane does it: every byte arrives, in order, once, on every tier, however lines
//! of descriptors and kinds of packets fall together; and a descriptor that lies is a fault wherever in a line it stands.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::{packet, receive, send};
use memif::ring::{Descriptor, FLAG_NEXT, RING_HEADER};
use memif::{Connection, Fault, QueueConfig, QueueError, RingSize, RxQueue, TxQueue, in_process};
use memory::packet::{Packets, SlotId};
use memory::region::HugePages;
use memory::simd::{Simd, Tier, TierTask};

fn pair(ring: u32) -> (Connection, Connection) {
    let ring_size = RingSize::from_descriptors(ring).unwrap();
    in_process(&QueueConfig { ring_size, huge_pages: HugePages::Never, ..QueueConfig::default() }).unwrap()
}

/// Takes up to `max` packets from one queue into slots and sends them to another; gives how many.
struct Forward<'a>(&'a mut RxQueue, &'a mut TxQueue, &'a mut Packets, usize);

impl TierTask for Forward<'_> {
    type Output = Result<usize, QueueError>;

    fn run<S: Simd>(self, simd: S) -> Self::Output {
        let Self(rx, tx, packets, max) = self;
        let before = (rx.counters(), tx.counters());
        let (slots, bytes) = rx.receive_packets(simd, packets, 1, max)?;
        let slots: Vec<_> = slots.map(|slot| slot as SlotId).collect();
        let sent = tx.transmit_packets(simd, packets, &slots)?;
        assert_eq!((sent.packets, sent.bytes, sent.refused), (slots.len(), bytes, false));
        let after = (rx.counters(), tx.counters());
        for (before, after) in [(before.0, after.0), (before.1, after.1)] {
            let counted = (after.packets - before.packets, after.bytes - before.bytes, after.full);
            assert_eq!(counted, (slots.len() as u64, bytes, 0));
        }
        rx.release();
        packets.end_round();
        Ok(slots.len())
    }
}

/// Lengths by number: `kind` 0 is long stretches of one length only, then ever more others between them.
fn length(kind: usize, number: usize) -> usize {
    const USUAL: [usize; 8] = [64, 60, 1, 65, 128, 129, 64, 1500];
    const OTHERS: [usize; 9] = [1, 63, 65, 127, 128, 129, 1500, 2048, 5000];
    let rare = [usize::MAX, 97, 11, 3, 1][kind];
    if number % rare == rare - 1 {
        OTHERS[number / rare % OTHERS.len()]
    } else {
        USUAL[number / 600 % USUAL.len()]
    }
}

#[test]
fn every_byte_arrives_however_packets_fall_into_lines() {
    for tier in Tier::available() {
        for kind in 0..5 {
            let (mut left, mut left_server) = pair(64);
            let (mut right, mut right_server) = pair(64);
            let mut packets = Packets::new();
            let (mut number, mut batch) = (0, 0);
            // Indices wrap at 65536: once will do.
            let all = if kind == 2 { 70_000 } else { 5_000 };
            while number < all {
                batch = batch * 7 % 31 + 1;
                let frames: Vec<_> = (number..number + batch).map(|n| packet(n, length(kind, n))).collect();
                let sent = send(&mut left.tx[0], &frames).unwrap();
                let mut forwarded = 0;
                while forwarded < sent {
                    let max = [256, 5, 4, 1][number % 4];
                    let task = Forward(&mut left_server.rx[0], &mut right_server.tx[0], &mut packets, max);
                    let n = tier.dispatch(task).unwrap();
                    assert!(n > 0 && n <= max);
                    assert!(
                        receive(&mut right.rx[0]).unwrap() == frames[forwarded..forwarded + n],
                        "{} kind {kind}, from packet {number} on",
                        tier.name()
                    );
                    forwarded += n;
                }
                number += sent;
            }
        }
    }
}

#[test]
fn a_full_ring_takes_whole_and_part_lines_and_no_more() {
    for tier in Tier::available() {
        for room in 0..10 {
            let (mut left, mut left_server) = pair(64);
            let (mut right, mut right_server) = pair(64);
            let frames: Vec<_> = (0..64).map(|n| packet(n, 64)).collect();
            send(&mut right_server.tx[0], &frames[..64 - room]).unwrap();
            send(&mut left.tx[0], &frames).unwrap();
            let mut packets = Packets::new();
            struct Try<'a>(&'a mut Connection, &'a mut Connection, &'a mut Packets);
            impl TierTask for Try<'_> {
                type Output = usize;
                fn run<S: Simd>(self, simd: S) -> usize {
                    let (slots, _) = self.0.rx[0].receive_packets(simd, self.2, 1, 256).unwrap();
                    let slots: Vec<_> = slots.map(|slot| slot as SlotId).collect();
                    assert_eq!(slots.len(), 64);
                    let sent = self.1.tx[0].transmit_packets(simd, self.2, &slots).unwrap();
                    assert!(!sent.refused);
                    sent.packets
                }
            }
            let sent = tier.dispatch(Try(&mut left_server, &mut right_server, &mut packets));
            assert_eq!(sent, room, "{}", tier.name());
            assert_eq!(receive(&mut right.rx[0]).unwrap()[64 - room..], frames[..room]);
        }
    }
}

/// What lies: where among the descriptors, and what stands there. Of packets of a line, and of two.
fn lies(mut spoil: impl FnMut(Descriptor) -> Descriptor, want: impl Fn(&Fault) -> bool, to_send: bool) {
    for tier in Tier::available() {
        for (at, bytes) in (0..9u16).flat_map(|at| [64, 100].map(|bytes| (at, bytes))) {
            let (mut left, mut left_server) = pair(64);
            let (right, mut right_server) = pair(64);
            send(&mut left.tx[0], &(0..9).map(|n| packet(n, bytes)).collect::<Vec<_>>()).unwrap();
            // The ring the client sends to comes first in its region, the one it receives from behind it.
            let (queue, ring) = if to_send {
                (right.tx[0].regions(), memif::ring::RingView::bytes(RingSize::MIN))
            } else {
                (left.tx[0].regions(), 0)
            };
            let range = queue.check(0, ring + RING_HEADER + u32::from(at) * 16, 16).unwrap();
            let mut words = [0; 16];
            range.read(&mut words);
            let word = |n: usize| u64::from_le_bytes(words[n * 8..][..8].try_into().unwrap());
            let d = spoil(Descriptor::from_words(word(0), word(1)));
            range.write(&[d.first_word().to_le_bytes(), d.second_word().to_le_bytes()].concat());
            let mut packets = Packets::new();
            let task = Forward(&mut left_server.rx[0], &mut right_server.tx[0], &mut packets, 256);
            let fault = tier.dispatch(task).unwrap_err().fault;
            assert!(want(&fault), "{}, descriptor {at}, {bytes} bytes: {fault}", tier.name());
        }
    }
}

#[test]
fn a_received_descriptor_that_lies_is_a_fault() {
    let range = |fault: &Fault| matches!(fault, Fault::Range { .. });
    lies(|d| Descriptor { region: 1, ..d }, range, false);
    lies(|d| Descriptor { offset: u32::MAX, ..d }, range, false);
    lies(|d| Descriptor { offset: u32::MAX - 63, ..d }, range, false);
    lies(|d| Descriptor { length: 0, ..d }, |fault| matches!(fault, Fault::Empty), false);
    lies(
        |d| Descriptor { length: 0x0001_0000 * 70, ..d },
        |fault| matches!(fault, Fault::TooLong { .. }),
        false,
    );
    lies(
        |d| Descriptor { flags: FLAG_NEXT, length: u32::MAX, ..d },
        |fault| matches!(fault, Fault::TooLong { .. }),
        false,
    );
}

#[test]
fn a_buffer_that_lies_elsewhere_is_a_fault() {
    let range = |fault: &Fault| matches!(fault, Fault::Range { .. });
    lies(|d| Descriptor { region: 7, ..d }, range, true);
    for before_end in [20, 64, 90] {
        lies(|d| Descriptor { offset: u32::MAX - before_end, ..d }, range, true);
    }
    lies(|d| Descriptor { length: 0, ..d }, |fault| matches!(fault, Fault::NoCapacity), true);
}
