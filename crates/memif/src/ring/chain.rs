//! A packet in several buffers, while it is received.

use memory::region::CheckedRange;

use super::fault::{PARTS_A_CALL, most_parts};
use super::{Descriptor, Fault, RingView};

/// Most bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Of a part.
    pub part: u32,
    /// Of a packet.
    pub packet: u32,
}

/// The parts of a chain as far as they were published. A chain may come in pieces, so that each descriptor is
/// read once however often one looks whether the rest is there.
#[derive(Debug, Default)]
pub(super) struct Chain {
    /// Ranges of the table of the ring they came from, which the owner of both keeps alive.
    parts: Vec<CheckedRange<'static>>,
    slots: u16,
    length: u32,
    /// Slots that were added in this call.
    added: u16,
}

impl Chain {
    /// Slots used so far; 0 if there is no chain.
    #[inline(always)]
    pub const fn slots(&self) -> u16 {
        self.slots
    }

    /// A call begins.
    #[inline(always)]
    pub const fn begin_call(&mut self) {
        self.added = 0;
    }

    /// Whether no more is to be added in this call.
    pub const fn is_enough(&self) -> bool {
        self.added >= PARTS_A_CALL
    }

    /// Its parts, none of them empty.
    pub fn parts(&self) -> &[CheckedRange<'_>] {
        &self.parts
    }

    /// Bytes of the finished chain.
    pub const fn length(&self) -> Result<u32, Fault> {
        if self.length == 0 { Err(Fault::Empty) } else { Ok(self.length) }
    }

    /// Forgets it.
    pub fn clear(&mut self) {
        self.parts.clear();
        (self.slots, self.length) = (0, 0);
    }

    /// Adds the part of slot `index`, after checking it.
    #[cold]
    #[inline(never)]
    pub fn add(&mut self, ring: &RingView, index: u16, d: Descriptor, limits: Limits) -> Result<(), Fault> {
        if d.length > limits.part {
            return Err(Fault::TooLong { length: d.length, max: limits.part });
        }
        let length = self.length.saturating_add(d.length);
        if length > limits.packet {
            return Err(Fault::TooLong { length, max: limits.packet });
        }
        // An empty part is odd but says nothing wrong: some senders trim the last buffer of a chain to
        // nothing.
        if d.length > 0 {
            // SAFETY: `self` lives in the queue that owns `ring`, whose `Arc` keeps the table and its
            // mappings; parts are given out only by `parts`, which borrows the queue.
            self.parts.push(unsafe { d.check(ring.table().extents())?.detach() });
        }
        self.length = length;
        self.slots += 1;
        self.added += 1;
        let max = most_parts(limits.packet);
        if u32::from(self.slots) > max {
            return Err(Fault::TooManyParts { max });
        }
        if d.has_next() {
            if self.slots == ring.size().descriptors() {
                return Err(Fault::EndlessChain);
            }
            // DPDK's copying sender sets NEXT but never clears it when it uses the slot again, and so joins
            // packets that don't belong together. The slot is ours until it is released, so we do.
            ring.descriptors().set_length(index, Descriptor { flags: 0, ..d });
        }
        Ok(())
    }
}
