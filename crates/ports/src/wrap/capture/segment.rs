//! Pieces of memory on their way from a worker to a reader, which reads while the worker still writes.

use super::budget::Charge;
use super::reader::{CapturedPacket, Seen};
use rtrb::{Consumer, Producer, RingBuffer};

/// Bytes of a segment: large enough that it is mapped by itself, and unmapped at its end (`memory::heap::map_large`).
pub(super) const SEGMENT: usize = 256 << 10;

/// Bytes before those of a packet: time, interface, how it was seen, reason, lengths.
const HEADER: usize = 24;

/// What is noted of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) timestamp_ns: u64,
    pub(super) interface: u16,
    pub(super) seen: Seen,
    pub(super) original_len: u32,
    /// Bytes of it that are kept.
    pub(super) len: u32,
}

/// The worker's end. It writes from the first byte to the last, once.
#[derive(Debug)]
pub(super) struct Writer {
    producer: Producer<u8>,
    left: usize,
}

/// The reader's end.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) worker: usize,
    consumer: Consumer<u8>,
    _charge: Charge,
}

/// Both ends of a segment.
pub(super) fn segment(worker: usize, charge: Charge) -> (Writer, Segment) {
    // Its pages come as they are written.
    let (producer, consumer) = RingBuffer::new(SEGMENT);
    (Writer { producer, left: SEGMENT }, Segment { worker, consumer, _charge: charge })
}

impl Record {
    fn to_bytes(self) -> [u8; HEADER] {
        let (kind, reason) = match self.seen {
            Seen::Received => (0, 0),
            Seen::Sent => (1, 0),
            Seen::Dropped { reason } => (2_u16, reason),
        };
        let mut bytes = [0; HEADER];
        bytes[..8].copy_from_slice(&self.timestamp_ns.to_ne_bytes());
        bytes[8..10].copy_from_slice(&self.interface.to_ne_bytes());
        bytes[10..12].copy_from_slice(&kind.to_ne_bytes());
        bytes[12..14].copy_from_slice(&reason.to_ne_bytes());
        bytes[16..20].copy_from_slice(&self.original_len.to_ne_bytes());
        bytes[20..].copy_from_slice(&self.len.to_ne_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8; HEADER]) -> Self {
        let half = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        let word = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let [a, b, c, d, e, f, g, h, ..] = *bytes;
        Self {
            timestamp_ns: u64::from_ne_bytes([a, b, c, d, e, f, g, h]),
            interface: half(8),
            seen: match half(10) {
                0 => Seen::Received,
                1 => Seen::Sent,
                _ => Seen::Dropped { reason: half(12) },
            },
            original_len: word(16),
            len: word(20),
        }
    }
}

impl Writer {
    /// Appends a packet, whose bytes `fill` writes; false where there is no room.
    pub(super) fn write(&mut self, record: Record, fill: impl FnOnce(&mut [u8])) -> bool {
        let length = HEADER + record.len as usize;
        if length > self.left {
            return false;
        }
        // There is room: what the reader frees isn't used again.
        let Ok(mut chunk) = self.producer.write_chunk(length) else { return false };
        let (bytes, _) = chunk.as_mut_slices();
        let (header, packet) = bytes.split_at_mut(HEADER);
        header.copy_from_slice(&record.to_bytes());
        fill(packet);
        chunk.commit_all();
        self.left -= length;
        true
    }
}

impl Segment {
    /// The next packet that has been written.
    pub(super) fn read(&mut self) -> Option<CapturedPacket> {
        let chunk = self.consumer.read_chunk(HEADER).ok()?;
        let record = Record::from_bytes(chunk.as_slices().0.first_chunk()?);
        let length = HEADER + record.len as usize;
        let chunk = self.consumer.read_chunk(length).ok()?;
        let bytes = chunk.as_slices().0.get(HEADER..).unwrap_or_default().into();
        chunk.commit_all();
        let Record { timestamp_ns, interface, seen, original_len, .. } = record;
        Some(CapturedPacket { timestamp_ns, worker: self.worker, interface, seen, original_len, bytes })
    }

    /// Whether nothing more is written: what [`Segment::read`] doesn't give after that never comes.
    pub(super) fn is_complete(&self) -> bool {
        self.consumer.is_abandoned()
    }
}

#[cfg(test)]
mod tests {
    use super::super::budget::Budget;
    use super::*;
    use std::sync::Arc;

    #[test]
    fn what_is_written_is_read_and_a_segment_ends() {
        let budget = Arc::new(Budget::new(1 << 20));
        let (mut writer, mut segment) =
            segment(7, Arc::new(budget.account(0, SEGMENT).unwrap()).charge(SEGMENT).unwrap());
        let record = |n: u64, len: u32| Record {
            timestamp_ns: n << 40 | 1,
            interface: 9,
            seen: [Seen::Received, Seen::Sent, Seen::Dropped { reason: 513 }][n as usize % 3],
            original_len: 70_000,
            len,
        };
        let (mut written, mut read) = (0, 0);
        assert_eq!(segment.read(), None);
        while writer.write(record(written, 1000), |bytes| bytes.fill(written as u8)) {
            written += 1;
            // The reader is behind, and frees what is never used again.
            if written > 100 {
                let packet = segment.read().unwrap();
                let Record { timestamp_ns, interface, seen, original_len, .. } = record(read, 0);
                let bytes = vec![read as u8; 1000].into();
                assert_eq!(
                    packet,
                    CapturedPacket { timestamp_ns, worker: 7, interface, seen, original_len, bytes }
                );
                read += 1;
            }
        }
        assert_eq!(written, SEGMENT as u64 / 1024);
        assert!(!segment.is_complete());
        drop(writer);
        assert!(segment.is_complete());
        assert_eq!(std::iter::from_fn(|| segment.read()).count() as u64, written - read);
    }
}
