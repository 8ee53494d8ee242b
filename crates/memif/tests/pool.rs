//! A trust group: what comes in by one ring leaves by another in the buffer in which it lies. Every byte arrives, no buffer gets
//! lost or stands in two places, and what can't be exchanged is copied.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use common::{packet, receive, send};
use memif::ring::Descriptor;
use memif::{Connection, Error, Pool, QueueConfig, RingSize, RxQueue, RxSink, TxQueue, TxSource, in_process};
use memory::packet::{Packets, SlotId};
use memory::region::{CheckedRange, HugePages};
use memory::simd::{Simd, Tier, TierTask};

fn pool(buffers: u32) -> Arc<Pool> {
    Pool::new("cnfs", buffers, 2048, HugePages::Never).unwrap()
}

/// A client in the group, and the peer that serves it.
fn member(pool: &Arc<Pool>) -> (Connection, Connection) {
    let (ring_size, pool) = (RingSize::MIN, Some(Arc::clone(pool)));
    in_process(&QueueConfig { ring_size, pool, huge_pages: HugePages::Never, ..QueueConfig::default() })
        .unwrap()
}

/// What a dataplane does with packets between two interfaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    /// The first byte.
    Header,
    /// So many bytes more in front.
    Prepend(u16),
    /// So many bytes fewer in front.
    Strip(u16),
    /// Sent twice.
    Flood,
}

struct Forward<'a> {
    rx: &'a mut RxQueue,
    tx: &'a mut TxQueue,
    packets: &'a mut Packets,
    change: Change,
}

impl TierTask for Forward<'_> {
    type Output = usize;

    fn run<S: Simd>(self, simd: S) -> usize {
        let Self { rx, tx, packets, change } = self;
        let (slots, _) = rx.receive_packets(simd, packets, 1, 256).unwrap();
        let mut slots: Vec<_> = slots.map(|slot| slot as SlotId).collect();
        for slot in slots.clone() {
            match change {
                Change::Header => packets.head_mut(slot)[0] ^= 0xff,
                Change::Prepend(bytes) => packets.prepend(slot, bytes).unwrap().fill(0xee),
                Change::Strip(bytes) => assert!(packets.strip(slot, bytes)),
                Change::Flood => slots.push(packets.duplicate(slot).unwrap()),
            }
        }
        let sent = tx.transmit_packets(simd, packets, &slots).unwrap();
        assert_eq!((sent.packets, sent.refused), (slots.len(), false));
        rx.release();
        packets.end_round();
        slots.len()
    }
}

fn changed(change: Change, frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let one = |frame: &Vec<u8>| match change {
        Change::Header => [&[frame[0] ^ 0xff], &frame[1..]].concat(),
        Change::Prepend(bytes) => [&vec![0xee; bytes.into()], &frame[..]].concat(),
        Change::Strip(bytes) => frame[bytes.into()..].to_vec(),
        Change::Flood => frame.clone(),
    };
    let mut all: Vec<_> = frames.iter().map(one).collect();
    if change == Change::Flood {
        all.extend(all.clone());
    }
    all
}

const LENGTHS: [usize; 8] = [60, 128, 129, 594, 1518, 2048, 2049, 9000];
const CHANGES: [Change; 7] = [
    Change::Header,
    Change::Prepend(4),
    Change::Prepend(120),
    Change::Strip(4),
    Change::Strip(14),
    Change::Flood,
    Change::Header,
];

