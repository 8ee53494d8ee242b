//! Where packets are seen, and for whom.

use super::budget::{Account, Budget};
use super::eye::Tray;
use super::reader::{CaptureReader, Seen};
use super::segment::{SEGMENT, Segment, Writer, segment};
use memory::clock::nanoseconds;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{SystemTime, UNIX_EPOCH};

/// Memory of all captures where nothing else is said, in bytes.
pub const DEFAULT_LIMIT: usize = 256 << 20;
/// Captures at a time: each costs workers time.
pub const MOST: usize = 64;
/// Memory of a capture besides its segments: what is on its way to its client.
const FIXED: usize = 1 << 20;
/// Segments that a capture can have in any case, at least; one for each worker.
const LEAST: usize = 2;

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
}

/// There is no room for another capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoCapture {
    /// There are as many as may be.
    #[error("{MOST} captures run already: end one of them")]
    Many,
    /// Half of their memory is guaranteed to others.
    #[error(
        "{0} bytes (memory.captures_mib) are not enough for another capture beside those that run: end one or raise it"
    )]
    Memory(usize),
}

impl Default for CaptureOptions {
    fn default() -> Self {
        Self { interfaces: None, received: true, sent: true, dropped: true, count: 0, snap_len: 0 }
    }
}

/// One capture, as workers see it.
#[derive(Debug)]
pub(super) struct Sink {
    pub(super) options: CaptureOptions,
    queue: Sender<Segment>,
    /// Packets still to be captured. Workers may overshoot; the reader counts exactly.
    left: AtomicU64,
    pub(super) missed: AtomicU64,
    /// The reader has it: eyes that remember the capture hold none of its memory.
    account: Weak<Account>,
    /// By worker.
    trays: Box<[Mutex<Tray>]>,
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
    budget: Arc<Budget>,
    /// Workers that there may be: one more than the highest number.
    workers: AtomicUsize,
    /// From monotonic time to that of the world.
    pub(super) offset: u64,
}

impl Default for CapturePoint {
    fn default() -> Self {
        Self::new(DEFAULT_LIMIT)
    }
}

impl CapturePoint {
    /// Without captures, which may have so many bytes of memory together.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        let world = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
        let offset = world.saturating_sub(nanoseconds());
        let (sinks, budget) = (Mutex::default(), Arc::new(Budget::new(limit)));
        Self { version: AtomicU64::new(0), sinks, budget, workers: AtomicUsize::new(0), offset }
    }

    /// Begins a capture.
    ///
    /// # Errors
    /// [`NoCapture`] where there is no room for another.
    pub fn start(self: &Arc<Self>, options: CaptureOptions) -> Result<CaptureReader, NoCapture> {
        let workers = self.workers.load(Ordering::Relaxed);
        let floor = workers.max(LEAST) * SEGMENT;
        let account = self.budget.account(FIXED, floor).ok_or(NoCapture::Memory(self.budget.limit()))?;
        let account = Arc::new(account);
        // Few: each is a piece of memory.
        let (queue, segments) = channel();
        let count = if options.count == 0 { u64::MAX } else { options.count };
        let trays = (0..workers).map(|_| Mutex::default()).collect();
        let sink = Arc::new(Sink {
            options,
            queue,
            left: AtomicU64::new(count),
            missed: AtomicU64::new(0),
            account: Arc::downgrade(&account),
            trays,
        });
        if !self.change(|sinks| {
            let room = sinks.len() < MOST;
            if room {
                sinks.push(Arc::clone(&sink));
            }
            room
        }) {
            return Err(NoCapture::Many);
        }
        Ok(CaptureReader::new(segments, sink, Arc::clone(self), count, account))
    }

    /// Bytes of memory that captures have.
    #[must_use]
    pub fn used(&self) -> usize {
        self.budget.used()
    }

    /// From now on captures have a place for what this worker sees.
    pub(super) fn expect_worker(&self, worker: usize) {
        self.workers.fetch_max(worker + 1, Ordering::Relaxed);
    }

    /// Ends a capture. Eyes may remember it until they look again, but hold none of its memory.
    pub(super) fn end(&self, sink: &Arc<Sink>) {
        self.change(|sinks| sinks.retain(|other| !Arc::ptr_eq(other, sink)));
        for tray in &sink.trays {
            let mut tray = tray.lock().unwrap_or_else(PoisonError::into_inner);
            (tray.writer, tray.closed) = (None, true);
        }
    }

    fn change<T>(&self, change: impl FnOnce(&mut Vec<Arc<Sink>>) -> T) -> T {
        let mut sinks = self.sinks.lock().unwrap_or_else(PoisonError::into_inner);
        let mut list = sinks.list.to_vec();
        let changed = change(&mut list);
        let on = !list.is_empty();
        *sinks = Sinks { version: sinks.version + 1, list: list.into() };
        self.version.store(if on { sinks.version } else { 0 }, Ordering::Release);
        changed
    }

    /// Whether anybody looks on.
    #[inline]
    pub(super) fn on(&self) -> bool {
        self.version.load(Ordering::Relaxed) != 0
    }

    /// Brings `sinks` up to date. While another thread changes them they stay what they were: a worker doesn't wait.
    pub(super) fn refresh(&self, sinks: &mut Sinks) {
        if self.version.load(Ordering::Acquire) != sinks.version
            && let Ok(current) = self.sinks.try_lock()
        {
            *sinks = current.clone();
        }
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

    /// The place for what a worker sees; `None` for a worker that nobody expected, or while the capture ends.
    pub(super) fn tray(&self, worker: usize) -> Option<MutexGuard<'_, Tray>> {
        self.trays.get(worker)?.try_lock().ok()
    }

    /// Whether as many packets as were asked for have been captured.
    pub(super) fn is_full(&self) -> bool {
        self.left.load(Ordering::Relaxed) == 0
    }

    /// Counts a packet that was captured.
    pub(super) fn count(&self) {
        if self.options.count > 0 {
            let less = |left: u64| Some(left.saturating_sub(1));
            // Never fails: it always has a value.
            let _ = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        }
    }

    /// A further segment for a worker, whose other end goes to the reader; `None` where the capture has its share.
    pub(super) fn segment(&self, worker: usize) -> Option<Writer> {
        let (writer, segment) = segment(worker, self.account.upgrade()?.charge(SEGMENT)?);
        self.queue.send(segment).ok()?;
        Some(writer)
    }
}
