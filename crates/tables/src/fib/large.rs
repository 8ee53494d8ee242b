//! Lookups in tables that are more than a core's own cache holds: there lines that have to come, and branches that are guessed wrong, are
//! what takes time.
//!
//! Addresses go down the table in rounds, a node in each; every part of a round asks for the lines that the next one reads, before any of them is read.
//! As long as most of them are at nodes of one form, each is asked what it is at: that is guessed right. From the first round on where it
//! wouldn't be, those that are still on their way are kept on a list, and small nodes of both forms are read without asking which it is.

use super::address::Address;
use super::entry::{Entry, Kind};
use super::node::{RANKED_HEADER, STRIDE, TINY_HEADER};
use super::walk::{BATCH, View};
use super::words::word_of;

/// How many addresses are at what.
struct Forms {
    leaves: usize,
    tiny: usize,
    ranked: usize,
    all: usize,
}

impl Forms {
    #[inline(always)]
    fn of(words: &[u32]) -> Self {
        let count = |is: fn(Entry) -> bool| {
            words.iter().map(|word| u32::from(is(Entry::from_word(*word)))).sum::<u32>() as usize
        };
        Self {
            leaves: words.len() - count(Entry::is_node),
            tiny: count(Entry::is_tiny),
            ranked: count(Entry::is_ranked),
            all: words.len(),
        }
    }

    /// Whether a guess what an address is at would often be wrong.
    fn are_mixed(&self) -> bool {
        let guessed_wrong = self.tiny.min(self.ranked) + self.leaves.min(self.all - self.leaves);
        guessed_wrong > self.all / 8
    }
}

impl View<'_> {
    /// Takes addresses that are at `out` at depth `from` down to their leaves. There are [`BATCH`] at most, and the slices are of one length.
    #[inline(always)]
    pub(super) fn rounds<A: Address>(
        self,
        addrs: &[A],
        out: &mut [u32],
        from: u32,
        prefetch: impl Fn(*const u8),
    ) {
        let mut depths = [from as u8; BATCH];
        loop {
            let forms = Forms::of(out);
            if forms.leaves == forms.all {
                return;
            }
            if forms.are_mixed() {
                return self.rounds_by_list(addrs, out, &mut depths, prefetch);
            }
            self.round(addrs, out, &mut depths, &prefetch);
        }
    }

    /// A round of addresses most of which are at nodes of one form.
    #[inline(always)]
    fn round<A: Address>(
        self,
        addrs: &[A],
        out: &mut [u32],
        depths: &mut [u8; BATCH],
        prefetch: impl Fn(*const u8),
    ) {
        let mut ranked = false;
        for ((addr, node), depth) in addrs.iter().zip(out.iter()).zip(depths.iter()) {
            let node = Entry::from_word(*node);
            if node.is_node() {
                ranked |= node.is_ranked();
                prefetch(self.first_line(node, *addr, u32::from(*depth)));
            }
        }
        // Their entries may lie in another line than what says which.
        if ranked {
            for ((addr, node), depth) in addrs.iter().zip(out.iter()).zip(depths.iter()) {
                let node = Entry::from_word(*node);
                if node.is_ranked() {
                    prefetch(self.line(self.slot(node, *addr, u32::from(*depth)).0));
                }
            }
        }
        for ((addr, out), depth) in addrs.iter().zip(out).zip(depths) {
            let entry = Entry::from_word(*out);
            if entry.is_node() {
                let (entry, below) = self.step(entry, *addr, u32::from(*depth));
                *depth = below as u8;
                *out = entry.word();
            }
        }
    }

    /// All rounds that are left, of addresses that are at leaves and nodes of whatever form.
    #[inline(always)]
    fn rounds_by_list<A: Address>(
        self,
        addrs: &[A],
        out: &mut [u32],
        depths: &mut [u8; BATCH],
        prefetch: impl Fn(*const u8),
    ) {
        // Places of those at nodes, and the slots of these.
        let (mut open, mut slots) = ([0u8; BATCH], [0u32; BATCH]);
        let mut count = 0;
        for (((place, addr), node), depth) in (0..=u8::MAX).zip(addrs).zip(out.iter()).zip(depths.iter()) {
            let node = Entry::from_word(*node);
            // No branch on it: the next place is written over one that isn't to stay.
            open[count % BATCH] = place;
            count += usize::from(node.is_node());
            prefetch(self.first_line(node, *addr, u32::from(*depth)));
        }
        while count > 0 {
            for (place, slot) in open[..count.min(BATCH)].iter().zip(&mut slots) {
                let at = usize::from(*place);
                let (Some(addr), Some(node)) = (addrs.get(at), out.get(at)) else { break };
                let (found, below) = self.slot(Entry::from_word(*node), *addr, u32::from(depths[at]));
                *slot = found as u32;
                depths[at] = below as u8;
                prefetch(self.line(found));
            }
            let mut left = 0;
            for index in 0..count.min(BATCH) {
                let (place, slot) = (open[index], slots[index]);
                let at = usize::from(place);
                let (Some(addr), Some(out)) = (addrs.get(at), out.get_mut(at)) else { break };
                let entry = self.entry(slot as usize);
                *out = entry.word();
                open[left % BATCH] = place;
                left += usize::from(entry.is_node());
                prefetch(self.first_line(entry, *addr, u32::from(depths[at])));
            }
            count = left;
        }
    }

    /// Where the entry lies that comes after `node` at `depth`, and its depth.
    #[inline(always)]
    fn slot<A: Address>(self, node: Entry, addr: A, depth: u32) -> (usize, u32) {
        let base = word_of(node.granule());
        if node.is_packed() {
            return (self.packed_slot(node, base, addr.byte(depth)), depth + STRIDE);
        }
        if A::FOLDS && node.kind() == Kind::Fold {
            return self.fold_slot(base, addr, depth);
        }
        (base + usize::from(addr.byte(depth)), depth + STRIDE)
    }

    /// The slot of a `Tiny` or a `Ranked` node. Which of them it is can't be guessed, so that it is worked out for both.
    #[inline(always)]
    fn packed_slot(self, node: Entry, base: usize, byte: u8) -> usize {
        let group = usize::from(byte >> 5);
        let all = if node.is_ranked() { usize::MAX } else { 0 };
        let (first, starts) =
            (self.fixed(base + ((group / 4) & all)), self.fixed(base + ((2 + group) & all)));
        let (second, third) = (first as u8, (first >> 8) as u8);
        let tiny = TINY_HEADER + usize::from(byte >= second) + usize::from(byte >= third);
        let rank = first >> (8 * (group % 4)) & 0xff;
        let starts = starts & (u32::MAX >> (31 - (byte & 31)));
        let ranked = RANKED_HEADER + (rank + starts.count_ones()) as usize;
        base + (ranked & all | tiny & !all)
    }

    /// What a step from `entry` reads first, if that is a node.
    #[inline(always)]
    fn first_line<A: Address>(self, entry: Entry, addr: A, depth: u32) -> *const u8 {
        let is_direct = !entry.is_packed() && (!A::FOLDS || entry.kind() == Kind::Direct);
        let first = word_of(entry.granule()) + if is_direct { usize::from(addr.byte(depth)) } else { 0 };
        self.line(if entry.is_node() { first } else { 0 })
    }

    #[inline(always)]
    fn line(self, index: usize) -> *const u8 {
        core::ptr::from_ref(&self.words[index]).cast()
    }
}
