//! Where a client puts rings and buffers in its region.
//!
//! First all rings it sends to, then all it receives from, then their buffers in the same order. Rings are
//! 64-byte aligned. Buffers are an odd number of cache lines apart: with a power of two the first lines of
//! all packets would share one 32nd of the cache's sets.

use crate::ring::{RingSize, RingView};

/// What decides a layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Rings the client sends to (client to server).
    pub tx_rings: u16,
    /// Rings the client receives from (server to client).
    pub rx_rings: u16,
    /// Size of every ring.
    pub ring_size: RingSize,
    /// Bytes of every buffer.
    pub buffer_size: u32,
}

impl Layout {
    /// Bytes of the whole region; may be more than offsets can reach, which creating the region refuses.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.buffers() + u64::from(self.rings()) * self.ring_buffers()
    }

    /// Bytes of the region where buffers are a pool's: rings only.
    #[must_use]
    pub fn rings_size(&self) -> u64 {
        self.buffers()
    }

    /// Offset of the ring the client sends to number `i`, in bytes.
    #[must_use]
    pub fn tx_ring(&self, i: u16) -> u64 {
        u64::from(i) * u64::from(RingView::bytes(self.ring_size))
    }

    /// Offset of the ring the client receives from number `i`, in bytes.
    #[must_use]
    pub fn rx_ring(&self, i: u16) -> u64 {
        (u64::from(self.tx_rings) + u64::from(i)) * u64::from(RingView::bytes(self.ring_size))
    }

    /// Offset of the first buffer of [`tx_ring`](Self::tx_ring) `i`, in bytes.
    #[must_use]
    pub fn tx_buffers(&self, i: u16) -> u64 {
        self.buffers() + u64::from(i) * self.ring_buffers()
    }

    /// Offset of the first buffer of [`rx_ring`](Self::rx_ring) `i`, in bytes.
    #[must_use]
    pub fn rx_buffers(&self, i: u16) -> u64 {
        self.buffers() + (u64::from(self.tx_rings) + u64::from(i)) * self.ring_buffers()
    }

    /// Distance between two buffers of a ring, in bytes: whole cache lines, an odd number of them.
    #[must_use]
    pub const fn stride(&self) -> u32 {
        self.buffer_size.div_ceil(64).saturating_mul(64) | 64
    }

    fn rings(&self) -> u32 {
        u32::from(self.tx_rings) + u32::from(self.rx_rings)
    }

    fn buffers(&self) -> u64 {
        u64::from(self.rings()) * u64::from(RingView::bytes(self.ring_size))
    }

    fn ring_buffers(&self) -> u64 {
        u64::from(self.ring_size.descriptors()) * u64::from(self.stride())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_overlaps_and_all_is_aligned() {
        for (tx_rings, rx_rings, buffer_size) in [(1, 1, 2048), (3, 1, 64), (0, 2, 100), (2, 5, 9300)] {
            let ring_size = RingSize::MIN;
            let layout = Layout { tx_rings, rx_rings, ring_size, buffer_size };
            let ring = u64::from(RingView::bytes(ring_size));
            let buffers = u64::from(layout.stride()) * 64;
            let mut pieces = Vec::new();
            pieces.extend((0..tx_rings).map(|i| (layout.tx_ring(i), ring)));
            pieces.extend((0..rx_rings).map(|i| (layout.rx_ring(i), ring)));
            pieces.extend((0..tx_rings).map(|i| (layout.tx_buffers(i), buffers)));
            pieces.extend((0..rx_rings).map(|i| (layout.rx_buffers(i), buffers)));
            let mut end = 0;
            for (offset, length) in pieces {
                assert_eq!(offset, end);
                assert_eq!(offset % 64, 0);
                end += length;
            }
            assert_eq!(layout.size(), end);
            assert!(layout.stride() >= buffer_size && layout.stride() / 64 % 2 == 1);
        }
    }
}
