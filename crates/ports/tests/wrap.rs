//! Queues around queues. What they stand around is a generator whose packets are numbered by their source port.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::{Joined, Side, receive_all, send};
use graph::port::{Quota, RxQueue};
use memory::clock::nanoseconds;
use memory::packet::Packets;
use quiver_ports::generator::{self, Field, GeneratorOptions, PacketSpec, Protocol, Vary, build};
use quiver_ports::memif::{MemifRx, MemifTx};
use quiver_ports::sink::{self, SinkOptions};
use quiver_ports::wrap::capture::{
    CaptureDrops, CaptureOptions, CapturePoint, CaptureRx, CaptureTx, NoCapture, Seen,
};
use quiver_ports::wrap::{Damage, Fault, FaultOptions};
use quiver_ports::{LinkLayer, Port};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use wire::MacAddr;

fn source(count: u64) -> Port {
    let spec = PacketSpec {
        ethernet: Some((MacAddr([2, 0xfe, 0, 0, 0, 1]), MacAddr([2, 0xfe, 0, 0, 0, 2]))),
        source: "10.9.0.1".parse().unwrap(),
        destination: "10.9.0.2".parse().unwrap(),
        protocol: Protocol::Udp,
        source_port: 0,
        destination_port: 9,
        len: 200,
    };
    let vary = vec![Vary { field: Field::SourcePort, count: 65536, step: 1 }];
    let frame = build(&spec).unwrap();
    generator::open(&GeneratorOptions { count, vary, ..GeneratorOptions::new("gen", frame) }).unwrap()
}

fn queue(count: u64) -> Box<dyn RxQueue> {
    source(count).rx.pop().unwrap()
}

fn sink() -> Port {
    sink::open(&SinkOptions { name: "sink".into(), link: LinkLayer::Ethernet, tx_queues: 1 })
}

fn number(frame: &[u8]) -> u16 {
    u16::from_be_bytes([frame[34], frame[35]])
}

/// Everything a queue delivers until it has nothing more.
fn all(rx: &mut dyn RxQueue) -> Vec<Vec<u8>> {
    let mut packets = Packets::new();
    let mut frames = Vec::new();
    loop {
        let now = receive_all(rx, &mut packets);
        if now.is_empty() && rx.arm() {
            return frames;
        }
        frames.extend(now);
    }
}

fn faulty(count: u64, options: FaultOptions) -> Vec<Vec<u8>> {
    all(&mut Fault::new(queue(count), options))
}

fn numbers(frames: &[Vec<u8>]) -> Vec<u16> {
    frames.iter().map(|frame| number(frame)).collect()
}

#[test]
fn each_fault_does_what_it_says() {
    const ALL: u32 = 1_000_000;
    let clean = all(&mut *queue(6));
    assert_eq!(faulty(6, FaultOptions::default()), clean);
    assert!(faulty(6, FaultOptions { drop_ppm: ALL, ..FaultOptions::default() }).is_empty());
    let twice = faulty(6, FaultOptions { duplicate_ppm: ALL, ..FaultOptions::default() });
    assert_eq!(numbers(&twice), [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]);
    let swapped = faulty(5, FaultOptions { reorder_ppm: ALL, ..FaultOptions::default() });
    assert_eq!(numbers(&swapped), [1, 0, 3, 2, 4], "the last one has no successor and comes all the same");
    let corrupt = faulty(1000, FaultOptions { corrupt_ppm: ALL, ..FaultOptions::default() });
    let mut places = [0; 200];
    for (frame, clean) in corrupt.iter().zip(all(&mut *queue(1000))) {
        let bits = frame.iter().zip(&clean).map(|(a, b)| (a ^ b).count_ones()).collect::<Vec<_>>();
        assert_eq!(bits.iter().sum::<u32>(), 1);
        places[bits.iter().position(|bits| *bits == 1).unwrap()] += 1;
    }
    assert!(places.iter().filter(|hits| **hits > 0).count() > 150, "spread over the packet: {places:?}");
    let cut = faulty(1000, FaultOptions { truncate_ppm: ALL, ..FaultOptions::default() });
    assert!(cut.iter().all(|frame| (1..=200).contains(&frame.len())));
    assert!(cut.iter().any(|frame| frame.len() < 20) && cut.iter().any(|frame| frame.len() > 180));
}

#[test]
fn held_back_packets_come_later() {
    let delay = Duration::from_millis(30);
    let options = FaultOptions { delay_ppm: 200_000, delay, seed: 7, ..FaultOptions::default() };
    let start = nanoseconds();
    let mut fault = Fault::new(queue(200), options);
    let mut packets = Packets::new();
    let first = numbers(&receive_all(&mut fault, &mut packets));
    assert!((120..180).contains(&first.len()), "about a fifth is held back: {}", first.len());
    assert!(!fault.arm(), "a worker must not sleep on what is held");
    let late = numbers(&all(&mut fault));
    assert!(nanoseconds() - start >= delay.as_nanos() as u64);
    assert!(late.is_sorted() && late.iter().all(|number| !first.contains(number)));
    assert_eq!(first.len() + late.len(), 200);
    assert!(fault.arm());
}

