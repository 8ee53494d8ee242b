//! Where packets are seen, and for whom.

use super::eye::Block;
use super::reader::{CaptureReader, Seen};
use memory::clock::nanoseconds;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
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
    pub(super) options: CaptureOptions,
    queue: Sender<Block>,
    /// Packets still to be captured. Workers may overshoot; the reader counts exactly.
    pub(super) left: AtomicU64,
    pub(super) missed: AtomicU64,
    /// Packets that wait.
    pub(super) packets: AtomicUsize,
    /// Bytes that wait.
    pub(super) bytes: AtomicUsize,
}

/// The captures that there were at some time.
#[derive(Clone, Debug, Default)]
pub(super) struct Sinks {
    version: u64,
    list: Arc<[Arc<Sink>]>,
}

impl Sinks {
    pub(super) fn list(&self) -> impl Iterator<Item = &Arc<Sink>> {
        self.list.iter()
    }
}

/// All captures of a process. Shared by all queues.
#[derive(Debug)]
pub struct CapturePoint {
    /// 0 while there is no capture: looked at once per vector. Another number with each change.
    version: AtomicU64,
    sinks: Mutex<Sinks>,
    /// From monotonic time to that of the world.
    pub(super) offset: u64,
}

impl Default for CapturePoint {
    fn default() -> Self {
        let world = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
        let offset = world.saturating_sub(nanoseconds());
        Self { version: AtomicU64::new(0), sinks: Mutex::default(), offset }
    }
}

impl CapturePoint {
    /// Begins a capture.
    #[must_use]
    pub fn start(self: &Arc<Self>, options: CaptureOptions) -> CaptureReader {
        // A block has at least one packet.
        let (queue, blocks) = channel(options.backlog.max(1));
        let count = if options.count == 0 { u64::MAX } else { options.count };
        let sink = Arc::new(Sink {
            options,
            queue,
            left: AtomicU64::new(count),
            missed: AtomicU64::new(0),
            packets: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
        });
        self.change(|sinks| sinks.push(Arc::clone(&sink)));
        CaptureReader::new(blocks, sink, Arc::clone(self), count)
    }

    /// Ends a capture.
    pub(super) fn end(&self, sink: &Arc<Sink>) {
        self.change(|sinks| sinks.retain(|other| !Arc::ptr_eq(other, sink)));
    }

    fn change(&self, change: impl FnOnce(&mut Vec<Arc<Sink>>)) {
        let mut sinks = self.sinks.lock().unwrap_or_else(PoisonError::into_inner);
        let mut list = sinks.list.to_vec();
        change(&mut list);
        let on = !list.is_empty();
        *sinks = Sinks { version: sinks.version + 1, list: list.into() };
        self.version.store(if on { sinks.version } else { 0 }, Ordering::Release);
    }

    /// Whether anybody looks on.
    #[inline]
    pub(super) fn on(&self) -> bool {
        self.version.load(Ordering::Relaxed) != 0
    }

    /// Brings `sinks` up to date; says whether they have changed. While another thread changes them they stay what they
    /// were: a worker doesn't wait.
    pub(super) fn changed(&self, sinks: &mut Sinks) -> bool {
        if self.version.load(Ordering::Acquire) == sinks.version {
            return false;
        }
        let Ok(current) = self.sinks.try_lock() else { return false };
        *sinks = current.clone();
        true
    }
}

impl Sink {
    pub(super) fn wants(&self, interface: u16, seen: Seen) -> bool {
        let options = &self.options;
        let kind = match seen {
            Seen::Received => options.received,
            Seen::Sent => options.sent,
            Seen::Dropped { .. } => options.dropped,
        };
        kind && options.interfaces.as_ref().is_none_or(|interfaces| interfaces.contains(&interface))
    }

    /// Packets and bytes that there is room for. Workers that look at the same time may each fill it.
    pub(super) fn room(&self) -> (usize, usize) {
        let packets = self.options.backlog.max(1).saturating_sub(self.packets.load(Ordering::Relaxed));
        (packets, self.options.backlog_bytes.saturating_sub(self.bytes.load(Ordering::Relaxed)))
    }

    /// Takes what a worker has seen of a vector: the only thing that workers share, once per vector.
    pub(super) fn hand_over(&self, block: Block) {
        let (packets, bytes) = (block.records.len(), block.bytes.len());
        // Before the reader can take it off again.
        self.packets.fetch_add(packets, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let left = |left: u64| Some(left.saturating_sub(packets as u64));
        if self.queue.try_send(block).is_ok() {
            // Never fails: it always has a value.
            let _ = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, left);
        } else {
            self.packets.fetch_sub(packets, Ordering::Relaxed);
            self.bytes.fetch_sub(bytes, Ordering::Relaxed);
            self.missed.fetch_add(packets as u64, Ordering::Relaxed);
        }
    }
}
