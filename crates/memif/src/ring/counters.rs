//! What went by a queue: counted by the thread that has it, once a call, read by any.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What went by a queue since the link came up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct QueueCounters {
    /// Packets received or sent.
    pub packets: u64,
    /// Their bytes, as they are in the ring: with the Ethernet header where the mode has one.
    pub bytes: u64,
    /// Packets that found no room in the ring, to send by: again each time they are offered. 0 of a queue to receive from.
    pub full: u64,
    /// Packets that were left out, for they can never be sent: empty, or longer than the ring holds or a peer takes. 0 of a queue to receive from.
    pub refused: u64,
    /// Signals taken (to receive from) or given (to send by). Several that come before they are taken count as one.
    pub signals: u64,
}

/// Two cache lines of its own, which are fetched in pairs: whoever has the next queue writes at every call, too.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Words {
    packets: AtomicU64,
    bytes: AtomicU64,
    full: AtomicU64,
    refused: AtomicU64,
    signals: AtomicU64,
}

/// A queue's counters, shared with who looks at them.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally(Arc<Words>);

impl Tally {
    /// A call is done. By the one that has the queue for itself: nobody else adds, so that nothing needs to be locked.
    #[inline]
    pub(super) fn add(&mut self, packets: u64, bytes: u64, full: u64) {
        let words = &*self.0;
        for (word, more) in [(&words.packets, packets), (&words.bytes, bytes), (&words.full, full)] {
            if more > 0 {
                word.store(word.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
            }
        }
    }

    /// So many can never be sent. As [`add`](Self::add).
    #[cold]
    pub(super) fn refuse(&mut self, packets: u64) {
        self.0.refused.fetch_add(packets, Ordering::Relaxed);
    }

    /// One more signal, by whoever may wake or be woken.
    pub(super) fn signal(&self) {
        self.0.signals.fetch_add(1, Ordering::Relaxed);
    }

    /// How things stand. Each number for itself: while packets go by, they needn't be of one moment.
    pub(super) fn read(&self) -> QueueCounters {
        let Words { packets, bytes, full, refused, signals } = &*self.0;
        let load = |word: &AtomicU64| word.load(Ordering::Relaxed);
        QueueCounters {
            packets: load(packets),
            bytes: load(bytes),
            full: load(full),
            refused: load(refused),
            signals: load(signals),
        }
    }
}
