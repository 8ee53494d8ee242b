//! Packets in very many very small pieces, in or out: each piece costs, and a peer can't have others pay for more than so many of them
//! in a round.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::packet;
use memif::ring::{Armed, Descriptor, FLAG_NEXT, RING_HEADER, RingView};
use memif::{Connection, Fault, QueueConfig, RingSize, in_process};
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
    type Output = Result<(usize, usize, usize), Fault>;

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
        assert_eq!(done.err(), fault);
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
        let fault = tier.dispatch(Round(&mut server, &mut out, &mut packets, 256)).unwrap_err();
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
