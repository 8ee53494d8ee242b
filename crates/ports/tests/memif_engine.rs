//! From ring to ring with bodies copied by an engine, whatever goes wrong there: every byte arrives, once, in order, and no packet is to be
//! seen before its body is there.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::{LOST_LEN, revocable};
use copy::dsa::{Channel, Device, Limits, Mode, Pauses};
use copy::model::{Model, ModelOptions, Troubles};
use copy::{Cpu, Engine, Transfer};
use graph::port::{Quota, RxQueue, Stop, TxQueue};
use memif::region::HugePages;
use memif::ring::{Descriptor, RING_HEADER, RingView};
use memif::{Connection, QueueConfig, RingSize, in_process};
use memory::packet::{Packets, SlotId};
use memory::simd::Tier;
use quiver_ports::memif::{MemifEngineTx, MemifRx, MemifTx};
use std::sync::Arc;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);
const RING: u32 = 128;
const THRESHOLD: usize = 200;

/// Chains of buffers of 2048 bytes for what is longer.
fn pair() -> (Connection, Connection) {
    let ring_size = RingSize::from_descriptors(RING).unwrap();
    in_process(&QueueConfig { ring_size, huge_pages: HugePages::Never, ..QueueConfig::default() }).unwrap()
}

fn first<Q>(queues: Vec<Q>) -> Q {
    queues.into_iter().next().unwrap()
}

fn device(options: ModelOptions, patience: Duration) -> Arc<Device> {
    let model = Model::start(options).unwrap();
    Arc::new(Device::new("model", options.limits, patience, Box::new(model)))
}

fn channel(device: &Arc<Device>) -> Channel {
    Channel::new(Arc::clone(device), Cpu::default())
}

/// What the length of packet `number` is: from a line to a jumbo frame.
fn length(number: usize) -> usize {
    const LENGTHS: [usize; 12] = [64, 65, 128, 129, 594, 1500, 1514, 2048, 2049, 4400, 9000, 300];
    LENGTHS[number * 7 % LENGTHS.len()]
}

fn frame(number: usize) -> Vec<u8> {
    let mut frame: Vec<u8> = (0..length(number)).map(|at| (number * 13 + at * 5 + (at >> 8)) as u8).collect();
    frame[..8].copy_from_slice(&number.to_be_bytes());
    frame
}

/// All that a queue has, by a private copy.
fn receive(queue: &mut dyn RxQueue, tier: Tier) -> Vec<Vec<u8>> {
    let mut packets = Packets::new();
    let received = queue.receive(tier, &mut packets, 0, Quota::packets(256)).unwrap();
    let frames = received.slots.map(|slot| packets.own(slot as SlotId).frame().to_vec()).collect();
    queue.release();
    packets.end_round();
    frames
}

fn send(queue: &mut MemifTx, frame: &[u8]) -> bool {
    let mut packets = Packets::new();
    let owned = memory::packet::OwnedPacket::new(0, frame.to_vec());
    let slot = packets.adopt(&owned).unwrap();
    let sent = queue.send(Tier::detect(), &mut packets, &[slot]).unwrap();
    queue.flush();
    sent.packets == 1
}

/// Sends `count` frames through a dataplane with this engine: it receives from one peer and sends to another, in rounds; a round hands
/// its packets over in parts, as nodes do. `gone`: whether there is no engine any more, so that packets needn't wait for it.
fn forward(engine: impl Engine, count: usize, from_client: bool, tier: Tier, gone: impl Fn() -> bool) {
    let ((left, left_server), (right, right_server)) = (pair(), pair());
    let mut sender = MemifTx::new(first(left.tx));
    let mut rx = MemifRx::new(first(left_server.rx));
    let (tx, receiver) = if from_client { (right.tx, right_server.rx) } else { (right_server.tx, right.rx) };
    let mut tx = MemifEngineTx::new(first(tx), engine, THRESHOLD);
    let mut receiver = MemifRx::new(first(receiver));
    let mut packets = Packets::new();
    let (mut sent, mut arrived) = (0, 0);
    while arrived < count {
        let burst = [1, 3, 9, 20][sent % 4];
        for _ in 0..burst {
            sent += usize::from(sent < count && send(&mut sender, &frame(sent)));
        }
        let received = rx.receive(tier, &mut packets, 1, Quota::packets(256)).unwrap();
        let slots: Vec<_> = received.slots.map(|slot| slot as SlotId).collect();
        let part = [slots.len(), 2, 5][sent % 3].max(1);
        let was_gone = gone();
        for slots in slots.chunks(part) {
            assert_eq!(tx.send(tier, &mut packets, slots).unwrap().packets, slots.len());
        }
        let long = slots.iter().any(|slot| packets.meta(*slot).body_len() as usize >= THRESHOLD);
        if long && part >= slots.len() && !was_gone {
            assert_eq!(receive(&mut receiver, tier).len(), 0, "nothing is to be seen before the round's end");
        }
        tx.flush();
        rx.release();
        packets.end_round();
        for got in receive(&mut receiver, tier) {
            assert!(got == frame(arrived), "packet {arrived} of {} bytes on {}", got.len(), tier.name());
            arrived += 1;
        }
    }
    assert!(receive(&mut receiver, tier).is_empty());
}

