//! The walks over descriptors, both roles, in one process and without sockets: small enough for Miri (`scripts/miri.sh`), which sees
//! each access to shared memory, where other tests see bytes only.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::Arc;

use memory::packet::{Packets, SlotId};
use memory::region::{HugePages, Region, RegionOptions, RegionTable};
use memory::simd::{Simd, Tier, TierTask};

use super::{
    Descriptor, Endpoint, Event, FLAG_NEXT, Fault, Pool, RingSize, RingView, RxQueue, Slots, TxQueue,
};
use crate::app::Batch;

const SIZE: RingSize = RingSize::MIN;
const RING: u32 = RingView::bytes(SIZE);
const BUFFER: u32 = 192;

fn region(size: u32) -> Arc<Region> {
    let options = RegionOptions { name: "walk".into(), size: size.into(), huge_pages: HugePages::Never };
    Arc::new(Region::create(&options).unwrap())
}

fn event() -> Event {
    Event::new("test").unwrap()
}

/// Both ends of two rings: what the client sends, and what it receives.
struct Pair {
    table: Arc<RegionTable>,
    client: (TxQueue, RxQueue),
    server: (RxQueue, TxQueue),
}

fn pair(pool: Option<&Arc<Pool>>) -> Pair {
    let mut regions = vec![region(2 * RING + 2 * 64 * BUFFER)];
    regions.extend(pool.map(|pool| Arc::clone(pool.region())));
    let table = Arc::new(RegionTable::new(regions).unwrap());
    let ring = |offset| RingView::new(Arc::clone(&table), 0, offset, SIZE).unwrap();
    for offset in [0, RING] {
        ring(offset).initialise();
    }
    let own = |n: u32| Slots::Own {
        region: 0,
        first: 2 * RING + n * 64 * BUFFER,
        stride: BUFFER,
        capacity: BUFFER,
    };
    let mut tx = TxQueue::new(ring(0), Endpoint::client_tx(SIZE), own(0), event());
    let mut rx = RxQueue::new(ring(RING), Endpoint::client_rx(SIZE), own(1), 4096, event());
    if let Some(pool) = pool {
        tx = tx.with_pool(pool.slots(1, 64).unwrap());
        rx = rx.with_pool(pool.slots(1, 64).unwrap());
    }
    let server_rx = RxQueue::new(ring(0), Endpoint::server(), Slots::Peer, 4096, event());
    let server_tx = TxQueue::new(ring(RING), Endpoint::server(), Slots::Peer, event());
    server_rx.start();
    rx.start();
    Pair { table, client: (tx, rx), server: (server_rx, server_tx) }
}

fn frame(number: usize, length: usize) -> Vec<u8> {
    (0..length).map(|at| (number * 31 + at) as u8).collect()
}

const LENGTHS: [usize; 6] = [1, 64, 65, 192, 193, 700];

fn passes(tx: &mut TxQueue, rx: &mut RxQueue, rounds: usize) {
    let mut batch = Batch::new(64);
    for round in 0..rounds {
        let frames: Vec<_> = (0..5).map(|i| frame(round + i, LENGTHS[(round + i) % 6])).collect();
        assert_eq!(tx.send_batch(&frames).unwrap(), 5);
        batch.clear();
        assert_eq!(rx.recv_batch(&mut batch).unwrap(), 5);
        assert!(batch.packets().eq(frames.iter().map(Vec::as_slice)), "round {round}");
    }
}

#[test]
fn packets_pass_both_ways_around_the_ring() {
    let Pair { mut client, mut server, .. } = pair(None);
    passes(&mut client.0, &mut server.0, 20);
    passes(&mut server.1, &mut client.1, 20);
}

#[test]
fn packets_pass_in_the_buffers_of_a_pool() {
    let pool = Pool::new("group", 128, 256, HugePages::Never).unwrap();
    let Pair { mut client, mut server, .. } = pair(Some(&pool));
    passes(&mut client.0, &mut server.0, 20);
    passes(&mut server.1, &mut client.1, 20);
}

/// Receives into slots, changes the first byte, and sends.
struct Forward<'a>(&'a mut RxQueue, &'a mut TxQueue, &'a mut Packets);

