//! Packets sent as lines from where they lie one after another arrive as those sent one by one do, whatever went round the ring before.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::{packet, receive, send};
use memif::region::{CheckedRange, HugePages};
use memif::ring::RING_HEADER;
use memif::{Connection, Lines, QueueConfig, RingSize, TxSource, in_process};

const RING: usize = 64;

fn pair(buffer_size: u32) -> (Connection, Connection) {
    let ring_size = RingSize::MIN;
    let config =
        QueueConfig { ring_size, buffer_size, huge_pages: HugePages::Never, ..QueueConfig::default() };
    in_process(&config).unwrap()
}

/// Lines, of which whole packets can be had one by one, too, and how many were.
struct Source {
    length: u32,
    lines: Vec<[u8; 64]>,
    by_one: usize,
}

impl Source {
    fn new(first: usize, count: usize, length: u32) -> Self {
        let lines = (first..first + count).map(|number| packet(number, 64).try_into().unwrap()).collect();
        Self { length, lines, by_one: 0 }
    }

    fn packet(&self, number: usize) -> Vec<u8> {
        let mut packet = self.lines[number].to_vec();
        packet.resize(self.length as usize, 0);
        packet
    }
}

impl TxSource for Source {
    fn length(&mut self, _: usize) -> u32 {
        self.length
    }

    fn write(&mut self, number: usize, into: CheckedRange<'_>) {
        self.by_one += 1;
        assert_eq!(into.write(&self.packet(number)), self.length as usize);
    }

    fn write_chain(&mut self, number: usize, into: &[CheckedRange<'_>]) {
        self.by_one += 1;
        let packet = self.packet(number);
        let mut rest = &packet[..];
        for part in into {
            rest = &rest[part.write(rest)..];
        }
    }

    fn lines(&self) -> Option<Lines<'_>> {
        Some(Lines { length: self.length, lines: &self.lines })
    }
}

#[test]
fn lines_arrive_in_order_with_other_lengths_between_them() {
    let (mut client, mut server) = pair(2048);
    let mut number = 0;
    // More than 65536 packets: indices wrap.
    for burst in 0..2000 {
        let (count, length) = ([1, 3, 4, 31, 64, 5][burst % 6], [60, 64, 1, 60, 63][burst / 7 % 5]);
        let mut source = Source::new(number, count, length);
        let sent = client.tx[0].transmit(count, &mut source).unwrap();
        assert_eq!((sent.sent, sent.refused, source.by_one), (count, 0, 0));
        let frames: Vec<_> = (0..count).map(|n| source.packet(n)).collect();
        assert_eq!(receive(&mut server.rx[0]).unwrap(), frames, "burst {burst}");
        number += count;
        if burst % 11 == 0 {
            let others: Vec<_> = [1500, 5000, 60].map(|length| packet(burst, length)).to_vec();
            assert_eq!(send(&mut client.tx[0], &others), Ok(3));
            assert_eq!(receive(&mut server.rx[0]).unwrap(), others);
        }
    }
    let counters = client.tx[0].counters();
    assert_eq!((counters.packets as usize, counters.full), (number + 182 * 3, 0));
    assert_eq!(server.rx[0].counters().bytes, counters.bytes);
}

#[test]
fn what_finds_no_room_waits() {
    let (mut client, mut server) = pair(2048);
    let mut source = Source::new(0, RING + 7, 60);
    assert_eq!(client.tx[0].transmit(5, &mut source).unwrap().sent, 5);
    assert_eq!(client.tx[0].transmit(RING + 7, &mut source).unwrap().sent, RING - 5);
    assert_eq!(client.tx[0].transmit(1, &mut source).unwrap().sent, 0);
    assert_eq!(client.tx[0].counters().full, 12 + 1);
    assert_eq!(receive(&mut server.rx[0]).unwrap().len(), RING);
    assert_eq!(source.by_one, 0);
}

