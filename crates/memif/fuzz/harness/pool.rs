//! Two interfaces of a trust group between which packets change rings in their buffers, and peers that write anything into descriptors.

use std::collections::VecDeque;

use memif::ring::RING_HEADER;
use memif::{Connection, Pool, QueueConfig, RingSize, RxQueue, TxQueue, in_process};
use memory::packet::{Packets as Worker, SlotId};
use memory::region::HugePages;
use memory::simd::{Simd, Tier, TierTask};

use super::bytes::Bytes;
use super::oracle::{HEAD, TAIL};
use super::rings::{Packets, Source};

/// Bytes of a buffer.
const BUFFER: u32 = 256;
const SLOTS: u16 = 64;

/// Receives up to so many packets from one interface, changes them, and sends them to another, or copies of them as well.
struct Forward<'a> {
    rx: &'a mut RxQueue,
    tx: &'a mut TxQueue,
    worker: &'a mut Worker,
    max: usize,
    change: u8,
}

impl TierTask for Forward<'_> {
    /// The packets that were received, and of those that were to be sent how many were.
    type Output = (Vec<Vec<u8>>, Vec<Vec<u8>>, usize);

    fn run<S: Simd>(self, simd: S) -> Self::Output {
        let Self { rx, tx, worker, max, change } = self;
        let (slots, _) = rx.receive_packets(simd, worker, 1, max).unwrap();
        let mut slots: Vec<_> = slots.map(|slot| slot as SlotId).collect();
        let whole = |worker: &Worker, slots: &[SlotId]| -> Vec<Vec<u8>> {
            slots.iter().map(|slot| worker.own(*slot).bytes().to_vec()).collect()
        };
        let received = whole(worker, &slots);
        for slot in slots.clone() {
            match change % 4 {
                0 => worker.head_mut(slot)[0] ^= 0xff,
                1 => worker.prepend(slot, u16::from(change)).map_or((), |bytes| bytes.fill(0xee)),
                2 => slots.push(worker.duplicate(slot).unwrap()),
                _ => {}
            }
        }
        let sent = whole(worker, &slots);
        let n = tx.transmit_packets(simd, worker, &slots).unwrap().packets;
        worker.end_round();
        (received, sent, n)
    }
}

/// One interface of the group, its peer, and the packets that are on their way between the two: known to nobody but the oracle.
struct Member {
    ours: Connection,
    peer: Connection,
    to_us: VecDeque<Vec<u8>>,
    to_peer: VecDeque<Vec<u8>>,
}