#[test]
fn every_byte_arrives_by_the_cpu_as_an_engine() {
    for tier in Tier::available() {
        for from_client in [false, true] {
            forward(Cpu::new(tier), 2000, from_client, tier, || false);
        }
    }
}

#[test]
fn every_byte_arrives_whatever_the_device_does() {
    let troubles = Troubles {
        page_faults: 20,
        page_wait: 100,
        refused_pages: 30,
        errors: 5,
        short_batches: 10,
        full: 30,
        delays: 2,
        reorder: true,
        dies_after: None,
    };
    for mode in [Mode::Dedicated, Mode::Shared] {
        for max_batch in [1, 3, 1024] {
            let block_on_fault = max_batch == 3;
            let limits =
                Limits { mode, size: 4, max_batch, block_on_fault, ..ModelOptions::default().limits };
            let device = device(ModelOptions { limits, troubles, seed: max_batch.into() }, PATIENCE);
            forward(channel(&device), 600, max_batch == 3, Tier::detect(), || false);
            let counts = device.counts();
            assert!(counts.completed > 0 && counts.faults > 0 && counts.fallbacks > 0, "{counts:?}");
            assert_eq!(counts.completed + counts.fallbacks, counts.transfers);
            assert_eq!(device.given_up(), None);
        }
    }
}

#[test]
fn a_device_that_dies_loses_no_packet() {
    let troubles = Troubles { dies_after: Some(100), ..Troubles::default() };
    let device = device(ModelOptions { troubles, ..ModelOptions::default() }, Duration::from_millis(20));
    forward(channel(&device), 1000, false, Tier::detect(), || device.given_up().is_some());
    assert!(device.given_up().is_some() && device.counts().completed <= 100);
}

#[test]
fn a_full_ring_takes_what_fits_with_bodies_on_their_way() {
    let device = device(ModelOptions::default(), PATIENCE);
    let ((left, left_server), (right, right_server)) = (pair(), pair());
    let (mut sender, mut rx) = (MemifTx::new(first(left.tx)), MemifRx::new(first(left_server.rx)));
    let mut tx = MemifEngineTx::new(first(right_server.tx), channel(&device), THRESHOLD);
    let mut receiver = MemifRx::new(first(right.rx));
    // Five buffers each: 25 fit into a ring of 128, as often as they are asked to.
    let jumbo = |number: usize| vec![number as u8; 9000];
    let tier = Tier::detect();
    let mut arrived = 0;
    for round in 0..2 {
        let mut packets = Packets::new();
        (0..25).for_each(|number| assert!(send(&mut sender, &jumbo(round * 25 + number))));
        let received = rx.receive(tier, &mut packets, 1, Quota::packets(256)).unwrap();
        let slots: Vec<_> = received.slots.map(|slot| slot as SlotId).collect();
        let twice = [&slots[..], &slots[..]].concat();
        let sent = tx.send(tier, &mut packets, &twice).unwrap();
        assert_eq!((sent.packets, sent.stop), (25, Stop::Full));
        let more = tx.send(tier, &mut packets, &slots[..1]).unwrap();
        assert_eq!((more.packets, more.stop), (0, Stop::Full));
        tx.flush();
        rx.release();
        packets.end_round();
        for got in receive(&mut receiver, tier) {
            assert!(got == jumbo(arrived), "packet {arrived}");
            arrived += 1;
        }
    }
    assert_eq!(arrived, 50);
}

