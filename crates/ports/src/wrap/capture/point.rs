//! Where packets are seen, and for whom.

use super::reader::{CaptureReader, CapturedPacket, Seen};
use memory::clock::nanoseconds;
use memory::packet::{Packets, SlotId};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock, TryLockError};
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::sync::mpsc::{Sender, channel};

/// What to capture.
#[derive(Clone, Debug)]
pub struct CaptureOptions {
    /// Interfaces; `None`: all.
    pub interfaces: Option<BTreeSet<u16>>,
    /// Packets as they are received.
    pub received: bool,
    /// Packets as they are sent.
    pub sent: bool,
    /// Packets as they are dropped.
    pub dropped: bool,
    /// Packets after which the capture ends; 0: never.
    pub count: u64,
    /// Bytes kept of each packet; 0: all.
    pub snap_len: u32,
    /// Packets that may wait to be read, at least 1.
    pub backlog: usize,
    /// Bytes of packets that may wait to be read.
    pub backlog_bytes: usize,
}

impl Default for CaptureOptions {
    fn default() -> Self {
        Self {
            interfaces: None,
            received: true,
            sent: true,
            dropped: true,
            count: 0,
            snap_len: 0,
            backlog: 8192,
            backlog_bytes: 32 << 20,
        }
    }
}

/// One capture, as workers see it.
#[derive(Debug)]
pub(super) struct Sink {
    options: CaptureOptions,
    queue: Sender<CapturedPacket>,
    /// Packets still to be captured. Workers may overshoot; the reader counts exactly.
    left: AtomicU64,
    pub(super) missed: AtomicU64,
    /// Bytes that wait.
    pub(super) bytes: AtomicUsize,
}

/// All captures of a process. Shared by all queues.
#[derive(Debug)]
pub struct CapturePoint {
    /// Whether there is any capture: looked at once per vector.
    on: AtomicBool,
    sinks: RwLock<Vec<Arc<Sink>>>,
    /// Packets that no capture got because one was just being begun or ended.
    pub(super) missed: AtomicU64,
    /// From monotonic time to that of the world.
    offset: u64,
}

impl Default for CapturePoint {
    fn default() -> Self {
        let world = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
        let offset = world.saturating_sub(nanoseconds());
        Self { on: AtomicBool::new(false), sinks: RwLock::default(), missed: AtomicU64::new(0), offset }
    }
}

impl CapturePoint {
    /// Begins a capture.
    #[must_use]
    pub fn start(self: &Arc<Self>, options: CaptureOptions) -> CaptureReader {
        let (queue, packets) = channel(options.backlog.max(1));
        let count = if options.count == 0 { u64::MAX } else { options.count };
        let sink = Arc::new(Sink {
            options,
            queue,
            left: AtomicU64::new(count),
            missed: AtomicU64::new(0),
            bytes: AtomicUsize::new(0),
        });
        self.change(|sinks| sinks.push(Arc::clone(&sink)));
        CaptureReader::new(packets, sink, Arc::clone(self), count)
    }

    /// Ends a capture.
    pub(super) fn end(&self, sink: &Arc<Sink>) {
        self.change(|sinks| sinks.retain(|other| !Arc::ptr_eq(other, sink)));
    }

    fn change(&self, change: impl FnOnce(&mut Vec<Arc<Sink>>)) {
        let mut sinks = self.sinks.write().unwrap_or_else(PoisonError::into_inner);
        change(&mut sinks);
        self.on.store(!sinks.is_empty(), Ordering::Release);
    }

    /// Whether anybody looks on.
    #[inline]
    pub(super) fn on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    /// Shows packets to all captures. `now` is monotonic; `seen` says by which interface each was seen, and where.
    #[cold]
    pub(super) fn show(
        &self,
        packets: &Packets,
        slots: impl Iterator<Item = SlotId> + Clone,
        now: u64,
        seen: impl Fn(SlotId) -> (u16, Seen),
    ) {
        let sinks = match self.sinks.try_read() {
            Ok(sinks) => sinks,
            Err(TryLockError::Poisoned(error)) => error.into_inner(),
            // The control thread holds the lock for a moment; a worker doesn't wait for it.
            Err(TryLockError::WouldBlock) => {
                self.missed.fetch_add(slots.count() as u64, Ordering::Relaxed);
                return;
            }
        };
        for sink in sinks.iter() {
            for slot in slots.clone() {
                let (interface, seen) = seen(slot);
                if sink.wants(interface, seen) {
                    sink.take(packets, slot, now.saturating_add(self.offset), interface, seen);
                }
            }
        }
    }
}

impl Sink {
    fn wants(&self, interface: u16, seen: Seen) -> bool {
        let options = &self.options;
        let kind = match seen {
            Seen::Received => options.received,
            Seen::Sent => options.sent,
            Seen::Dropped { .. } => options.dropped,
        };
        kind && options.interfaces.as_ref().is_none_or(|interfaces| interfaces.contains(&interface))
    }

    fn take(&self, packets: &Packets, slot: SlotId, timestamp_ns: u64, interface: u16, seen: Seen) {
        if self.left.load(Ordering::Relaxed) == 0 {
            return;
        }
        let meta = packets.meta(slot);
        // A dropped packet may have lost headers on its way; they still lie before the current one.
        let ahead = packets.area(slot).get(meta.l2 as usize..meta.data as usize).unwrap_or_default();
        let original_len = meta.len() + ahead.len() as u32;
        let limit = if self.options.snap_len == 0 { u32::MAX } else { self.options.snap_len };
        let len = original_len.min(limit) as usize;
        let waiting = self.bytes.fetch_add(len, Ordering::Relaxed);
        let permit = self.queue.try_reserve().ok().filter(|_| waiting + len <= self.options.backlog_bytes);
        let Some(permit) = permit else {
            self.bytes.fetch_sub(len, Ordering::Relaxed);
            self.missed.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let mut bytes = vec![0; len].into_boxed_slice();
        let (first, rest) = bytes.split_at_mut(ahead.len().min(len));
        first.copy_from_slice(ahead.get(..first.len()).unwrap_or_default());
        packets.copy_out(slot, rest);
        permit.send(CapturedPacket { timestamp_ns, interface, seen, original_len, bytes });
        // Fails at 0, where another worker was faster.
        let _ = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
    }
}
