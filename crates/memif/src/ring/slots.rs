//! Where the buffer of a slot lies, and whose word counts for it.

use super::{Descriptor, Descriptors};

/// How slots get their buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slots {
    /// Server: the client says so in each descriptor, to be checked.
    Peer,
    /// Client: slot `s` has the buffer at `first + s * stride` of our own region; what the peer writes there
    /// doesn't count.
    Own {
        /// Index of the region.
        region: u16,
        /// Offset of the buffer of slot 0, in bytes.
        first: u32,
        /// Distance of buffers, in bytes.
        stride: u32,
        /// Bytes of a buffer.
        capacity: u32,
    },
    /// Client in a trust group: the queue knows which of the pool's buffers a slot has; what the peer writes there doesn't count.
    Pool {
        /// Bytes of a buffer.
        capacity: u32,
    },
}

impl Slots {
    /// Bytes of one of our buffers; `None` for a server, whose peer may use a different size in every descriptor.
    pub(super) const fn capacity(self) -> Option<u32> {
        match self {
            Self::Peer => None,
            Self::Own { capacity, .. } | Self::Pool { capacity } => Some(capacity),
        }
    }
}

/// [`Slots`] with the decision taken, so that loops are compiled for each of the two.
pub(super) trait Addressing: Copy {
    /// Whether descriptors are written by the peer as well, so that each is fetched to be written. One that only we write, and the peer
    /// reads, mostly says already what it is to say.
    const PEERS: bool = true;

    /// The descriptor to trust for this slot; `length` is what stands in shared memory.
    fn received(self, ring: Descriptors<'_>, index: u16) -> Descriptor;
    /// The empty buffer of this slot: where, and how long.
    fn buffer(self, ring: Descriptors<'_>, index: u16) -> Descriptor;
    /// Fills the slot: `d` is its buffer, with as many bytes of it as are sent.
    #[inline(always)]
    fn fill(self, ring: Descriptors<'_>, index: u16, d: Descriptor) {
        // Where the buffer is stands there already.
        ring.set_length(index, d);
    }
    /// Most bytes a received part may have, besides lying inside its region.
    fn limit(self) -> u32;
}

#[derive(Clone, Copy)]
pub(super) struct PeerSlots;

impl Addressing for PeerSlots {
    #[inline(always)]
    fn received(self, ring: Descriptors<'_>, index: u16) -> Descriptor {
        ring.get(index)
    }

    #[inline(always)]
    fn buffer(self, ring: Descriptors<'_>, index: u16) -> Descriptor {
        ring.get(index)
    }

    #[inline(always)]
    fn limit(self) -> u32 {
        u32::MAX
    }
}

#[derive(Clone, Copy)]
pub(super) struct OwnSlots {
    pub region: u16,
    pub first: u32,
    pub stride: u32,
    pub capacity: u32,
}

impl OwnSlots {
    #[inline(always)]
    pub fn of(slots: Slots) -> Option<Self> {
        match slots {
            Slots::Peer | Slots::Pool { .. } => None,
            Slots::Own { region, first, stride, capacity } => Some(Self { region, first, stride, capacity }),
        }
    }
}

impl Addressing for OwnSlots {
    const PEERS: bool = false;

    #[inline(always)]
    fn received(self, ring: Descriptors<'_>, index: u16) -> Descriptor {
        let theirs = ring.get(index);
        Descriptor { flags: theirs.flags, length: theirs.length, ..self.buffer(ring, index) }
    }

    #[inline(always)]
    fn buffer(self, ring: Descriptors<'_>, index: u16) -> Descriptor {
        let slot = u32::from(index & (ring.count() - 1));
        // Wraps only if the layout was wrong, and is checked against the region like every other offset.
        let offset = self.first.wrapping_add(slot.wrapping_mul(self.stride));
        Descriptor { flags: 0, region: self.region, length: self.capacity, offset }
    }

    /// A store to a line that the peer has read takes it away from there, and has it fetched again: half a line a packet for nothing.
    #[inline(always)]
    fn fill(self, ring: Descriptors<'_>, index: u16, d: Descriptor) {
        if !ring.has_length(index, d) {
            ring.set_length(index, d);
        }
    }

    #[inline(always)]
    fn limit(self) -> u32 {
        self.capacity
    }
}
