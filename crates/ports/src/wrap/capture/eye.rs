//! What one worker sees, on its way to those who look on.

use super::point::{CapturePoint, Sink, Sinks};
use super::reader::Seen;
use super::segment::{Record, Writer};
use memory::packet::{Packets, SlotId};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A capture's place for what one worker sees.
#[derive(Debug, Default)]
pub(super) struct Tray {
    pub(super) writer: Option<Writer>,
    /// The capture has ended.
    pub(super) closed: bool,
    missed: u64,
}

/// One worker's eye, at one place: at a queue, or where packets are dropped.
#[derive(Debug)]
pub(super) struct Eye {
    point: Arc<CapturePoint>,
    worker: usize,
    /// The captures that there were when it looked last.
    sinks: Sinks,
}

impl Eye {
    pub(super) fn new(point: Arc<CapturePoint>, worker: usize) -> Self {
        point.expect_worker(worker);
        Self { point, worker, sinks: Sinks::default() }
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
        self.point.refresh(&mut self.sinks);
        let timestamp_ns = now.saturating_add(self.point.offset);
        for sink in self.sinks.list() {
            // Only this worker uses it, and the end of the capture takes what is in it.
            let Some(mut tray) = sink.tray(self.worker) else { continue };
            for slot in slots.clone() {
                let (interface, seen) = seen(slot);
                if sink.wants(interface, seen) {
                    tray.take(sink, self.worker, packets, slot, timestamp_ns, interface, seen);
                }
            }
            if tray.missed > 0 {
                sink.missed.fetch_add(std::mem::take(&mut tray.missed), Ordering::Relaxed);
            }
        }
    }
}

impl Tray {
    #[allow(clippy::too_many_arguments, reason = "what is known of one packet")]
    fn take(
        &mut self,
        sink: &Sink,
        worker: usize,
        packets: &Packets,
        slot: SlotId,
        timestamp_ns: u64,
        interface: u16,
        seen: Seen,
    ) {
        if self.closed || sink.is_full() {
            return;
        }
        let meta = packets.meta(slot);
        // A dropped packet may have lost headers on its way; they still lie before the current one.
        let ahead = packets.area(slot).get(meta.l2 as usize..meta.data as usize).unwrap_or_default();
        let original_len = meta.len() + ahead.len() as u32;
        let limit = if sink.options.snap_len == 0 { u32::MAX } else { sink.options.snap_len };
        let len = original_len.min(limit);
        let record = Record { timestamp_ns, interface, seen, original_len, len };
        let fill = |bytes: &mut [u8]| {
            let (head, rest) = bytes.split_at_mut(bytes.len().min(ahead.len()));
            head.copy_from_slice(ahead.get(..head.len()).unwrap_or_default());
            packets.copy_out(slot, rest);
        };
        let written = self.writer.as_mut().is_some_and(|writer| writer.write(record, fill)) || {
            self.writer = sink.segment(worker);
            self.writer.as_mut().is_some_and(|writer| writer.write(record, fill))
        };
        if written {
            sink.count();
        } else {
            self.missed += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::CaptureOptions;
    use super::*;
    use memory::packet::OwnedPacket;

    #[test]
    fn each_capture_gets_what_a_worker_sees() {
        let point = Arc::new(CapturePoint::default());
        let mut eye = Eye::new(Arc::clone(&point), 5);
        let mut other = Eye::new(Arc::clone(&point), 5);
        let mut packets = Packets::new();
        let adopt = |n: u8| packets.adopt(&OwnedPacket::new(1, vec![n; 60 + usize::from(n)])).unwrap();
        let slots: Vec<SlotId> = (0..=255).map(adopt).collect();
        let look = |eye: &mut Eye| eye.look(&packets, slots.iter().copied(), 0, |_| (1, Seen::Received));
        assert!(!eye.on());
        let mut first = point.start(CaptureOptions::default()).unwrap();
        let mut second = point.start(CaptureOptions { snap_len: 64, ..CaptureOptions::default() }).unwrap();
        assert!(eye.on());
        look(&mut eye);
        for n in 0..=255 {
            let (one, other) = (first.try_recv().unwrap(), second.try_recv().unwrap());
            assert_eq!((one.worker, &*one.bytes), (5, &*vec![n; 60 + usize::from(n)]));
            assert_eq!(&*other.bytes, &*vec![n; (60 + usize::from(n)).min(64)]);
        }
        assert_eq!((first.try_recv(), first.missed()), (None, 0));
        // The end of one is no business of the other's; eyes of a worker share their place.
        drop(second);
        look(&mut eye);
        look(&mut other);
        assert_eq!(std::iter::from_fn(|| first.try_recv()).count(), 512);
        drop(first);
        assert!(!eye.on());
        assert_eq!(point.used(), 0, "an eye that doesn't look any more holds no memory");
    }
}
