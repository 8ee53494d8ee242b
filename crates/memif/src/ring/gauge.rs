//! Looking at a ring from outside, while a worker has the queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Endpoint, RingSize, RingView, Slots};

/// Signals of a queue: counted by the thread that has it, read from outside.
#[derive(Debug, Clone, Default)]
pub(super) struct Signals(Arc<AtomicU64>);

impl Signals {
    /// One more.
    pub(super) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

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
    signals: Signals,
}

impl RingGauge {
    pub(super) fn new(
        ring: &RingView,
        endpoint: Endpoint,
        flow: Flow,
        slots: Slots,
        signals: &Signals,
    ) -> Self {
        let to_server = endpoint.is_client() == (flow == Flow::Out);
        Self { ring: ring.clone(), to_server, slots, signals: signals.clone() }
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

    /// Signals so far: taken, where we receive; given, where we send. Several that come before they are taken count as one.
    #[must_use]
    pub fn signals(&self) -> u64 {
        self.signals.0.load(Ordering::Relaxed)
    }
}
