//! Packets in very many very small pieces, in or out: each piece costs, and a peer can't have others pay for more than so many of them
//! in a round.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::packet;
use memif::ring::{Armed, Descriptor, FLAG_NEXT, RING_HEADER, RingView};
use memif::{Connection, Fault, QueueConfig, QueueError, RingSize, in_process};
use memory::packet::{Packets, SlotId};
use memory::region::{HugePages, RegionTable};
use memory::simd::{Simd, Tier, TierTask};

/// Descriptors that one call looks at for packets in pieces, besides those of the last such packet.
const A_CALL: usize = 2048;
const HEAD: u32 = 6;

fn pair() -> (Connection, Connection) {
    let config =
        QueueConfig { ring_size: RingSize::MAX, huge_pages: HugePages::Never, ..QueueConfig::default() };
    in_process(&config).unwrap()
}

/// Where the client's buffers begin, behind its rings.
fn buffers() -> u32 {
    2 * RingView::bytes(RingSize::MAX)
}

fn describe(table: &RegionTable, ring: u32, slot: usize, d: Descriptor) {
    let range = table.check(0, ring + RING_HEADER + slot as u32 * 16, 16).unwrap();
    range.write(&[d.first_word().to_le_bytes(), d.second_word().to_le_bytes()].concat());
}

/// The client sends these packets in pieces of so many bytes.
fn send(client: &Connection, packets: &[Vec<u8>], part: usize) {
    let table = client.tx[0].regions();
    let (mut slot, mut at) = (0, buffers());
    for packet in packets {
        let parts = packet.chunks(part);
        let last = parts.len() - 1;
        for (n, part) in parts.enumerate() {
            table.check(0, at, part.len() as u32).unwrap().write(part);
            let flags = if n == last { 0 } else { FLAG_NEXT };
            describe(table, 0, slot, Descriptor { flags, region: 0, length: part.len() as u32, offset: at });
            slot += 1;
            // Not next to each other.
            at += part.len() as u32 + 1;
        }
    }
    assert!(slot <= usize::from(RingSize::MAX.descriptors()));
    table.check(0, HEAD, 2).unwrap().write(&(slot as u16).to_le_bytes());
}

/// The client's buffers to receive into are of so many bytes.
fn post(client: &Connection, length: u32) {
    let first = RingView::bytes(RingSize::MAX) + RING_HEADER;
    for slot in 0..u32::from(RingSize::MAX.descriptors()) {
        let range = client.rx[0].regions().check(0, first + slot * 16 + 4, 4).unwrap();
        range.write(&length.to_le_bytes());
    }
}

/// A round: what came from `.0`, at most so many packets, goes out to `.1`. Gives how many came, how many went, and how many slots the
/// first were in.
struct Round<'a>(&'a mut Connection, &'a mut Connection, &'a mut Packets, usize);

impl TierTask for Round<'_> {
    type Output = Result<(usize, usize, usize), QueueError>;

    fn run<S: Simd>(self, simd: S) -> Self::Output {
        let Self(from, to, packets, max) = self;
        let (slots, _) = from.rx[0].receive_packets(simd, packets, 1, max)?;
        let slots: Vec<_> = slots.map(|slot| slot as SlotId).collect();
        let sent = to.tx[0].transmit_packets(simd, packets, &slots);
        let held = from.rx[0].held();
        from.rx[0].release();
        packets.end_round();
        let sent = sent?;
        assert!(!sent.refused);
        Ok((slots.len(), sent.packets, held.into()))
    }
}

#[test]
fn hostile_chains_of_tiny_parts_are_read_in_several_calls() {
    for tier in Tier::available() {
        let (client, mut server) = pair();
        let (mut other, mut out) = pair();
        let sent: Vec<_> = (0..256).map(|n| packet(n, 64)).collect();
        send(&client, &sent, 1);
        let (mut packets, mut came) = (Packets::new(), Vec::new());
        while came.len() < sent.len() {
            let (n, went, slots) = tier.dispatch(Round(&mut server, &mut out, &mut packets, 256)).unwrap();
            assert!(slots <= A_CALL, "{slots} descriptors in a round");
            assert!(n > 0 && n == went);
            came.extend(common::receive(&mut other.rx[0]).unwrap());
        }
        assert!(came == sent, "{}", tier.name());
        // Faster than they can be read they don't come, and if one stops in the middle there is nothing to do.
        assert_eq!(server.rx[0].arm().unwrap(), Armed::Sleep);
    }
}

#[test]
fn hostile_chain_of_too_many_parts() {
    // 65 553 bytes are allowed.
    for (length, fault) in [(1088, None), (1089, Some(Fault::TooManyParts { max: 1088 }))] {
        let (client, mut server) = pair();
        let (mut other, mut out) = pair();
        let sent = packet(1, length);
        send(&client, std::slice::from_ref(&sent), 1);
        let mut packets = Packets::new();
        let done = Tier::detect().dispatch(Round(&mut server, &mut out, &mut packets, 256));
        assert_eq!(done.err().map(|error| error.fault), fault);
        if fault.is_none() {
            assert!(common::receive(&mut other.rx[0]).unwrap() == [sent]);
        }
    }
}

#[test]
fn hostile_chain_that_stops_is_no_reason_to_stay_awake() {
    let (client, mut server) = pair();
    send(&client, &[packet(1, 100)], 10);
    // All but the last part.
    client.tx[0].regions().check(0, HEAD, 2).unwrap().write(&9_u16.to_le_bytes());
    assert_eq!(server.rx[0].arm().unwrap(), Armed::AlreadyReady);
    assert!(common::receive(&mut server.rx[0]).unwrap().is_empty());
    assert_eq!(server.rx[0].arm().unwrap(), Armed::Sleep);
    client.tx[0].regions().check(0, HEAD, 2).unwrap().write(&10_u16.to_le_bytes());
    assert_eq!(server.rx[0].arm().unwrap(), Armed::AlreadyReady);
    assert_eq!(common::receive(&mut server.rx[0]).unwrap(), [packet(1, 100)]);
}