#[test]
fn short_packets_never_see_the_engine() {
    let device = device(ModelOptions::default(), PATIENCE);
    let ((left, left_server), (right, right_server)) = (pair(), pair());
    let (mut sender, mut rx) = (MemifTx::new(first(left.tx)), MemifRx::new(first(left_server.rx)));
    let mut tx = MemifEngineTx::new(first(right_server.tx), channel(&device), THRESHOLD);
    let mut receiver = MemifRx::new(first(right.rx));
    let tier = Tier::detect();
    let mut packets = Packets::new();
    (0..50).for_each(|number| assert!(send(&mut sender, &[number; 64])));
    let received = rx.receive(tier, &mut packets, 1, Quota::packets(256)).unwrap();
    let slots: Vec<_> = received.slots.map(|slot| slot as SlotId).collect();
    assert_eq!(tx.send(tier, &mut packets, &slots).unwrap().packets, 50);
    tx.flush();
    rx.release();
    assert_eq!(receive(&mut receiver, tier).len(), 50);
    assert_eq!(device.counts().transfers, 0);
}

#[test]
fn a_peer_that_lies_gets_nothing_more_and_nothing_is_on_its_way_then() {
    let troubles = Troubles { delays: 100, ..Troubles::default() };
    let device = device(ModelOptions { troubles, ..ModelOptions::default() }, PATIENCE);
    let ((left, left_server), (right, right_server)) = (pair(), pair());
    // The ring the client sends to comes first in its region, the one it receives from behind it: its seventh buffer lies elsewhere.
    let ring = RingView::bytes(RingSize::from_descriptors(RING).unwrap());
    let range = right.tx[0].regions().check(0, ring + RING_HEADER + 6 * 16, 16).unwrap();
    let lie = Descriptor { flags: 0, region: 9, length: 2048, offset: 0 };
    range.write(&[lie.first_word().to_le_bytes(), lie.second_word().to_le_bytes()].concat());
    let (mut sender, mut rx) = (MemifTx::new(first(left.tx)), MemifRx::new(first(left_server.rx)));
    let mut tx = MemifEngineTx::new(first(right_server.tx), channel(&device), THRESHOLD);
    let mut receiver = MemifRx::new(first(right.rx));
    let (tier, mut packets) = (Tier::detect(), Packets::new());
    (0..10).for_each(|number| assert!(send(&mut sender, &[number; 1500])));
    let received = rx.receive(tier, &mut packets, 1, Quota::packets(256)).unwrap();
    let slots: Vec<_> = received.slots.map(|slot| slot as SlotId).collect();
    assert_eq!(tx.send(tier, &mut packets, &slots[..2]).unwrap().packets, 2);
    let fault = tx.send(tier, &mut packets, &slots[2..]).unwrap_err();
    assert!(fault.reason.contains("region 9"), "{fault}");
    // Six bodies were handed over, and all are there before anybody gives the peer's memory back.
    let counts = device.counts();
    assert_eq!((counts.transfers, counts.completed + counts.fallbacks), (6, 6), "{counts:?}");
    tx.flush();
    assert_eq!(
        receive(&mut receiver, tier),
        [vec![0; 1500], vec![1; 1500]],
        "of the call that failed, nothing"
    );
}

#[test]
fn a_sender_that_takes_its_memory_away_costs_others_neither_packets_nor_the_device() {
    for block_on_fault in [false, true] {
        let limits = Limits { block_on_fault, ..ModelOptions::default().limits };
        let device = device(ModelOptions { limits, ..ModelOptions::default() }, PATIENCE);
        let (right, right_server) = pair();
        let mut tx = MemifEngineTx::new(first(right_server.tx), channel(&device), THRESHOLD);
        let mut receiver = MemifRx::new(first(right.rx));
        let (tier, mut packets) = (Tier::detect(), Packets::new());
        let (theirs, table, lost) = revocable(&mut packets);
        let whole = bodies(&mut packets, 2, 0x11);
        rustix::fs::ftruncate(&theirs, 0).unwrap();
        assert_eq!(tx.send(tier, &mut packets, &[whole[0], lost, whole[1]]).unwrap().packets, 3);
        tx.flush();
        let counts = device.counts();
        assert_eq!(
            (counts.faults, counts.fallbacks, counts.completed, counts.errors),
            (1, 1, 2, 0),
            "{counts:?}"
        );
        assert!(table.lost(), "whose memory it was is to be told, and is disconnected");
        assert_eq!(device.given_up(), None);
        let received = receive(&mut receiver, tier);
        assert_eq!((&received[0], &received[2]), (&vec![0x11; 1464], &vec![0x11; 1464]), "others' packets");
        assert_eq!(received[1].len(), LOST_LEN as usize, "what can't be read any more reads as zeros");
    }
}

