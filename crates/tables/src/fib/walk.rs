//! Lookups: from a node to the entry below it, and from the root down, for one address or for a vector.

use std::sync::atomic::{AtomicU32, Ordering};

use super::address::Address;
use super::edit::ROOT_DEPTH;
use super::entry::{Entry, ID_MASK, Kind};
use super::node::{RANKED_HEADER, STRIDE, TINY_HEADER};
use super::words::word_of;

/// Most addresses looked up in one go; longer slices are cut.
pub(crate) const BATCH: usize = 256;

/// The words of a table, for the time of a lookup.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) words: &'a [AtomicU32],
    /// It is more than a core's own cache holds.
    pub(crate) is_large: bool,
}

impl View<'_> {
    /// A word of a block that isn't changed after the block was published (bounds, bitmaps, ranks).
    #[inline(always)]
    pub(crate) fn fixed(self, index: usize) -> u32 {
        self.words[index].load(Ordering::Relaxed)
    }

    /// An entry; what was written before it was published is visible after it was read.
    #[inline(always)]
    pub(crate) fn entry(self, index: usize) -> Entry {
        Entry::from_word(self.words[index].load(Ordering::Acquire))
    }

    /// One step: from a node that decides the bits from `depth` on to the entry below it and its depth.
    #[inline(always)]
    pub(crate) fn step<A: Address>(self, node: Entry, addr: A, depth: u32) -> (Entry, u32) {
        let base = word_of(node.granule());
        let slot = if node.is_packed() {
            match node.kind() {
                Kind::Tiny => self.tiny_slot(base, addr.byte(depth)),
                _ => self.ranked_slot(base, addr.byte(depth)),
            }
        } else if A::FOLDS && node.kind() == Kind::Fold {
            let (slot, end) = self.fold_slot(base, addr, depth);
            return (self.entry(slot), end);
        } else {
            base + usize::from(addr.byte(depth))
        };
        (self.entry(slot), depth + STRIDE)
    }

    #[inline(always)]
    fn tiny_slot(self, base: usize, byte: u8) -> usize {
        let bounds = self.fixed(base);
        let (byte, second, third) = (u32::from(byte), bounds & 0xff, bounds >> 8 & 0xff);
        base + TINY_HEADER + usize::from(byte >= second) + usize::from(byte >= third)
    }

    #[inline(always)]
    fn ranked_slot(self, base: usize, byte: u8) -> usize {
        let group = usize::from(byte >> 5);
        let rank = self.fixed(base + group / 4) >> (8 * (group % 4)) & 0xff;
        let starts = self.fixed(base + 2 + group) & (u32::MAX >> (31 - (byte & 31)));
        base + RANKED_HEADER + (rank + starts.count_ones()) as usize
    }

    #[inline(always)]
    pub(super) fn fold_slot<A: Address>(self, base: usize, addr: A, depth: u32) -> (usize, u32) {
        let end = self.fixed(base);
        if end <= 64 {
            // As nearly all do: half the width, and no 128-bit shift by a variable.
            let differing = ((addr.widen() >> 64) as u64 ^ self.fold_path_above(base)) << depth;
            let on_path = differing.leading_zeros() >= end - depth;
            return (base + 1 + usize::from(on_path), end);
        }
        let differing = (addr.widen() ^ self.fold_path(base)) << depth;
        let on_path = differing.leading_zeros() >= end - depth;
        (base + 1 + usize::from(on_path), end)
    }

    /// The first 64 bits of a fold's path.
    #[inline(always)]
    fn fold_path_above(self, base: usize) -> u64 {
        u64::from(self.fixed(base + 4)) << 32 | u64::from(self.fixed(base + 5))
    }

    #[inline(always)]
    pub(crate) fn fold_path(self, base: usize) -> u128 {
        let path = &self.words[base + 4..base + 8];
        path.iter().fold(0, |path, word| path << 32 | u128::from(word.load(Ordering::Relaxed)))
    }

    /// The leaf of one address.
    #[inline(always)]
    pub(crate) fn leaf<A: Address>(self, addr: A) -> Entry {
        let (mut entry, mut depth) = (self.entry(addr.root()), ROOT_DEPTH);
        while entry.is_node() {
            (entry, depth) = self.step(entry, addr, depth);
        }
        entry
    }

    /// The ids of up to [`BATCH`] addresses; the slices are of one length.
    ///
    /// All addresses take a step before the first takes its next. The loads of a step don't depend on each other, so
    /// the processor has the cache misses of many addresses under way at a time.
    #[inline(always)]
    pub(crate) fn ids<A: Address>(self, addrs: &[A], out: &mut [u32], prefetch: impl Fn(*const u8)) {
        for (addr, out) in addrs.iter().zip(out.iter_mut()) {
            *out = self.entry(addr.root()).word();
        }
        let mut depth = ROOT_DEPTH;
        while let Some(below) = self.step_together(addrs, out, depth) {
            depth = below;
        }
        if Entry::from_word(out.iter().fold(0, |open, word| open | word)).is_node() {
            if self.is_large {
                self.rounds(addrs, out, depth, prefetch);
            } else if A::FOLDS {
                self.steps_with_folds(addrs, out, depth);
            } else {
                self.steps(addrs, out, depth);
            }
        }
        out.iter_mut().for_each(|out| *out &= ID_MASK);
    }

    /// A step of addresses that are all at one small node, as where the few routes there are lie side by side: what it says is read once,
    /// and no address is asked what its node is. Gives their new depth; `None` where they aren't, or are through.
    #[inline(always)]
    fn step_together<A: Address>(self, addrs: &[A], out: &mut [u32], depth: u32) -> Option<u32> {
        let first = *out.first()?;
        let node = Entry::from_word(first);
        if !node.is_node() || out.iter().fold(0, |differing, word| differing | (word ^ first)) != 0 {
            return None;
        }
        let base = word_of(node.granule());
        match node.kind() {
            Kind::Tiny => {
                let bounds = self.fixed(base);
                let (second, third) = (bounds as u8, (bounds >> 8) as u8);
                let runs = [0, 1, 2].map(|run| self.entry(base + TINY_HEADER + run).word());
                for (addr, out) in addrs.iter().zip(out.iter_mut()) {
                    let byte = addr.byte(depth);
                    let from_second = if byte >= third { runs[2] } else { runs[1] };
                    *out = if byte >= second { from_second } else { runs[0] };
                }
                Some(depth + STRIDE)
            }
            Kind::Fold if A::FOLDS && self.fixed(base) <= 64 => {
                let end = self.fixed(base);
                let path = self.fold_path_above(base);
                let (beside, below) = (self.entry(base + 1).word(), self.entry(base + 2).word());
                // The bits from `depth` to `end`.
                let mask = u64::MAX >> depth & u64::MAX << (64 - end);
                for (addr, out) in addrs.iter().zip(out.iter_mut()) {
                    let differing = ((addr.widen() >> 64) as u64 ^ path) & mask;
                    *out = if differing == 0 { below } else { beside };
                }
                Some(end)
            }
            // Each address reads lines of its own.
            _ => None,
        }
    }

    /// The steps below the root where all addresses are at the same depth.
    #[inline(always)]
    fn steps<A: Address>(self, addrs: &[A], out: &mut [u32], from: u32) {
        for depth in (from..u32::from(A::BITS)).step_by(STRIDE as usize) {
            let mut open = 0;
            for (addr, out) in addrs.iter().zip(out.iter_mut()) {
                let entry = Entry::from_word(*out);
                if entry.is_node() {
                    *out = self.step(entry, *addr, depth).0.word();
                    open |= *out;
                }
            }
            if !Entry::from_word(open).is_node() {
                return;
            }
        }
    }

    /// The steps below the root where folds let each address be at its own depth.
    #[inline(always)]
    fn steps_with_folds<A: Address>(self, addrs: &[A], out: &mut [u32], from: u32) {
        let mut depths = [from as u8; BATCH];
        loop {
            let mut open = 0;
            for ((addr, out), depth) in addrs.iter().zip(out.iter_mut()).zip(&mut depths) {
                let entry = Entry::from_word(*out);
                if entry.is_node() {
                    let (entry, below) = self.step(entry, *addr, u32::from(*depth));
                    *depth = below as u8;
                    *out = entry.word();
                    open |= *out;
                }
            }
            if !Entry::from_word(open).is_node() {
                return;
            }
        }
    }
}