#[test]
fn hostile_buffers_of_one_byte_to_send_into() {
    for tier in Tier::available() {
        let (client, mut server) = pair();
        let (other, mut out) = pair();
        post(&other, 1);
        send(&client, &(0..200).map(|n| packet(n, 60)).collect::<Vec<_>>(), 60);
        let mut packets = Packets::new();
        let (came, went, _) = tier.dispatch(Round(&mut server, &mut out, &mut packets, 256)).unwrap();
        assert_eq!((came, went), (200, A_CALL.div_ceil(60)), "{}", tier.name());
        // What is longer than a few of them can hold is no packet for this peer.
        let (client, mut server) = pair();
        send(&client, &[packet(1, 1514)], 1514);
        let fault = tier.dispatch(Round(&mut server, &mut out, &mut packets, 256)).unwrap_err().fault;
        assert_eq!(fault, Fault::TooManyParts { max: 87 });
    }
}

/// However packets are cut on their way in and out, they arrive as they were.
#[test]
fn every_byte_arrives_however_packets_are_cut() {
    for tier in Tier::available() {
        for (part, buffer) in [(1, 64), (64, 100), (100, 64), (127, 129), (129, 128), (2000, 77), (9000, 333)]
        {
            let (client, mut server) = pair();
            let (mut other, mut out) = pair();
            post(&other, buffer);
            let lengths = [1, 60, 63, 64, 65, 127, 128, 129, 130, 300, 1000];
            let sent: Vec<_> = lengths.iter().map(|length| packet(*length, *length)).collect();
            send(&client, &sent, part);
            let (mut packets, mut came) = (Packets::new(), Vec::new());
            while came.len() < sent.len() {
                tier.dispatch(Round(&mut server, &mut out, &mut packets, 256)).unwrap();
                came.extend(common::receive(&mut other.rx[0]).unwrap());
            }
            assert!(came == sent, "{}: from {part} to {buffer} bytes", tier.name());
        }
    }
}

/// Changes descriptors and indices all the time while a dataplane uses them: packets or a fault, on every tier, and never anything else.
#[test]
fn hostile_words_that_change_while_a_dataplane_reads_them() {
    let config =
        QueueConfig { ring_size: RingSize::MIN, huge_pages: HugePages::Never, ..QueueConfig::default() };
    for tier in Tier::available() {
        let (mut packets, mut forwarded, mut faults) = (Packets::new(), 0, 0);
        // Whether a lie is seen depends on when the peer runs: where it runs seldom it takes more rounds.
        let (mut round, started) = (0, Instant::now());
        while round < 12 || (forwarded == 0 || faults == 0) && started.elapsed() < Duration::from_secs(60) {
            let seed = round;
            round += 1;
            let ((from, mut server), (to, mut out)) =
                (in_process(&config).unwrap(), in_process(&config).unwrap());
            let (tables, stop) = ([from.tx[0].regions(), to.rx[0].regions()], AtomicBool::new(false));
            std::thread::scope(|scope| {
                scope.spawn(|| change(tables, seed, &stop));
                for _ in 0..400 {
                    let done = tier.dispatch(Round(&mut server, &mut out, &mut packets, 256));
                    packets.end_round();
                    match done {
                        Ok((came, went, _)) => {
                            assert!(went <= came);
                            forwarded += went;
                        }
                        Err(error) => {
                            assert!(!matches!(error.fault, Fault::MemoryLost), "{error}");
                            faults += 1;
                            break;
                        }
                    }
                    std::thread::yield_now();
                }
                stop.store(true, Ordering::Relaxed);
            });
        }
        assert!(forwarded > 0 && faults > 0, "{}: {forwarded} packets, {faults} faults", tier.name());
    }
}

/// The two clients: one fills slots and empties buffers, mostly as one should, and both change their minds about it.
fn change(tables: [&Arc<RegionTable>; 2], round: u64, stop: &AtomicBool) {
    let ring = RingView::bytes(RingSize::MIN);
    let mut dice = (round + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut step = 0_u32;
    while !stop.load(Ordering::Relaxed) {
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        let to_fill = dice & 1 == 0;
        let (table, at) = if to_fill { (tables[0], 0) } else { (tables[1], ring) };
        let slot = step / 2 % 64;
        // Whole lines that are alike, for the most part: these are read four at a time.
        let d = match dice >> 1 & 0x3fff {
            0 => Descriptor {
                flags: 0,
                region: (dice >> 16) as u16,
                length: (dice >> 8) as u32,
                offset: u32::MAX,
            },
            n if n < 400 => {
                Descriptor { flags: FLAG_NEXT, region: 0, length: 1 + n as u32, offset: 2 * ring }
            }
            _ => Descriptor {
                flags: 0,
                region: 0,
                length: if to_fill { 64 } else { 2048 },
                offset: 2 * ring + slot * 2048,
            },
        };
        let range = table.check(0, at + RING_HEADER + slot * 16, 16).unwrap();
        range.write(&[d.first_word().to_le_bytes(), d.second_word().to_le_bytes()].concat());
        // As many as there can be, by what the other side has taken.
        let mut taken = [0; 2];
        table.check(0, at + 64, 2).unwrap().read(&mut taken);
        let ahead = if dice >> 40 & 0x3fff == 0 { (dice >> 16) as u16 } else { 64 };
        let head = u16::from_le_bytes(taken).wrapping_add(ahead);
        table.check(0, at + HEAD, 2).unwrap().write(&head.to_le_bytes());
        step += 1;
    }
}
