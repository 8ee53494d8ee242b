//! What a peer can do wrong in shared memory, and to whose queue.

use std::fmt;
use std::sync::Arc;

use super::{IndexFault, RingView};

/// Slots of packets in several pieces that one call looks at, besides those of the last such packet: what the pieces cost is the
/// loss of all who are served in the same round. The rest waits for the next call.
pub(super) const PARTS_A_CALL: u16 = 2048;
/// Buffers to send into of fewer bytes count towards that; with others, it is the copied bytes that cost. What finds no place any more is
/// lost as if the ring were full.
pub(super) const SMALL: u32 = 512;

/// Most pieces of a packet of so many bytes: enough for buffers of 64 bytes, the smallest that anybody is known to use, and some
/// that are hardly used.
pub(super) const fn most_parts(length: u32) -> u32 {
    64 + length / 64
}

/// A peer broke the rules of a ring. The connection is unusable afterwards: disconnect with this as the
/// reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Its index is further on than the ring is long, or behind what was taken.
    #[error("ring {0}")]
    Index(#[from] IndexFault),
    /// A descriptor points out of the announced regions.
    #[error("descriptor points outside of the regions: region {region}, offset {offset}, length {length}")]
    Range {
        /// Index of the region.
        region: u16,
        /// Offset in bytes.
        offset: u32,
        /// Length in bytes.
        length: u32,
    },
    /// A packet without bytes.
    #[error("empty packet")]
    Empty,
    /// A packet longer than the connection allows.
    #[error("packet of {length} bytes, at most {max} are allowed")]
    TooLong {
        /// Bytes seen so far.
        length: u32,
        /// Bytes allowed.
        max: u32,
    },
    /// A chain that goes on in all slots of the ring.
    #[error("chain without end")]
    EndlessChain,
    /// A packet in more pieces, to receive from or to send into, than 64 and one more for every 64 bytes: each of them costs.
    #[error("packet in more than {max} buffers")]
    TooManyParts {
        /// Pieces allowed.
        max: u32,
    },
    /// It took pages of a region away.
    #[error("shared memory was truncated")]
    MemoryLost,
    /// A buffer that was posted to be filled has no room.
    #[error("buffer without room posted")]
    NoCapacity,
}

impl Fault {
    /// A word for the kind of fault, without the numbers: what counters and logs are kept apart by.
    #[must_use]
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Index(_) => "fault-index",
            Self::Range { .. } => "fault-range",
            Self::Empty => "fault-empty",
            Self::TooLong { .. } => "fault-too-long",
            Self::EndlessChain => "fault-endless-chain",
            Self::TooManyParts { .. } => "fault-too-many-parts",
            Self::MemoryLost => "fault-memory-lost",
            Self::NoCapacity => "fault-no-capacity",
        }
    }
}

/// A queue of an interface, from our side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum QueueName {
    /// One to receive from.
    Rx(u16),
    /// One to send to.
    Tx(u16),
}

impl fmt::Display for QueueName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rx(number) => write!(f, "rx {number}"),
            Self::Tx(number) => write!(f, "tx {number}"),
        }
    }
}

/// A [`Fault`], and where it was met.
///
/// `{:?}` is the sentence as well, for this is what a program shows whose `main` returns it; `{:#?}` shows the fields.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{interface}: {queue}: {fault}")]
pub struct QueueError {
    /// Socket and id: `@quiver/app id 0`.
    pub interface: Arc<str>,
    /// Its queue.
    pub queue: QueueName,
    /// What the peer did.
    #[source]
    pub fault: Fault,
}

impl fmt::Debug for QueueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !f.alternate() {
            return fmt::Display::fmt(self, f);
        }
        let Self { interface, queue, fault } = self;
        let mut all = f.debug_struct("QueueError");
        all.field("interface", interface).field("queue", queue).field("fault", fault).finish()
    }
}

/// Whose queue it is: what its errors say.
#[derive(Debug)]
pub(super) struct Owner {
    interface: Arc<str>,
    queue: QueueName,
}

impl Owner {
    pub(super) const fn new(interface: Arc<str>, queue: QueueName) -> Self {
        Self { interface, queue }
    }

    /// The error of a fault that was met in this ring. See [`RingView::blame`].
    #[cold]
    pub(super) fn error(&self, ring: &RingView, fault: Fault) -> QueueError {
        QueueError { interface: Arc::clone(&self.interface), queue: self.queue, fault: ring.blame(fault) }
    }
}