#[test]
fn every_byte_arrives_and_every_buffer_stays_somewhere() {
    for tier in Tier::available() {
        let pool = pool(4 * 64 + 10);
        let (mut a, mut peer_a) = member(&pool);
        let (mut b, mut peer_b) = member(&pool);
        assert_eq!(pool.free(), 10);
        let mut packets = Packets::new();
        for round in 0..2000 {
            let change = CHANGES[round % CHANGES.len()];
            let frames: Vec<_> = (0..3).map(|i| packet(round + i, LENGTHS[(round / 7 + i) % 8])).collect();
            assert_eq!(send(&mut peer_a.tx[0], &frames).unwrap(), 3);
            let (rx, tx) = (&mut a.rx[0], &mut b.tx[0]);
            let sent = tier.dispatch(Forward { rx, tx, packets: &mut packets, change });
            assert_eq!(sent, if change == Change::Flood { 6 } else { 3 });
            let got = receive(&mut peer_b.rx[0]).unwrap();
            assert!(got == changed(change, &frames), "{} round {round}: {change:?}", tier.name());
            // And something the other way, by a copy of the whole queue's interface.
            if round % 5 == 0 {
                assert_eq!(send(&mut peer_b.tx[0], &frames).unwrap(), 3);
                assert_eq!(receive(&mut b.rx[0]).unwrap(), frames);
                assert_eq!(send(&mut b.tx[0], &frames).unwrap(), 3);
                assert_eq!(receive(&mut peer_b.rx[0]).unwrap(), frames);
            }
        }
        // All that was exchanged comes back, each once.
        drop((a, peer_a));
        assert_eq!(pool.free(), 10 + 2 * 64);
        drop((b, peer_b));
        assert_eq!(pool.free(), pool.buffers());
        let (c, _) = member(&pool);
        let mut seen: Vec<_> = [buffers(&c.rx[0]), buffers_of_tx(&c.tx[0])].concat();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 128);
    }
}

/// Offsets of the buffers in a ring's descriptors, as the peer sees them.
fn descriptors(table: &memory::region::RegionTable, ring: u32) -> Vec<Descriptor> {
    let mut bytes = [0; 16];
    let read = |at: u32| {
        table.check(0, ring + 128 + at * 16, 16).unwrap().read(&mut bytes);
        let (first, second) = bytes.split_at(8);
        Descriptor::from_words(
            u64::from_le_bytes(first.try_into().unwrap()),
            u64::from_le_bytes(second.try_into().unwrap()),
        )
    };
    (0..64).map(read).collect()
}

/// A client lays out the rings it sends to first.
const RX_RING: u32 = 128 + 64 * 16;

fn buffers(rx: &RxQueue) -> Vec<u32> {
    descriptors(rx.regions(), RX_RING).iter().map(|d| d.offset).collect()
}

fn buffers_of_tx(tx: &TxQueue) -> Vec<u32> {
    descriptors(tx.regions(), 0).iter().map(|d| d.offset).collect()
}

/// Where received packets begin.
struct Addresses(Vec<usize>);

impl RxSink for Addresses {
    fn packet(&mut self, bytes: CheckedRange<'_>) {
        self.0.push(bytes.as_ptr().addr());
    }