impl TierTask for Forward<'_> {
    type Output = ();

    fn run<S: Simd>(self, simd: S) {
        let (slots, _) = self.0.receive_packets(simd, self.2, 1, 64).unwrap();
        let slots: Vec<_> = slots.map(|slot| slot as SlotId).collect();
        for slot in &slots {
            self.2.head_mut(*slot)[0] ^= 0xff;
        }
        assert_eq!(self.1.transmit_packets(simd, self.2, &slots).unwrap().packets, slots.len());
        self.0.release();
        self.2.end_round();
    }
}

fn forwards(pool: Option<&Arc<Pool>>) {
    let (mut a, mut b) = (pair(pool), pair(pool));
    let (mut packets, mut batch) = (Packets::new(), Batch::new(64));
    for round in 0..20 {
        let frames: Vec<_> = (0..6).map(|i| frame(round + i, LENGTHS[(round + i) % 6])).collect();
        assert_eq!(a.server.1.send_batch(&frames).unwrap(), 6);
        Tier::named("scalar").unwrap().dispatch(Forward(&mut a.client.1, &mut b.client.0, &mut packets));
        batch.clear();
        assert_eq!(b.server.0.recv_batch(&mut batch).unwrap(), 6);
        for (got, sent) in batch.packets().zip(&frames) {
            assert_eq!((got[0], &got[1..]), (sent[0] ^ 0xff, &sent[1..]), "round {round}");
        }
    }
}

#[test]
fn packets_are_forwarded_by_copy() {
    forwards(None);
}

#[test]
fn packets_are_forwarded_by_exchange() {
    let pool = Pool::new("group", 256, 256, HugePages::Never).unwrap();
    forwards(Some(&pool));
    assert_eq!(pool.free(), 256);
}

#[test]
fn what_a_peer_writes_is_checked_before_it_is_followed() {
    let lies = [
        Descriptor { region: 9, length: 64, ..Descriptor::default() },
        Descriptor { length: 64, offset: u32::MAX - 3, ..Descriptor::default() },
        Descriptor { length: 0, ..Descriptor::default() },
        Descriptor { length: u32::MAX, ..Descriptor::default() },
        Descriptor { flags: FLAG_NEXT, length: 64, ..Descriptor::default() },
    ];
    for lie in lies {
        let Pair { table, mut client, mut server, .. } = pair(None);
        let ring = RingView::new(table, 0, 0, SIZE).unwrap();
        client.0.send_batch(&[frame(1, 64), frame(2, 64)]).unwrap();
        // An endless chain takes all slots.
        for slot in 0..if lie.flags == 0 { 1 } else { 64 } {
            ring.descriptors().set(slot, lie);
        }
        if lie.flags != 0 {
            ring.indices().head.store(64, std::sync::atomic::Ordering::Release);
        }
        let fault = server.0.receive(64, &mut Batch::new(64)).unwrap_err().fault;
        assert!(!matches!(fault, Fault::Index(_)), "{lie:?}: {fault}");
    }
    // An index beyond the ring.
    let Pair { table, mut server, .. } = pair(None);
    let ring = RingView::new(table, 0, 0, SIZE).unwrap();
    ring.indices().head.store(65, std::sync::atomic::Ordering::Release);
    assert!(matches!(server.0.receive(64, &mut Batch::new(64)).unwrap_err().fault, Fault::Index(_)));
}

/// Zeros in place of the ring look as if nothing had come: who is about to sleep must be told.
#[cfg(not(miri))]
#[test]
fn memory_that_is_lost_is_told_before_sleeping() {
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

    let theirs = memfd_create("peer", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&theirs, RING.into()).unwrap();
    let ours = theirs.try_clone().unwrap();
    let region = Region::map(ours, RING.into(), memory::region::SealPolicy::Allow).unwrap();
    let table = Arc::new(RegionTable::new(vec![Arc::new(region)]).unwrap());
    let ring = || RingView::new(Arc::clone(&table), 0, 0, SIZE).unwrap();
    ring().initialise();
    let mut rx = RxQueue::new(ring(), Endpoint::server(), Slots::Peer, 4096, event());
    let tx = TxQueue::new(ring(), Endpoint::server(), Slots::Peer, event());
    rx.start();
    assert_eq!(rx.arm().unwrap(), super::Armed::Sleep);
    ftruncate(&theirs, 0).unwrap();
    assert_eq!(rx.arm().unwrap_err().fault, Fault::MemoryLost);
    assert_eq!(tx.room().unwrap_err().fault, Fault::MemoryLost);
}
