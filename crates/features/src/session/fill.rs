//! How full a worker's table is, for everybody who looks: it stores that from time to time, and nobody waits for it.

use super::sessions::Sessions;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Ticks after which the memory is looked at again: a second.
const PERIOD: u32 = 60;

/// How full the table of a worker is, as it was a second ago at most.
#[derive(Debug, Default)]
pub struct Fill {
    sessions: AtomicU64,
    bytes: AtomicU64,
}

impl Fill {
    /// Sessions.
    #[must_use]
    pub fn sessions(&self) -> u64 {
        self.sessions.load(Ordering::Relaxed)
    }

    /// Bytes of memory that they take, with what services know of them.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

impl Sessions {
    /// From now on, that is where others see how full the table is.
    pub fn tell_fill(&mut self, fill: Arc<Fill>) {
        self.fill = fill;
    }

    /// Says how full it is, in a tick.
    pub(super) fn publish_fill(&mut self, tick: u64) {
        self.fill.sessions.store(self.len() as u64, Ordering::Relaxed);
        let tick = tick as u32;
        if tick.wrapping_sub(self.weighed) >= PERIOD {
            self.weighed = tick;
            self.fill.bytes.store(self.bytes() as u64, Ordering::Relaxed);
        }
    }
}