/// A source that has lines of some of its packets only has them of none.
#[test]
fn fewer_lines_than_packets_are_sent_one_by_one() {
    struct Part(Source, usize);
    impl TxSource for Part {
        fn length(&mut self, number: usize) -> u32 {
            self.0.length(number)
        }
        fn write(&mut self, number: usize, into: CheckedRange<'_>) {
            self.0.write(number, into);
        }
        fn write_chain(&mut self, number: usize, into: &[CheckedRange<'_>]) {
            self.0.write_chain(number, into);
        }
        fn lines(&self) -> Option<Lines<'_>> {
            self.0.lines().map(|all| Lines { lines: &all.lines[..self.1], ..all })
        }
    }
    let (mut client, mut server) = pair(2048);
    for lines in [0, 3, 9, 10] {
        let mut source = Part(Source::new(lines, 10, 60), lines);
        assert_eq!(client.tx[0].transmit(10, &mut source).unwrap().sent, 10);
        let frames: Vec<_> = (0..10).map(|n| source.0.packet(n)).collect();
        assert_eq!(receive(&mut server.rx[0]).unwrap(), frames, "{lines} lines");
        assert_eq!(source.0.by_one, if lines < 10 { 10 } else { 0 });
    }
    assert_eq!(client.tx[0].counters().full, 0);
}

/// Longer ones keep what their buffers hold behind the line.
#[test]
fn only_the_first_line_of_longer_packets_is_written() {
    let (mut client, mut server) = pair(2048);
    let long: Vec<_> = (0..RING).map(|number| packet(number, 1000)).collect();
    assert_eq!(send(&mut client.tx[0], &long), Ok(RING));
    receive(&mut server.rx[0]).unwrap();
    let mut source = Source::new(500, RING, 1000);
    assert_eq!(client.tx[0].transmit(RING, &mut source).unwrap().sent, RING);
    let frames = receive(&mut server.rx[0]).unwrap();
    for ((frame, line), before) in frames.iter().zip(&source.lines).zip(&long) {
        assert_eq!((&frame[..64], &frame[64..]), (&line[..], &before[64..]));
    }
}

#[test]
fn what_fits_no_buffer_is_sent_one_by_one_or_refused() {
    for (buffer, length, count) in [(2048, 5000, 3), (2048, 2049, 2), (2048, 0, 2), (2048, 70_000, 2)] {
        let (mut client, mut server) = pair(buffer);
        let mut source = Source::new(9, count, length);
        let sent = client.tx[0].transmit(count, &mut source).unwrap();
        let fits = (1..=65_536).contains(&length);
        assert_eq!((sent.sent, sent.refused), if fits { (count, 0) } else { (0, count) }, "{length}");
        let frames: Vec<_> = (0..sent.sent).map(|n| source.packet(n)).collect();
        assert_eq!(receive(&mut server.rx[0]).unwrap(), frames);
        assert_eq!(source.by_one, sent.sent);
    }
}

/// Servers only read these descriptors. One that writes to them all the same, in the client's memory, finds lengths put right.
#[test]
fn lengths_that_the_peer_has_overwritten_are_written_again() {
    let (mut client, mut server) = pair(2048);
    for round in 0..5 {
        let mut source = Source::new(round, RING, 60);
        assert_eq!(client.tx[0].transmit(RING, &mut source).unwrap().sent, RING);
        let frames: Vec<_> = (0..RING).map(|n| source.packet(n)).collect();
        assert_eq!(receive(&mut server.rx[0]).unwrap(), frames, "round {round}");
        // The ring that the client sends to comes first in its region; flags and lengths of its descriptors.
        for at in (0..RING as u32).step_by(round + 1) {
            let range = server.rx[0].regions().check(0, RING_HEADER + at * 16, 8).unwrap();
            range.write(&[1, 0, 7, 0, 9, 9, 9, 9]);
        }
    }
}