    fn chain(&mut self, parts: &[CheckedRange<'_>], _: u32) {
        self.0.push(parts[0].as_ptr().addr());
    }
}

#[test]
fn a_packet_with_a_body_stays_where_it_is() {
    let pool = pool(4 * 64);
    let (mut a, mut peer_a) = member(&pool);
    let (mut b, mut peer_b) = member(&pool);
    let (posted, empty) = (buffers(&a.rx[0])[0], buffers_of_tx(&b.tx[0])[0]);
    let frame = packet(1, 1518);
    send(&mut peer_a.tx[0], std::slice::from_ref(&frame)).unwrap();
    let mut packets = Packets::new();
    let change = Change::Header;
    let (rx, tx) = (&mut a.rx[0], &mut b.tx[0]);
    Tier::detect().dispatch(Forward { rx, tx, packets: &mut packets, change });
    let d = descriptors(b.tx[0].regions(), 0)[0];
    assert_eq!((d.region, d.offset, d.length, d.flags), (1, posted, 1518, 0));
    assert_eq!(buffers(&a.rx[0])[0], empty, "the ring it came from has the other one's");
    // The peer's mapping of the pool is another one; the packet is at the same place in it.
    let base = peer_b.rx[0].regions().check(1, 0, 0).unwrap().as_ptr().addr();
    let mut found = Addresses(Vec::new());
    assert_eq!(peer_b.rx[0].receive(1, &mut found).unwrap(), 1);
    assert_eq!(found.0, [base + posted as usize]);
    let mut bytes = vec![0; 1518];
    peer_b.rx[0].regions().check(1, posted, 1518).unwrap().read(&mut bytes);
    assert_eq!(bytes, changed(change, &[frame])[0]);
    drop((b.rx, peer_b.tx));
}

/// A peer that lies about where packets are is not believed: its ring's buffers are in private memory.
#[test]
fn what_a_peer_writes_into_descriptors_moves_nothing() {
    let pool = pool(2 * 64 + 128);
    let (mut a, mut peer_a) = member(&pool);
    let (mut b, mut peer_b) = member(&pool);
    let frame = packet(7, 900);
    send(&mut peer_a.tx[0], std::slice::from_ref(&frame)).unwrap();
    let lie = Descriptor { flags: 0, region: 0, length: 900, offset: 0x7fff_ff00 };
    let words = [lie.first_word().to_le_bytes(), lie.second_word().to_le_bytes()].concat();
    a.rx[0].regions().check(0, RX_RING + 128, 16).unwrap().write(&words);
    let mut packets = Packets::new();
    let (rx, tx, change) = (&mut a.rx[0], &mut b.tx[0], Change::Header);
    Tier::detect().dispatch(Forward { rx, tx, packets: &mut packets, change });
    assert_eq!(receive(&mut peer_b.rx[0]).unwrap(), changed(change, &[frame]));
    drop((peer_a, b.rx));
}

/// What takes or gives packets is somebody else's code: should it panic, the queues keep their buffers.
#[test]
fn buffers_outlive_a_panic() {
    struct Panics;
    impl RxSink for Panics {
        fn packet(&mut self, _: CheckedRange<'_>) {
            panic!("the sink's own fault");
        }
        fn chain(&mut self, _: &[CheckedRange<'_>], _: u32) {}
    }
    impl TxSource for Panics {
        fn length(&mut self, _: usize) -> u32 {
            panic!("the source's own fault");
        }
        fn write(&mut self, _: usize, _: CheckedRange<'_>) {}
        fn write_chain(&mut self, _: usize, _: &[CheckedRange<'_>]) {}
    }
    let pool = pool(2 * 64);
    let (mut a, mut peer) = member(&pool);
    let frames = [packet(1, 60), packet(2, 900)];
    send(&mut peer.tx[0], &frames).unwrap();
    assert!(catch_unwind(AssertUnwindSafe(|| a.rx[0].receive(9, &mut Panics))).is_err());
    assert_eq!(receive(&mut a.rx[0]).unwrap(), frames);
    assert!(catch_unwind(AssertUnwindSafe(|| a.tx[0].transmit(1, &mut Panics))).is_err());
    assert_eq!(send(&mut a.tx[0], &frames).unwrap(), 2);
    assert_eq!(receive(&mut peer.rx[0]).unwrap(), frames);
    drop(a);
    assert_eq!(pool.free(), pool.buffers());
}

#[test]
fn a_pool_without_buffers_says_so() {
    let pool = pool(100);
    let queues = QueueConfig {
        ring_size: RingSize::MIN,
        pool: Some(Arc::clone(&pool)),
        huge_pages: HugePages::Never,
        ..QueueConfig::default()
    };
    let error = in_process(&queues).unwrap_err();
    let expected = "trust group cnfs: 36 buffers are free, a ring needs 64";
    assert!(error.to_string().contains(expected), "{error}");
    assert_eq!(pool.free(), 100, "what was taken comes back");
    for (buffers, size) in [(0, 2048), (1 << 25, 2048), (10, 63), (10, 65_537)] {
        let error = Pool::new("x", buffers, size, HugePages::Never).unwrap_err();
        assert!(matches!(error.cause, Error::Setting { .. }), "{error}");
        assert_eq!(error.interface, "trust group x");
    }
}