/// Whatever a peer writes where buffers are said to be, what we receive is what it has sent; what it receives is what we have; and no
/// buffer is lost, or in two places.
pub fn pool(data: &[u8]) {
    let pool = Pool::new("fuzz", 4 * u32::from(SLOTS), BUFFER, HugePages::Never).unwrap();
    let member = || {
        let (ring_size, pool) = (RingSize::MIN, Some(std::sync::Arc::clone(&pool)));
        let config = QueueConfig { ring_size, pool, huge_pages: HugePages::Never, ..QueueConfig::default() };
        let (ours, peer) = in_process(&config).unwrap();
        Member { ours, peer, to_us: VecDeque::new(), to_peer: VecDeque::new() }
    };
    let mut members = [member(), member()];
    assert_eq!(pool.free(), 0);
    let (mut worker, mut bytes, mut number) = (Worker::new(), Bytes(data), 0_u8);
    while !bytes.is_empty() {
        let choice = bytes.byte();
        let [a, b] = &mut members;
        let (from, to) = if choice & 1 == 0 { (a, b) } else { (b, a) };
        match choice >> 1 & 7 {
            0 | 1 => send(from, &mut bytes, &mut number),
            2 | 3 => {
                let tiers = Tier::available();
                let (rx, tx) = (&mut from.ours.rx[0], &mut to.ours.tx[0]);
                let (max, change) = (usize::from(bytes.byte() % 80), bytes.byte());
                let task = Forward { rx, tx, worker: &mut worker, max, change };
                let (received, sent, n) = tiers[usize::from(choice >> 4) % tiers.len()].dispatch(task);
                for packet in received {
                    assert!(Some(packet) == from.to_us.pop_front(), "received what nobody has sent");
                }
                to.to_peer.extend(sent.into_iter().take(n));
                if choice & 0x80 == 0 {
                    from.ours.rx[0].release();
                }
            }
            4 => from.ours.rx[0].release_first(bytes.byte().into()),
            5 => {
                let mut packets = Packets::default();
                from.peer.rx[0].receive(usize::from(bytes.byte()), &mut packets).unwrap();
                for packet in packets.0 {
                    assert!(Some(packet) == from.to_peer.pop_front(), "the peer received something else");
                }
                from.peer.rx[0].release();
            }
            6 => scribble(from, &mut bytes),
            // A member leaves, with what is under way, and comes back.
            _ if choice >> 4 == 0 => {
                let index = usize::from(choice & 1);
                let [a, b] = members;
                let (gone, stays) = if index == 0 { (a, b) } else { (b, a) };
                drop(gone);
                assert!(pool.free() >= usize::from(SLOTS));
                members = if index == 0 { [member(), stays] } else { [stays, member()] };
            }
            _ => {}
        }
    }
    drop(members);
    assert_eq!(pool.free(), pool.buffers());
    // Each of them once: all rings have one for each slot again, and no two share one.
    let mut members = [member(), member()];
    let whole = |tag: u8| -> Vec<_> {
        (0..SLOTS).map(|slot| vec![tag * SLOTS as u8 + slot as u8; BUFFER as usize]).collect()
    };
    for (tag, Member { ours, peer, .. }) in (0..).step_by(2).zip(&mut members) {
        for (tag, queue) in [(tag, &mut ours.tx[0]), (tag + 1, &mut peer.tx[0])] {
            let all = whole(tag);
            assert_eq!(queue.transmit(all.len(), &mut Source(&all)).unwrap().sent, all.len());
        }
    }
    for (tag, Member { ours, peer, .. }) in (0..).step_by(2).zip(&mut members) {
        for (tag, queue) in [(tag, &mut peer.rx[0]), (tag + 1, &mut ours.rx[0])] {
            let mut packets = Packets::default();
            queue.receive(usize::from(SLOTS), &mut packets).unwrap();
            assert!(packets.0 == whole(tag), "two slots have the same buffer");
        }
    }
}

/// The peer sends packets, also in several buffers.
fn send(member: &mut Member, bytes: &mut Bytes<'_>, number: &mut u8) {
    let mut packets = Vec::new();
    for _ in 0..bytes.byte() % 20 {
        let length = bytes.one_of(&[60, 128, 129, 256, 257, 600, 1]) % 1500 + 1;
        *number = number.wrapping_add(1);
        packets
            .push((0..length).map(|i| (i as u8).wrapping_mul(3).wrapping_add(*number)).collect::<Vec<u8>>());
    }
    let sent = member.peer.tx[0].transmit(packets.len(), &mut Source(&packets)).unwrap().sent;
    member.to_us.extend(packets.into_iter().take(sent));
}

/// The peer writes anything where the slots of what it has sent say which buffers they have; flags and lengths are its packets'.
fn scribble(member: &mut Member, bytes: &mut Bytes<'_>) {
    // Behind the ring to the peer is the one from it.
    const RING: u32 = RING_HEADER + SLOTS as u32 * 16;
    let memory = member.peer.rx[0].regions();
    let word = |at: u32| {
        let mut word = [0; 2];
        memory.check(0, RING + at, 2).unwrap().read(&mut word);
        u16::from_le_bytes(word)
    };
    // All slots but those that are posted, empty, between its index and ours.
    let first = word(HEAD as u32).wrapping_sub(SLOTS);
    let sent = word(TAIL as u32).wrapping_sub(first).min(bytes.byte().into());
    let (region, offset) = (bytes.word(), bytes.long());
    for slot in 0..sent {
        let at = RING + RING_HEADER + u32::from(first.wrapping_add(slot) % SLOTS) * 16;
        memory.check(0, at + 2, 2).unwrap().write(&region.to_le_bytes());
        memory.check(0, at + 8, 4).unwrap().write(&offset.to_le_bytes());
    }
}
