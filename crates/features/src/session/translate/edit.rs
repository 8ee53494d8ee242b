//! Changing words of a packet, and knowing what that does to the checksums that cover them.

use graph::packet::HEAD_AREA;
use wire::checksum::{Delta, Partial};

/// A packet's head being changed, at even distances from where checksums begin.
pub(in super::super) struct Edit<'a> {
    area: &'a mut [u8; HEAD_AREA],
    end: usize,
    old: Partial,
    new: Partial,
}

impl<'a> Edit<'a> {
    /// Of a head that ends at `end`.
    pub(super) const fn new(area: &'a mut [u8; HEAD_AREA], end: usize) -> Self {
        Self { area, end, old: Partial::ZERO, new: Partial::ZERO }
    }

    /// The word at a position; `None` beyond the head.
    pub(super) fn get(&self, at: usize) -> Option<u16> {
        let bytes = self.area.get(at..at + 2).filter(|_| at + 2 <= self.end)?;
        Some(u16::from_be_bytes(*bytes.first_chunk()?))
    }

    /// Replaces the word there.
    pub(super) fn put(&mut self, at: usize, value: u16) -> Option<()> {
        let old = self.get(at)?;
        self.area.get_mut(at..at + 2)?.copy_from_slice(&value.to_be_bytes());
        self.old = self.old.plus(Partial::of_u16(old));
        self.new = self.new.plus(Partial::of_u16(value));
        Some(())
    }

    /// What all of that has done since the last time.
    pub(super) fn take(&mut self) -> Delta {
        let (old, new) = (core::mem::take(&mut self.old), core::mem::take(&mut self.new));
        Delta::between(old, new)
    }
}