#[test]
fn a_peer_all_of_whose_packets_are_lost_on_purpose_can_go_on_sending() {
    let (client, server) = memif::in_process(&memif::QueueConfig::default()).unwrap();
    let ring = usize::from(client.tx[0].ring_size().descriptors());
    let mut peer = MemifTx::new(client.tx.into_iter().next().unwrap());
    let damage = Damage::default();
    let rx = MemifRx::new(server.rx.into_iter().next().unwrap());
    let (mut from, mut to) = (sink(), sink());
    from.rx = vec![Box::new(Fault::switched(Box::new(rx), damage.clone()))];
    let mut joined = Joined::new([
        Side::new(&mut from, "memif-input", "sink-tx"),
        Side::new(&mut to, "tap-input", "sink-tx"),
    ]);
    let frame = all(&mut *queue(1)).remove(0);
    damage.set(FaultOptions { drop_ppm: 1_000_000, ..FaultOptions::default() });
    for packet in 0..3 * ring {
        assert_eq!(send(&mut peer, &frame).packets, 1, "packet {packet}: its ring of {ring} is full");
        assert_eq!(joined.round(), 0);
    }
    assert_eq!(joined.drops("memif-input", "fault"), 3 * ring as u64);
    let counters = joined.graph.counters().interface(0);
    assert_eq!((counters.rx_packets.get(), counters.rx_drops.get()), (3 * ring as u64, 3 * ring as u64));
    assert_eq!(counters.rx_bytes.get(), (3 * ring * frame.len()) as u64);
    // Nothing is opened again for it to end.
    damage.set(FaultOptions::default());
    assert_eq!(send(&mut peer, &frame).packets, 1);
    assert_eq!(joined.round(), 1);
}

#[test]
fn the_seed_decides() {
    let options = |seed| FaultOptions {
        drop_ppm: 100_000,
        corrupt_ppm: 100_000,
        truncate_ppm: 100_000,
        duplicate_ppm: 100_000,
        reorder_ppm: 100_000,
        seed,
        ..FaultOptions::default()
    };
    let one = faulty(5000, options(1));
    assert_eq!(one, faulty(5000, options(1)));
    assert_ne!(one, faulty(5000, options(2)));
    // 5000 less a tenth, and a tenth of those twice: 4950, with a standard deviation of about 30.
    assert!((4800..5100).contains(&one.len()), "{}", one.len());
    let gentle =
        FaultOptions { corrupt_ppm: 0, truncate_ppm: 0, duplicate_ppm: 0, reorder_ppm: 0, ..options(1) };
    let kept = numbers(&faulty(5000, gentle));
    let lost = |number: &u16| !kept.contains(number);
    let still_lost = numbers(&faulty(5000, FaultOptions { duplicate_ppm: 500_000, ..gentle }));
    assert!((0..5000).filter(lost).all(|number| !still_lost.contains(&number)), "the same packets are lost");
}

fn capture(port: &mut Port, point: &Arc<CapturePoint>) {
    port.rx = port.rx.drain(..).map(|rx| Box::new(CaptureRx::new(rx, Arc::clone(point), 3)) as _).collect();
    port.tx = port.tx.drain(..).map(|tx| Box::new(CaptureTx::new(tx, Arc::clone(point), 3)) as _).collect();
}

#[test]
fn received_sent_and_dropped_packets_are_shown() {
    let point = Arc::new(CapturePoint::default());
    let (mut from, mut to) = (source(300), sink());
    capture(&mut from, &point);
    capture(&mut to, &point);
    let mut joined = Joined::new([
        Side::new(&mut from, "generator-input", "sink-tx"),
        Side::new(&mut to, "tap-input", "sink-tx"),
    ]);
    joined.graph.drop_capture = Some(Box::new(CaptureDrops::new(Arc::clone(&point), 3)));
    let mut everything = point.start(CaptureOptions::default()).unwrap();
    let some = point.start(CaptureOptions {
        interfaces: Some([1].into()),
        count: 10,
        snap_len: 60,
        ..CaptureOptions::default()
    });
    let mut some = some.unwrap();
    let world = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    let before = world();
    joined.round();
    // The second interface loses its way out: the rest is dropped.
    joined.graph.ports.detach(1);
    joined.round();
    let second = Duration::from_secs(1).as_nanos() as u64;
    let clean = all(&mut *queue(300));
    let mut seen = Vec::new();
    while let Some(packet) = everything.try_recv() {
        assert!((before - second..world() + second).contains(&packet.timestamp_ns));
        assert_eq!(
            (packet.original_len, &packet.bytes[..]),
            (200, &clean[usize::from(number(&packet.bytes))][..])
        );
        assert_eq!(packet.worker, 3);
        seen.push((packet.seen, packet.interface, number(&packet.bytes)));
    }
    let plan = joined.graph.plan();
    let (node, drop) = plan.drops[usize::from(match seen.last().unwrap().0 {
        Seen::Dropped { reason } => reason,
        other => panic!("{other:?}"),
    })];
    assert_eq!((plan.nodes[usize::from(node)].spec.name, drop.name), ("sink-tx", "link-down"));
    let of = |interface, wanted: fn(&Seen) -> bool| -> Vec<u16> {
        let matching = seen.iter().filter(|(seen, at, _)| wanted(seen) && *at == interface);
        matching.map(|(_, _, number)| *number).collect()
    };
    assert_eq!(of(0, |seen| *seen == Seen::Received), (0..300).collect::<Vec<_>>());
    assert_eq!(of(1, |seen| *seen == Seen::Sent), (0..256).collect::<Vec<_>>());
    assert_eq!(of(0, |seen| matches!(seen, Seen::Dropped { .. })), (256..300).collect::<Vec<_>>());
    assert_eq!((seen.len(), everything.missed()), (600, 0));

    let first: Vec<_> = std::iter::from_fn(|| some.try_recv()).collect();
    assert_eq!((first.len(), some.ended(), some.missed()), (10, true, 0));
    assert!(first.iter().all(|packet| packet.seen == Seen::Sent && packet.bytes.len() == 60));
    assert_eq!(first[9].bytes[..], clean[9][..60]);
}

