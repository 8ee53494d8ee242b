//! Generators through their queues and through a graph.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::{Joined, Side, receive_all};
use memory::packet::Packets;
use quiver_ports::generator::{self, Field, GeneratorOptions, PacketSpec, Protocol, Vary, build};
use quiver_ports::sink::{self, SinkOptions};
use quiver_ports::{LinkLayer, PortError};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use wire::MacAddr;

fn template(len: usize) -> Vec<u8> {
    let spec = PacketSpec {
        ethernet: Some((MacAddr([2, 0xfe, 0, 0, 0, 1]), MacAddr([2, 0xfe, 0, 0, 0, 2]))),
        source: "10.9.0.1".parse().unwrap(),
        destination: "10.9.0.2".parse().unwrap(),
        protocol: Protocol::Udp,
        source_port: 1000,
        destination_port: 9,
        len,
    };
    build(&spec).unwrap()
}

fn ports(frames: &[Vec<u8>]) -> Vec<u16> {
    frames.iter().map(|frame| u16::from_be_bytes([frame[34], frame[35]])).collect()
}

#[test]
fn queues_share_the_sequence_and_the_count() {
    let vary = Vary { field: Field::SourcePort, count: 1000, step: 1 };
    let options = GeneratorOptions {
        frames: vec![template(60), template(200)],
        vary: vec![vary],
        count: 601,
        rx_queues: 3,
        ..GeneratorOptions::new("gen", vec![])
    };
    let mut port = generator::open(&options).unwrap();
    let mut packets = Packets::new();
    let mut all = Vec::new();
    for (queue, rx) in port.rx.iter_mut().enumerate() {
        assert!(!rx.arm(), "packets are there");
        let frames = receive_all(&mut **rx, &mut packets);
        assert_eq!(frames.len(), if queue == 0 { 201 } else { 200 });
        assert!(receive_all(&mut **rx, &mut packets).is_empty() && rx.arm(), "no more will come");
        for (number, frame) in frames.iter().enumerate() {
            assert_eq!(frame.len(), if (queue + 3 * number) % 2 == 0 { 60 } else { 200 });
        }
        all.extend(ports(&frames));
    }
    all.sort_unstable();
    assert_eq!(all, (1000..1601).collect::<Vec<u16>>());
}

#[test]
fn flows_are_drawn_alike_by_one_queue_and_by_many() {
    let drawn = |rx_queues| {
        let options = GeneratorOptions {
            frames: vec![template(60)],
            vary: vec![Vary { field: Field::SourcePort, count: 1000, step: 1 }],
            random: true,
            count: 240,
            rx_queues,
            ..GeneratorOptions::new("gen", vec![])
        };
        let mut port = generator::open(&options).unwrap();
        let mut packets = Packets::new();
        let each = port.rx.iter_mut().map(|rx| ports(&receive_all(&mut **rx, &mut packets)));
        let each: Vec<Vec<u16>> = each.collect();
        // Queue q has made packets q, q + 3, …
        (0..240).map(|number| each[number % each.len()][number / each.len()]).collect::<Vec<_>>()
    };
    let one = drawn(1);
    assert_eq!(one, drawn(3));
    assert!(one.iter().all(|port| (1000..2000).contains(port)), "{one:?}");
    assert!(!one.is_sorted(), "in no order");
    let different: std::collections::BTreeSet<_> = one.iter().collect();
    // Drawn 240 times, 213 of 1000 values are different on average: 1000 · (1 − 0.999^240). In turn it would be all 240.
    assert!((190..236).contains(&different.len()), "{}", different.len());
}

#[test]
fn a_rate_is_kept_and_a_sleeping_worker_is_woken() {
    // The first at once, the second not.
    let slow = GeneratorOptions { rate: 1, ..GeneratorOptions::new("slow", template(60)) };
    let mut port = generator::open(&GeneratorOptions { rx_queues: 2, ..slow.clone() }).unwrap();
    let mut packets = Packets::new();
    assert_eq!(receive_all(&mut *port.rx[0], &mut packets).len(), 1);
    assert_eq!(receive_all(&mut *port.rx[1], &mut packets).len(), 0, "packet 1 is due after a second");

    let options = GeneratorOptions { rate: 500, count: 5, ..slow };
    let mut port = generator::open(&options).unwrap();
    let rx = &mut port.rx[0];
    let mut got = 0;
    while got < 5 {
        let n = receive_all(&mut **rx, &mut packets).len();
        got += n;
        if n == 0 && rx.arm() {
            let mut fds = [PollFd::from_borrowed_fd(rx.event_fd().unwrap(), PollFlags::IN)];
            let patience = Timespec { tv_sec: 20, tv_nsec: 0 };
            assert_eq!(poll(&mut fds, Some(&patience)).unwrap(), 1, "the timer wakes");
            rx.disarm();
        }
    }
    assert_eq!(got, 5);
    assert!(rx.arm() && receive_all(&mut **rx, &mut packets).is_empty());
}

#[test]
fn from_a_generator_to_a_sink() {
    let options = GeneratorOptions { count: 10_000, ..GeneratorOptions::new("gen", template(64)) };
    let mut source = generator::open(&options).unwrap();
    let mut sink = sink::open(&SinkOptions { name: "sink".into(), link: LinkLayer::Ethernet, tx_queues: 1 });
    let mut joined = Joined::new([
        Side::new(&mut source, "generator-input", "sink-tx"),
        Side::new(&mut sink, "tap-input", "sink-tx"),
    ]);
    while joined.round() > 0 {}
    let counters = joined.graph.counters();
    let (from, to) = (counters.interface(0), counters.interface(1));
    assert_eq!((from.rx_packets.get(), from.rx_bytes.get()), (10_000, 640_000));
    assert_eq!((to.tx_packets.get(), to.tx_bytes.get()), (10_000, 640_000));
}

#[test]
fn what_cannot_be_made_is_explained() {
    let error = |options: GeneratorOptions| generator::open(&options).unwrap_err();
    let none = GeneratorOptions { frames: vec![], ..GeneratorOptions::new("gen", vec![]) };
    assert!(error(none).to_string().contains("at least one is needed"));
    let empty = error(GeneratorOptions::new("gen", vec![]));
    assert!(matches!(empty, PortError::Option { field: "frame", .. }), "{empty}");
    let vary = vec![Vary { field: Field::SourcePort, count: 2, step: 1 }];
    let arp = GeneratorOptions { vary, ..GeneratorOptions::new("gen", vec![0; 42]) };
    assert!(error(arp).to_string().contains("frame 0 is no IP packet"));
}
