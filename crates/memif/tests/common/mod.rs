//! A sink and a source for tests: whole packets as vectors of bytes.
#![allow(dead_code, reason = "each test file uses its own part")]

use memif::region::CheckedRange;
use memif::{Fault, RxQueue, RxSink, TxQueue, TxSource};

/// Collects packets.
#[derive(Debug, Default)]
pub struct Packets(pub Vec<Vec<u8>>);

fn bytes(range: CheckedRange<'_>) -> Vec<u8> {
    let mut bytes = vec![0; range.len() as usize];
    assert_eq!(range.read(&mut bytes), bytes.len());
    bytes
}

impl RxSink for Packets {
    fn packet(&mut self, range: CheckedRange<'_>) {
        self.0.push(bytes(range));
    }

    fn chain(&mut self, parts: &[CheckedRange<'_>], length: u32) {
        let packet: Vec<u8> = parts.iter().flat_map(|part| bytes(*part)).collect();
        assert_eq!(packet.len(), length as usize);
        self.0.push(packet);
    }
}

/// Gives packets.
#[derive(Debug)]
pub struct Source<'p> {
    pub packets: &'p [Vec<u8>],
    pub refused: Vec<usize>,
}

impl TxSource for Source<'_> {
    fn length(&mut self, packet: usize) -> u32 {
        self.packets[packet].len() as u32
    }

    fn write(&mut self, packet: usize, into: CheckedRange<'_>) {
        assert_eq!(into.write(&self.packets[packet]), self.packets[packet].len());
    }

    fn write_chain(&mut self, packet: usize, into: &[CheckedRange<'_>]) {
        let mut rest = &self.packets[packet][..];
        for part in into {
            rest = &rest[part.write(rest)..];
        }
        assert!(rest.is_empty());
    }

    fn refused(&mut self, packet: usize) {
        self.refused.push(packet);
    }
}

/// Sends packets; gives how many were dealt with.
pub fn send(tx: &mut TxQueue, packets: &[Vec<u8>]) -> Result<usize, Fault> {
    let mut source = Source { packets, refused: Vec::new() };
    let done = tx.transmit(packets.len(), &mut source)?;
    assert_eq!(done.refused, source.refused.len());
    tx.notify();
    Ok(done.done())
}

/// Receives what is there.
pub fn receive(rx: &mut RxQueue) -> Result<Vec<Vec<u8>>, Fault> {
    let mut packets = Packets::default();
    let n = rx.receive(usize::MAX, &mut packets)?;
    assert_eq!(n, packets.0.len());
    rx.release();
    Ok(packets.0)
}

/// A packet whose bytes say which it is and where each belongs.
pub fn packet(number: usize, length: usize) -> Vec<u8> {
    (0..length).map(|i| (number * 131 + i * 7 + i / 256) as u8).collect()
}