/// A queue that is given up while bodies are on their way, and comes back: meanwhile packets go by no engine, and none is staged for one.
#[test]
fn while_a_device_is_given_up_packets_go_as_if_there_were_none() {
    let troubles = Troubles { dies_after: Some(5), ..Troubles::default() };
    let options = ModelOptions { troubles, ..ModelOptions::default() };
    let model = Model::start(options).unwrap();
    let pauses = Pauses { first: Duration::from_millis(1), longest: Duration::from_millis(1) };
    let device = Device::new("model", options.limits, Duration::from_millis(20), Box::new(model));
    let device = Arc::new(device.with_retry(pauses, || match Model::start(ModelOptions::default()) {
        Ok(model) => Ok(Box::new(model)),
        Err(error) => Err(error.to_string()),
    }));
    let (right, right_server) = pair();
    let mut tx = MemifEngineTx::new(first(right_server.tx), channel(&device), THRESHOLD);
    let mut receiver = MemifRx::new(first(right.rx));
    let (tier, mut packets) = (Tier::detect(), Packets::new());
    let mut round = |byte: u8, tx: &mut MemifEngineTx<Channel>| {
        let slots = bodies(&mut packets, 10, byte);
        assert_eq!(tx.send(tier, &mut packets, &slots).unwrap().packets, 10);
        // What is published at once needs no flush, but its worker flushes all the same.
        let early = receive(&mut receiver, tier);
        tx.flush();
        packets.end_round();
        let arrived = [&early[..], &receive(&mut receiver, tier)].concat();
        assert_eq!(arrived, vec![vec![byte; 1464]; 10]);
        early.len()
    };
    assert_eq!(round(1, &mut tx), 0, "with an engine, seen when the round ends");
    assert!(device.given_up().is_some());
    let before = device.counts();
    // As often as the ring has slots, so that none may be lost.
    for byte in 2..60 {
        assert_eq!(round(byte, &mut tx), 10, "the plain way");
    }
    assert_eq!(device.counts(), before);
    while device.given_up().is_some() {
        device.tend();
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(round(60, &mut tx), 0);
    assert_eq!(device.counts().completed, before.completed + 10);
}

/// Two workers with one queue to send by: what one has staged for the device that the other gives up meanwhile goes ahead of all that comes
/// later.
#[test]
fn what_was_staged_when_a_device_was_given_up_stays_in_front() {
    let troubles = Troubles { dies_after: Some(0), ..Troubles::default() };
    let device = device(ModelOptions { troubles, ..ModelOptions::default() }, Duration::from_millis(20));
    let (right, right_server) = pair();
    let mut tx = MemifEngineTx::new(first(right_server.tx), channel(&device), THRESHOLD);
    let mut receiver = MemifRx::new(first(right.rx));
    let (tier, mut packets) = (Tier::detect(), Packets::new());
    let slots = bodies(&mut packets, 5, 0x11);
    assert_eq!(tx.send(tier, &mut packets, &slots).unwrap().packets, 5);
    // Another queue's channel finds out.
    let mut other = channel(&device);
    let (from, mut to) = ([1_u8; 500], [0_u8; 500]);
    // SAFETY: both outlive `finish`.
    #[allow(unsafe_code)]
    unsafe {
        other.push(Transfer { to: to.as_mut_ptr(), from: from.as_ptr(), len: 500 });
    }
    other.finish();
    assert!(device.given_up().is_some() && to == from);
    let transfers = device.counts().transfers;
    let slots = bodies(&mut packets, 5, 0x22);
    assert_eq!(tx.send(tier, &mut packets, &slots).unwrap().packets, 5);
    assert!(receive(&mut receiver, tier).is_empty(), "not before those that wait");
    tx.flush();
    packets.end_round();
    let wanted = [vec![vec![0x11; 1464]; 5], vec![vec![0x22; 1464]; 5]].concat();
    assert!(receive(&mut receiver, tier) == wanted);
    assert_eq!(device.counts().transfers, transfers + 5, "of the later ones the device was offered none");
}

/// A dataplane whose device is dead, so that bodies are copied when it is flushed and no sooner, and a receiver. The device's patience
/// is short.
fn late() -> (MemifEngineTx<Channel>, MemifRx, (Connection, Connection)) {
    let troubles = Troubles { dies_after: Some(0), ..Troubles::default() };
    let device = device(ModelOptions { troubles, ..ModelOptions::default() }, Duration::from_millis(20));
    let (mut right, mut right_server) = pair();
    let tx = MemifEngineTx::new(right_server.tx.remove(0), channel(&device), THRESHOLD);
    (tx, MemifRx::new(right.rx.remove(0)), (right, right_server))
}

/// Packets with bodies of their own.
fn bodies(packets: &mut Packets, count: usize, byte: u8) -> Vec<SlotId> {
    let one = |_| {
        let slot = packets.take(0).unwrap();
        assert!(packets.append(slot, &[byte; 64]));
        packets.new_body(slot, 1400).unwrap().fill(byte);
        slot
    };
    (0..count).map(one).collect()
}

#[test]
fn bodies_stay_what_they_are_until_they_are_copied_whatever_becomes_of_the_round() {
    let tier = Tier::detect();
    let (mut tx, mut receiver, _connections) = late();
    // A round that ends before its queues are flushed.
    let mut packets = Packets::new();
    let slots = bodies(&mut packets, 8, 0x11);
    assert_eq!(tx.send(tier, &mut packets, &slots).unwrap().packets, 8);
    packets.end_round();
    bodies(&mut packets, 40, 0x22);
    tx.flush();
    assert_eq!(receive(&mut receiver, tier), vec![vec![0x11; 1464]; 8]);
}

#[test]
fn a_worker_that_panics_leaves_the_bodies_to_those_it_shares_a_queue_with() {
    let tier = Tier::detect();
    let (tx, mut receiver, _connections) = late();
    let shared = std::sync::Mutex::new(tx);
    let worker = |byte, panics: bool| {
        let mut packets = Packets::new();
        let slots = bodies(&mut packets, 8, byte);
        assert_eq!(shared.lock().unwrap().send(tier, &mut packets, &slots).unwrap().packets, 8);
        assert!(!panics, "a node of the same round");
        shared.lock().unwrap().flush();
        packets.end_round();
    };
    std::thread::scope(|scope| {
        assert!(scope.spawn(|| worker(0x11, true)).join().is_err());
        assert!(scope.spawn(|| worker(0x22, false)).join().is_ok());
    });
    let wanted = [vec![vec![0x11; 1464]; 8], vec![vec![0x22; 1464]; 8]].concat();
    assert!(receive(&mut receiver, tier) == wanted);
}

#[test]
fn a_queue_and_its_packets_may_go_in_any_order() {
    let tier = Tier::detect();
    for packets_first in [true, false] {
        let (mut tx, mut receiver, _connections) = late();
        let mut packets = Packets::new();
        let slots = bodies(&mut packets, 8, 0x11);
        assert_eq!(tx.send(tier, &mut packets, &slots).unwrap().packets, 8);
        if packets_first {
            drop(packets);
            drop(tx);
        } else {
            drop(tx);
            drop(packets);
        }
        assert!(receive(&mut receiver, tier).is_empty(), "nothing was published");
    }
}

#[test]
fn memory_is_used_again_after_a_call_that_sent_nothing() {
    let tier = Tier::detect();
    let (mut tx, _receiver, _connections) = late();
    let mut packets = Packets::new();
    // More than the ring takes: what comes behind is not sent, nobody flushes for it, and its worker may go on.
    let slots = bodies(&mut packets, 2 * RING as usize, 0x11);
    assert_eq!(tx.send(tier, &mut packets, &slots).unwrap().stop, Stop::Full);
    let mut other = Packets::new();
    let mut at = Vec::new();
    for _ in 0..2 {
        let slot = other.take(0).unwrap();
        at.push(other.new_body(slot, 1400).unwrap().as_ptr());
        assert_eq!(tx.send(tier, &mut other, &[slot]).unwrap().packets, 0);
        other.end_round();
    }
    assert_eq!(at[0], at[1]);
}
