//! What one worker sees, on its way to those who look on: copied into buffers of its own, handed over once per vector.

use super::point::{CapturePoint, Sink, Sinks};
use super::reader::Seen;
use memory::packet::{Packets, SlotId};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A captured packet of a [`Block`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    pub(super) timestamp_ns: u64,
    pub(super) interface: u16,
    pub(super) seen: Seen,
    pub(super) original_len: u32,
    /// Bytes of it in the block.
    pub(super) len: u32,
}

/// What one worker has seen of one vector, for one capture.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) worker: usize,
    pub(super) records: Vec<Record>,
    /// The packets' bytes, one after the other.
    pub(super) bytes: Vec<u8>,
}

/// A capture, and what is to be handed to it.
#[derive(Debug)]
struct Tray {
    sink: Arc<Sink>,
    records: Vec<Record>,
    bytes: Vec<u8>,
    /// What may still be put in, as of when it was empty: packets, bytes.
    room: (usize, usize),
    missed: u64,
}

/// One worker's eye, at one place: at a queue, or where packets are dropped.
#[derive(Debug)]
pub(super) struct Eye {
    point: Arc<CapturePoint>,
    worker: usize,
    /// The captures that there were when it looked last.
    sinks: Sinks,
    trays: Vec<Tray>,
}

impl Eye {
    pub(super) fn new(point: Arc<CapturePoint>, worker: usize) -> Self {
        Self { point, worker, sinks: Sinks::default(), trays: Vec::new() }
    }

    /// Whether anybody looks on. One load.
    #[inline]
    pub(super) fn on(&self) -> bool {
        self.point.on()
    }

    /// Looks at packets. `now` is monotonic; `seen` says by which interface each was seen, and where.
    #[cold]
    pub(super) fn look(
        &mut self,
        packets: &Packets,
        slots: impl Iterator<Item = SlotId> + Clone,
        now: u64,
        seen: impl Fn(SlotId) -> (u16, Seen),
    ) {
        let anew = self.point.changed(&mut self.sinks);
        if anew {
            self.hand_over();
            self.trays = self.sinks.list().map(|sink| Tray::new(Arc::clone(sink))).collect();
        }
        let timestamp_ns = now.saturating_add(self.point.offset);
        for tray in &mut self.trays {
            for slot in slots.clone() {
                let (interface, seen) = seen(slot);
                if tray.sink.wants(interface, seen) {
                    tray.take(packets, slot, timestamp_ns, interface, seen);
                }
            }
        }
    }

    /// Hands over what has been seen since.
    pub(super) fn hand_over(&mut self) {
        for tray in &mut self.trays {
            tray.hand_over(self.worker);
        }
    }
}

impl Tray {
    fn new(sink: Arc<Sink>) -> Self {
        let room = sink.room();
        Self { sink, records: Vec::new(), bytes: Vec::new(), room, missed: 0 }
    }

    fn take(&mut self, packets: &Packets, slot: SlotId, timestamp_ns: u64, interface: u16, seen: Seen) {
        if self.records.is_empty() {
            self.room = self.sink.room();
        }
        if self.sink.left.load(Ordering::Relaxed) <= self.records.len() as u64 {
            return;
        }
        let meta = packets.meta(slot);
        // A dropped packet may have lost headers on its way; they still lie before the current one.
        let ahead = packets.area(slot).get(meta.l2 as usize..meta.data as usize).unwrap_or_default();
        let original_len = meta.len() + ahead.len() as u32;
        let limit = if self.sink.options.snap_len == 0 { u32::MAX } else { self.sink.options.snap_len };
        let len = original_len.min(limit) as usize;
        if self.records.len() >= self.room.0 || self.bytes.len() + len > self.room.1 {
            self.missed += 1;
            return;
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(ahead.get(..len.min(ahead.len())).unwrap_or_default());
        let copied = self.bytes.len();
        self.bytes.resize(start + len, 0);
        packets.copy_out(slot, self.bytes.get_mut(copied..).unwrap_or_default());
        self.records.push(Record { timestamp_ns, interface, seen, original_len, len: len as u32 });
    }

    fn hand_over(&mut self, worker: usize) {
        if self.missed > 0 {
            self.sink.missed.fetch_add(std::mem::take(&mut self.missed), Ordering::Relaxed);
        }
        if !self.records.is_empty() {
            let (records, bytes) = (std::mem::take(&mut self.records), std::mem::take(&mut self.bytes));
            self.sink.hand_over(Block { worker, records, bytes });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::CaptureOptions;
    use super::*;
    use memory::packet::OwnedPacket;

    #[test]
    fn a_vector_is_handed_over_in_one_piece_to_each_capture() {
        let point = Arc::new(CapturePoint::default());
        let mut eye = Eye::new(Arc::clone(&point), 5);
        let mut packets = Packets::new();
        let adopt = |n: u8| packets.adopt(&OwnedPacket::new(1, vec![n; 60 + usize::from(n)])).unwrap();
        let slots: Vec<SlotId> = (0..=255).map(adopt).collect();
        let look = |eye: &mut Eye| {
            eye.look(&packets, slots.iter().copied(), 0, |_| (1, Seen::Received));
            eye.hand_over();
        };
        assert!(!eye.on());
        let mut first = point.start(CaptureOptions::default());
        let mut second = point.start(CaptureOptions { snap_len: 64, ..CaptureOptions::default() });
        assert!(eye.on());
        look(&mut eye);
        assert_eq!((first.blocks.len(), second.blocks.len()), (1, 1));
        for n in 0..=255 {
            let (one, other) = (first.try_recv().unwrap(), second.try_recv().unwrap());
            assert_eq!((one.worker, &*one.bytes), (5, &*vec![n; 60 + usize::from(n)]));
            assert_eq!(&*other.bytes, &*vec![n; (60 + usize::from(n)).min(64)]);
        }
        assert_eq!((first.try_recv(), first.missed()), (None, 0));
        // The end of one is no business of the other's.
        drop(second);
        look(&mut eye);
        assert_eq!((first.blocks.len(), eye.trays.len()), (1, 1));
        drop(first);
        assert!(!eye.on());
    }
}
