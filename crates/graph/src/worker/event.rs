//! What workers tell the control thread.

use crate::port::{Attachment, IfIndex, PortFault};
use core::fmt;
use memory::packet::OwnedPacket;
use std::sync::Arc;

/// Something the control thread has to deal with.
#[derive(Debug)]
pub enum Event {
    /// A packet for the slow path.
    Punt {
        /// The worker it was on.
        worker: usize,
        /// What is to be done with it; each kind belongs to one feature.
        kind: &'static str,
        /// The interface whose share of the queue it takes: the one it came in by, or a bridge's member.
        origin: IfIndex,
        /// The packet.
        packet: OwnedPacket,
    },
    /// A receive queue can't go on. Told again every round until the queue is taken away.
    RxFault {
        /// The interface.
        interface: IfIndex,
        /// The queue's number.
        queue: u16,
        /// The attachment that it belongs to, which may have ended since.
        attachment: Attachment,
        /// What happened.
        fault: PortFault,
    },
    /// A transmit queue can't go on.
    TxFault {
        /// The interface.
        interface: IfIndex,
        /// The attachment that the queue belongs to, which may have ended since.
        attachment: Attachment,
        /// What happened.
        fault: PortFault,
    },
}

/// The way to the control thread: bounded, never blocks.
#[derive(Clone)]
pub struct EventSender(Arc<dyn Fn(Event) -> bool + Send + Sync>);

impl EventSender {
    /// `send` takes an event or, when its queue is full, returns false at once.
    #[must_use]
    pub fn new(send: impl Fn(Event) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(send))
    }

    /// Sends, or returns false when the queue is full.
    #[must_use]
    pub fn send(&self, event: Event) -> bool {
        (self.0)(event)
    }
}

impl fmt::Debug for EventSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EventSender")
    }
}
