//! Sending packets that are a cache line each, from memory where they lie one after another.
//!
//! A client writes to buffers that the server has just read: each store waits for its line to come over from the other core, and how many
//! of them wait together is how many fit into the core's store buffer, with all other stores between them. So here there are
//! none between: first a line for each packet, then the descriptors, of those alone that don't stand there from the last lap already.

use super::slots::{Addressing, OwnSlots};
use super::tx::Walked;
use super::{Descriptor, Transmitted, TxQueue};

/// Bytes of a cache line.
const LINE: usize = 64;

/// Packets of one length, all that is to be written of each of which is one cache line.
#[derive(Debug, Clone, Copy)]
pub struct Lines<'p> {
    /// Bytes of each packet as it is sent. Where they are fewer than a line, the peer can read the rest of the line, too; where they are
    /// more, what follows is what stands in the buffer.
    pub length: u32,
    /// The packets' first lines.
    pub lines: &'p [[u8; LINE]],
}

impl Lines<'_> {
    /// The first `n` of them; `None` if there are fewer.
    #[inline(always)]
    pub(super) fn first(self, n: usize) -> Option<Self> {
        Some(Self { lines: self.lines.get(..n)?, ..self })
    }
}

impl TxQueue {
    /// Sends packets into buffers of ours, as many as find room. `None` if they aren't of a kind that can be sent so: nothing is done then.
    #[inline(always)]
    pub(super) fn fill_lines(&mut self, own: OwnSlots, room: u16, packets: Lines<'_>) -> Option<Walked> {
        let Lines { length, lines } = packets;
        let lines = lines.get(..room.into()).unwrap_or(lines);
        let (ring, table) = (self.ring.descriptors(), self.ring.table().extents());
        let span = table.span(own.region)?;
        let last = u64::from(own.first) + u64::from(ring.count() - 1) * u64::from(own.stride);
        let fits = own.capacity as usize >= LINE && last <= span.last_offset(own.capacity)?.into();
        if !fits || length.wrapping_sub(1) >= own.capacity.min(self.longest()) {
            return None;
        }
        let start = self.next();
        for (at, line) in (0..).zip(lines) {
            let buffer = own.buffer(ring, start.wrapping_add(at));
            // SAFETY: buffers of the ring's slots lie at multiples of the stride behind the first, the last of them, and so all,
            // with their capacity of a line or more inside a region that the queue holds mapped. The peer may read and write these bytes
            // meanwhile, as with `CheckedRange::write_at`: only their values suffer.
            unsafe { span.address(buffer.offset).cast::<[u8; LINE]>().write(*line) };
        }
        let sent = lines.len() as u16;
        for at in 0..sent {
            let index = start.wrapping_add(at);
            own.fill(ring, index, Descriptor { length, ..own.buffer(ring, index) });
        }
        self.cursor.take(sent);
        let done = Transmitted { sent: lines.len(), refused: 0 };
        Some(Walked { done, bytes: u64::from(length) * u64::from(sent), stopped: false })
    }
}
