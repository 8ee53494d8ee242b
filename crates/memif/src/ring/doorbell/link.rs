//! What the queues of a link have in place of their peer's eventfds.

use std::sync::Arc;

use super::super::Event;
use super::super::counters::Tally;
use super::{Bed, Shared};

/// How a queue to send by signals its peer.
#[derive(Debug)]
pub(in crate::ring) enum TxSignal {
    /// By itself.
    Direct(Event),
    /// By the link's thread, which counts it, too; its number there.
    Doorbell(Arc<Shared>, usize),
}

impl TxSignal {
    /// Signals the peer, soon.
    #[inline]
    pub(in crate::ring) fn give(&self, tally: &Tally) {
        match self {
            Self::Direct(event) => {
                event.signal();
                tally.signal();
            }
            Self::Doorbell(shared, queue) => {
                if let Some(request) = shared.requests.get(*queue)
                    && request.raise(&shared.thread)
                {
                    shared.ring();
                }
            }
        }
    }
}

/// How a queue to receive from is woken.
#[derive(Debug)]
pub(in crate::ring) enum RxSignal {
    /// By the peer's eventfd.
    Direct(Event),
    /// By the link's thread.
    Doorbell(RxBell),
}

/// An eventfd that the link's thread signals.
#[derive(Debug)]
pub(in crate::ring) struct RxBell {
    shared: Arc<Shared>,
    queue: usize,
    /// Signals that the thread has given, or is about to give, and that haven't been taken back yet.
    owed: u64,
}

impl RxSignal {
    /// What becomes readable.
    pub(in crate::ring) fn event(&self) -> &Event {
        match self {
            Self::Direct(event) => event,
            Self::Doorbell(bell) => &bell.bed().event,
        }
    }

    /// The queue is about to sleep, having seen the ring up to `index`. A full fence and another look at the ring follow.
    pub(in crate::ring) fn arm(&mut self, index: u16) {
        if let Self::Doorbell(bell) = self {
            bell.owed += u64::from(bell.bed().arm.set(index));
        }
    }

    /// The queue is awake.
    pub(in crate::ring) fn disarm(&mut self) {
        if let Self::Doorbell(bell) = self {
            bell.owed += u64::from(bell.bed().arm.clear());
        }
    }

    /// Takes the signal back; gives whether there was one. Without a system call where the thread has given none.
    pub(in crate::ring) fn take(&mut self) -> bool {
        match self {
            Self::Direct(event) => event.clear(),
            Self::Doorbell(bell) => bell.take(),
        }
    }
}

impl RxBell {
    pub(super) fn new(shared: Arc<Shared>, queue: usize) -> Self {
        Self { shared, queue, owed: 0 }
    }

    fn bed(&self) -> &Bed {
        &self.shared.beds[self.queue]
    }

    fn take(&mut self) -> bool {
        self.owed += u64::from(self.bed().arm.was_woken());
        if self.owed == 0 {
            return false;
        }
        // The thread may not have come to it yet: it is taken next time then.
        let taken = self.bed().event.take();
        self.owed = self.owed.saturating_sub(taken);
        taken > 0
    }
}