#[test]
fn what_a_slow_reader_misses_is_counted() {
    // Two captures can have 1.5 MiB in any case, and there are 4 MiB for both.
    let point = Arc::new(CapturePoint::new(8 << 20));
    let mut rx = CaptureRx::new(queue(0), Arc::clone(&point), 0);
    let mut packets = Packets::new();
    let mut slow = point.start(CaptureOptions::default()).unwrap();
    let mut received = 0;
    while slow.missed() == 0 {
        received += receive_all(&mut rx, &mut packets).len() as u64;
    }
    assert_eq!(point.used(), (1536 << 10) + (2 << 20), "what it can have in any case, and half of the rest");
    // Another has room for itself, and the slow one for nothing more.
    let mut other = point.start(CaptureOptions::default()).unwrap();
    let missed = slow.missed();
    received += receive_all(&mut rx, &mut packets).len() as u64;
    assert_eq!(slow.missed(), missed + 256);
    assert_eq!((std::iter::from_fn(|| other.try_recv()).count(), other.missed()), (256, 0));
    let got: Vec<u16> = std::iter::from_fn(|| slow.try_recv()).map(|packet| number(&packet.bytes)).collect();
    assert!(got.iter().enumerate().all(|(at, number)| at as u16 == *number), "the first ones, in order");
    assert_eq!(got.len() as u64 + slow.missed(), received);
    let before = slow.missed();
    assert_eq!(receive_all(&mut rx, &mut packets).len(), 256);
    assert_eq!(std::iter::from_fn(|| slow.try_recv()).count(), 256, "room again");
    assert_eq!(slow.missed(), before);
    drop(slow);
    receive_all(&mut rx, &mut packets);
    assert_eq!(std::iter::from_fn(|| other.try_recv()).count(), 512, "the other capture goes on");
    drop(other);
    assert_eq!(point.used(), 0);
    let late = point.start(CaptureOptions { received: false, ..CaptureOptions::default() }).unwrap();
    receive_all(&mut rx, &mut packets);
    assert_eq!(late.missed(), 0);
}

#[test]
fn captures_are_limited_in_number_and_memory() {
    let start = |point: &Arc<CapturePoint>| -> Vec<_> {
        std::iter::from_fn(|| point.start(CaptureOptions::default()).ok()).collect()
    };
    let small = Arc::new(CapturePoint::new(16 << 20));
    let all = start(&small);
    assert_eq!(all.len(), 5);
    assert_eq!(small.start(CaptureOptions::default()).unwrap_err(), NoCapture::Memory(16 << 20));
    drop(all);
    assert_eq!(start(&small).len(), 5);
    let large = Arc::new(CapturePoint::default());
    let all = start(&large);
    assert_eq!(large.start(CaptureOptions::default()).unwrap_err(), NoCapture::Many);
    assert_eq!(all.len(), 64);
}

#[test]
fn headers_that_were_taken_off_are_shown_with_a_drop() {
    use graph::context::DropCapture;
    let point = Arc::new(CapturePoint::default());
    // A capture knows the workers that there are when it begins.
    let drops = CaptureDrops::new(Arc::clone(&point), 1);
    let mut reader = point.start(CaptureOptions { snap_len: 150, ..CaptureOptions::default() }).unwrap();
    let clean = all(&mut *queue(1)).remove(0);
    let mut packets = Packets::new();
    queue(1).receive(common::SCALAR, &mut packets, 3, Quota::packets(1)).unwrap();
    assert!(packets.strip(0, 34));
    packets.meta_mut(0).drop_reason = 5;
    drops.dropped(&packets, 0, nanoseconds());
    drops.end_round();
    let packet = reader.try_recv().unwrap();
    assert_eq!((packet.seen, packet.interface), (Seen::Dropped { reason: 5 }, 3));
    assert_eq!((packet.original_len, &packet.bytes[..]), (200, &clean[..150]));
}
