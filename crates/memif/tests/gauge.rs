//! Rings as they are shown: what is in them, who polls, who was signalled.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::{packet, receive, send};
use memif::ring::Armed;
use memif::{QueueConfig, RingSize, in_process};
use memory::region::HugePages;

fn config() -> QueueConfig {
    QueueConfig {
        ring_size: RingSize::from_descriptors(64).unwrap(),
        buffer_size: 256,
        huge_pages: HugePages::Never,
        ..QueueConfig::default()
    }
}

#[test]
fn both_ends_see_what_is_in_a_ring() {
    let (mut client, mut server) = in_process(&config()).unwrap();
    for (tx, rx) in [(&mut client.tx[0], &mut server.rx[0]), (&mut server.tx[0], &mut client.rx[0])] {
        let (from, to) = (tx.gauge(), rx.gauge());
        assert_eq!((from.filled(), to.filled()), (0, 0));
        send(tx, &[packet(0, 60), packet(1, 600)]).unwrap();
        assert_eq!((from.filled(), to.filled()), (4, 4), "the second is a chain of three");
        receive(rx).unwrap();
        assert_eq!((from.filled(), to.filled()), (0, 0));
        send(tx, &vec![packet(0, 60); 100]).unwrap();
        assert_eq!((from.filled(), to.filled()), (64, 64));
        receive(rx).unwrap();
    }
}

#[test]
fn buffers_are_as_large_as_the_client_has_made_them() {
    let (mut client, mut server) = in_process(&config()).unwrap();
    assert_eq!(client.tx[0].gauge().buffer_size(), Some(256));
    assert_eq!(client.rx[0].gauge().buffer_size(), Some(256));
    assert_eq!(server.tx[0].gauge().buffer_size(), Some(256));
    assert_eq!(server.rx[0].gauge().buffer_size(), None, "nothing there tells");
    send(&mut server.tx[0], &vec![packet(0, 60); 64]).unwrap();
    assert_eq!(server.tx[0].gauge().buffer_size(), None, "no buffer is empty");
    receive(&mut client.rx[0]).unwrap();
    assert_eq!(server.tx[0].gauge().buffer_size(), Some(256));
}

#[test]
fn signals_count_once_they_are_given_and_taken() {
    let (mut client, mut server) = in_process(&config()).unwrap();
    for (tx, rx) in [(&mut client.tx[0], &mut server.rx[0]), (&mut server.tx[0], &mut client.rx[0])] {
        let (from, to) = (tx.gauge(), rx.gauge());
        send(tx, &[packet(0, 60)]).unwrap();
        assert!(from.polling() && to.polling());
        assert_eq!((from.counters().signals, to.counters().signals), (0, 0));
        receive(rx).unwrap();
        assert_eq!(rx.arm().unwrap(), Armed::Sleep);
        assert!(!from.polling() && !to.polling());
        send(tx, &[packet(1, 60)]).unwrap();
        assert_eq!((from.counters().signals, to.counters().signals), (1, 0));
        assert!(rx.take_signal());
        assert!(!rx.take_signal());
        assert_eq!((from.counters().signals, to.counters().signals), (1, 1));
    }
}

#[test]
fn packets_and_bytes_are_counted_where_they_were_sent_and_received() {
    let (mut client, mut server) = in_process(&config()).unwrap();
    for (tx, rx) in [(&mut client.tx[0], &mut server.rx[0]), (&mut server.tx[0], &mut client.rx[0])] {
        let (from, to) = (tx.gauge(), rx.gauge());
        let counts = |gauge: &memif::ring::RingGauge| {
            let now = gauge.counters();
            (now.packets, now.bytes, now.full)
        };
        // In one buffer, in three, and one that can never be sent.
        send(tx, &[packet(0, 60), packet(1, 600), Vec::new(), packet(2, 61)]).unwrap();
        assert_eq!((counts(&from), counts(&to)), ((3, 721, 0), (0, 0, 0)));
        receive(rx).unwrap();
        assert_eq!(counts(&to), (3, 721, 0));
        assert_eq!(send(tx, &vec![packet(0, 60); 100]).unwrap(), 64);
        assert_eq!(counts(&from), (67, 721 + 64 * 60, 36));
        assert_eq!(send(tx, &[packet(0, 60)]).unwrap(), 0);
        assert_eq!(counts(&from), (67, 721 + 64 * 60, 37), "once each time it is offered");
        receive(rx).unwrap();
        assert_eq!(counts(&to), (67, 721 + 64 * 60, 0));
        assert_eq!((tx.counters(), rx.counters()), (from.counters(), to.counters()));
    }
}
