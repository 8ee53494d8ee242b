//! Both ends of a connection in one process: packets arrive whole, in order, once; rings fill, empty and
//! wrap.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::{Packets, packet, receive, send};
use memif::ring::Armed;
use memif::{QueueConfig, RingSize, in_process};
use memory::region::HugePages;

fn config(ring: u32, buffer_size: u32) -> QueueConfig {
    QueueConfig {
        ring_size: RingSize::from_descriptors(ring).unwrap(),
        buffer_size,
        huge_pages: HugePages::Never,
        ..QueueConfig::default()
    }
}

/// Sends rounds of packets of many lengths both ways, enough to wrap 16-bit indices, checking every byte.
fn exchange(config: &QueueConfig, lengths: &[usize], rounds: usize) {
    let (mut client, mut server) = in_process(config).unwrap();
    let mut number = 0;
    for _ in 0..rounds {
        let packets: Vec<_> = lengths.iter().enumerate().map(|(i, l)| packet(number + i, *l)).collect();
        number += packets.len();
        for (from, to) in [(&mut client.tx, &mut server.rx), (&mut server.tx, &mut client.rx)] {
            let mut sent = 0;
            while sent < packets.len() {
                let n = send(&mut from[0], &packets[sent..]).unwrap();
                assert!(n > 0);
                assert_eq!(receive(&mut to[0]).unwrap(), packets[sent..sent + n]);
                sent += n;
            }
            assert!(receive(&mut to[0]).unwrap().is_empty());
        }
    }
}

#[test]
fn every_byte_arrives_both_ways() {
    exchange(&config(64, 2048), &[1, 59, 60, 64, 65, 1500, 2047, 2048], 10_000);
}

#[test]
fn long_packets_are_chained() {
    exchange(&config(64, 2048), &[60, 2049, 4096, 4097, 9000, 9014, 65_553, 64], 400);
    exchange(&config(64, 64), &[65, 128, 129, 1, 64, 64 * 64], 2000);
}

#[test]
fn the_largest_ring() {
    exchange(&config(16_384, 64), &(1..=64).cycle().take(20_000).collect::<Vec<_>>(), 5);
}

#[test]
fn a_full_ring_takes_no_more_and_loses_nothing() {
    let (mut client, mut server) = in_process(&config(64, 2048)).unwrap();
    let packets: Vec<_> = (0..100).map(|i| packet(i, 60 + i)).collect();
    for (tx, rx) in [(&mut client.tx[0], &mut server.rx[0]), (&mut server.tx[0], &mut client.rx[0])] {
        assert_eq!(tx.room().unwrap(), 64);
        assert_eq!(send(tx, &packets).unwrap(), 64);
        assert_eq!(tx.room().unwrap(), 0);
        assert_eq!(send(tx, &packets[64..]).unwrap(), 0);
        assert_eq!(receive(rx).unwrap(), packets[..64]);
        assert_eq!(send(tx, &packets[64..]).unwrap(), 36);
        assert_eq!(receive(rx).unwrap(), packets[64..]);
    }
}

#[test]
fn slots_are_the_senders_again_only_after_release() {
    let (mut client, mut server) = in_process(&config(64, 2048)).unwrap();
    let packets: Vec<_> = (0..64).map(|i| packet(i, 60)).collect();
    for (tx, rx) in [(&mut client.tx[0], &mut server.rx[0]), (&mut server.tx[0], &mut client.rx[0])] {
        send(tx, &packets).unwrap();
        let mut sink = Packets::default();
        assert_eq!(rx.receive(10, &mut sink).unwrap(), 10);
        assert_eq!(rx.receive(10, &mut sink).unwrap(), 10);
        assert_eq!((rx.held(), tx.room().unwrap()), (20, 0));
        rx.release();
        assert_eq!((rx.held(), tx.room().unwrap()), (0, 20));
        assert_eq!(sink.0, packets[..20]);
    }
}

#[test]
fn a_chain_without_room_waits_and_one_that_never_fits_is_refused() {
    let (mut client, mut server) = in_process(&config(64, 64)).unwrap();
    let packets = [packet(0, 64 * 60), packet(1, 64 * 5), packet(2, 64 * 64 + 1), vec![], packet(4, 60)];
    let (tx, rx) = (&mut client.tx[0], &mut server.rx[0]);
    assert_eq!(send(tx, &packets).unwrap(), 1, "the second has 4 of 5 slots");
    assert_eq!(receive(rx).unwrap(), packets[..1]);
    assert_eq!(send(tx, &packets[1..]).unwrap(), 4, "too long and empty: refused at once");
    assert_eq!(receive(rx).unwrap(), [packets[1].clone(), packets[4].clone()]);
    // How long the peer's buffers are shows only one by one.
    let (tx, rx) = (&mut server.tx[0], &mut client.rx[0]);
    assert_eq!(send(tx, &packets).unwrap(), 1, "the second has 4 of 5 slots");
    assert_eq!(receive(rx).unwrap(), packets[..1]);
    assert_eq!(send(tx, &packets[1..]).unwrap(), 1, "the third might fit later");
    assert_eq!(receive(rx).unwrap(), packets[1..2]);
    assert_eq!(send(tx, &packets[2..]).unwrap(), 3, "too long and empty: refused");
    assert_eq!(receive(rx).unwrap(), packets[4..]);
}

#[test]
fn queues_may_be_asymmetric() {
    let config = QueueConfig { rx_queues: 1, tx_queues: 3, ..config(64, 128) };
    let (mut client, mut server) = in_process(&config).unwrap();
    assert_eq!((client.rx.len(), client.tx.len()), (1, 3));
    assert_eq!((server.rx.len(), server.tx.len()), (3, 1));
    for i in 0..3 {
        send(&mut client.tx[i], &[packet(i, 100 + i)]).unwrap();
    }
    for i in 0..3 {
        assert_eq!(receive(&mut server.rx[i]).unwrap(), [packet(i, 100 + i)]);
    }
    send(&mut server.tx[0], &[packet(9, 90)]).unwrap();
    assert_eq!(receive(&mut client.rx[0]).unwrap(), [packet(9, 90)]);
}

#[test]
fn an_armed_queue_is_signalled_once_and_a_polled_one_never() {
    let (mut client, mut server) = in_process(&config(64, 2048)).unwrap();
    for (tx, rx) in [(&mut client.tx[0], &mut server.rx[0]), (&mut server.tx[0], &mut client.rx[0])] {
        let signalled = |rx: &memif::RxQueue| rx.event().clear();
        send(tx, &[packet(0, 60)]).unwrap();
        assert!(!signalled(rx), "polling is the initial state");
        assert_eq!(rx.arm().unwrap(), Armed::AlreadyReady);
        receive(rx).unwrap();
        assert_eq!(rx.arm().unwrap(), Armed::Sleep);
        send(tx, &[packet(1, 60)]).unwrap();
        assert!(signalled(rx));
        assert_eq!(receive(rx).unwrap().len(), 1);
        rx.disarm();
        send(tx, &[packet(2, 60)]).unwrap();
        assert!(!signalled(rx));
        receive(rx).unwrap();
    }
}
