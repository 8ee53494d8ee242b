//! Looking at a ring from outside, while a worker has the queue.

use std::sync::atomic::Ordering;

use super::counters::Tally;
use super::{Endpoint, QueueCounters, RingSize, RingView, Slots};

/// Which way packets go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    /// We receive.
    In,
    /// We send.
    Out,
}

/// A ring, to look at. It keeps the peer's memory mapped: to be dropped with the connection.
///
/// What it tells is what the shared words say at this moment. The peer may write anything there, so that nothing may depend
/// on it: it is for people.
#[derive(Debug)]
pub struct RingGauge {
    ring: RingView,
    /// Packets go from client to server.
    to_server: bool,
    slots: Slots,
    tally: Tally,
}

impl RingGauge {
    pub(super) fn new(ring: &RingView, endpoint: Endpoint, flow: Flow, slots: Slots, tally: &Tally) -> Self {
        let to_server = endpoint.is_client() == (flow == Flow::Out);
        Self { ring: ring.clone(), to_server, slots, tally: tally.clone() }
    }

    /// Size of the ring.
    #[must_use]
    pub const fn size(&self) -> RingSize {
        self.ring.size()
    }

    /// Descriptors whose packets the reader hasn't taken, or not given back, yet.
    #[must_use]
    pub fn filled(&self) -> u16 {
        let words = self.ring.indices();
        let (head, tail) = (words.head.load(Ordering::Relaxed), words.tail.load(Ordering::Relaxed));
        let size = self.size().descriptors();
        // Towards the client the head tells of empty buffers: what isn't empty is filled.
        let ahead = head.wrapping_sub(tail).min(size);
        if self.to_server { ahead } else { size - ahead }
    }

    /// Bytes of a buffer: of ours, or of the next empty one that a client has posted. `None` where nothing tells: in a ring
    /// to a server descriptors hold the lengths of packets.
    #[must_use]
    pub fn buffer_size(&self) -> Option<u32> {
        match self.slots {
            Slots::Own { capacity, .. } | Slots::Pool { capacity } => Some(capacity),
            Slots::Peer if self.to_server || self.filled() == self.size().descriptors() => None,
            Slots::Peer => {
                let next = self.ring.indices().tail.load(Ordering::Relaxed);
                Some(self.ring.descriptors().get(next).length)
            }
        }
    }

    /// Whether the reader polls: it has asked not to be signalled.
    #[must_use]
    pub fn polling(&self) -> bool {
        self.ring.indices().masked()
    }

    /// What went by the queue so far.
    #[must_use]
    pub fn counters(&self) -> QueueCounters {
        self.tally.read()
    }
}
