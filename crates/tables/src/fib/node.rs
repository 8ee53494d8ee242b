//! A node decides eight bits of an address: 256 slots, each with an [`Entry`]. Equal neighbours form a *run*.
//!
//! | kind | words | when |
//! |---|---|---|
//! | `Tiny` | bounds of runs 2 and 3 (a byte each), 3 entries | up to 3 runs: one host route in an empty /24 is 16 bytes |
//! | `Ranked` | 8 ranks (a byte each), 256-bit bitmap of run starts, one entry per run | up to 86 runs, 64 to 384 bytes |
//! | `Direct` | 256 entries | above, 1 KiB |
//! | `Fold` | end depth, leaf beside the path, entry at its end, –, the path's bits (4 words) | IPv6 |
//!
//! The bounds, bitmaps and bits of a block never change while a reader may see it; only entries do, each by one
//! store. Where runs have to be added or joined a new block is filled and published by one store into the entry
//! above it. So a lookup, wherever it stands, finds the old result or the new one.

use arrayvec::ArrayVec;

use super::address::Address;
use super::allocator::Allocator;
use super::entry::{Entry, Kind};
use super::words::{Words, word_of};

/// Slots of a node.
pub(crate) const SLOTS: usize = 256;
/// Bits a node decides.
pub(crate) const STRIDE: u32 = 8;
/// Most runs of a `Ranked` node: six cache lines, beyond which `Direct` costs little more memory and less time.
pub(crate) const RANKED_RUNS: usize = 86;
/// Words before the entries of a `Ranked` node: ranks and bitmap.
pub(crate) const RANKED_HEADER: usize = 10;
const TINY_RUNS: usize = 3;
pub(crate) const TINY_HEADER: usize = 1;
const FOLD_GRANULES: u32 = 2;

/// Consecutive slots with one entry: from `start` to the slot before the next run. A node below is always a run of
/// one slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) start: u8,
    pub(crate) entry: Entry,
}

/// All runs of a node, the first at slot 0.
#[derive(Clone, Debug, Default)]
pub(crate) struct Runs(pub(crate) ArrayVec<Run, SLOTS>);

impl Runs {
    /// Appends a run; one that goes on with the same entry is joined to the one before.
    pub(crate) fn push(&mut self, start: u8, entry: Entry) {
        if self.0.last().is_none_or(|last| last.entry != entry) {
            self.0.push(Run { start, entry });
        }
    }

    /// `value` in the slots `from..=to`, `rest` in all others.
    pub(crate) fn island(from: u8, to: u8, value: Entry, rest: Entry) -> Self {
        let mut runs = Self::default();
        if from > 0 {
            runs.push(0, rest);
        }
        runs.push(from, value);
        if let Some(after) = to.checked_add(1) {
            runs.push(after, rest);
        }
        runs
    }

    /// Last slot of run `index`.
    pub(crate) fn end(&self, index: usize) -> u8 {
        self.0.get(index + 1).map_or(u8::MAX, |next| next.start - 1)
    }

    pub(crate) fn same_bounds(&self, other: &Self) -> bool {
        self.0.len() == other.0.len() && self.0.iter().zip(&other.0).all(|(a, b)| a.start == b.start)
    }

    /// The only way down, if every other slot holds one and the same leaf: (slot, node, leaf).
    pub(crate) fn single_way(&self) -> Option<(u8, Entry, Entry)> {
        let way = match self.0.as_slice() {
            [a, b] if a.entry.is_node() => (a.start, a.entry, b.entry),
            [a, b] => (b.start, b.entry, a.entry),
            [a, b, c] if a.entry == c.entry => (b.start, b.entry, a.entry),
            _ => return None,
        };
        (way.1.is_node() && !way.2.is_node()).then_some(way)
    }
}

/// What a `Fold` says: addresses that agree with `path` in the bits from its depth to `end` go on with `below`,
/// all others end with `beside`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fold<A> {
    pub(crate) end: u32,
    pub(crate) path: A,
    pub(crate) beside: Entry,
    pub(crate) below: Entry,
}

impl Words {
    /// The parts of a `Fold` block.
    pub(crate) fn fold<A: Address>(&self, node: Entry) -> Fold<A> {
        let base = word_of(node.granule());
        Fold {
            end: self.fixed(base),
            path: A::narrow(self.view().fold_path(base)),
            beside: self.entry(base + 1),
            below: self.entry(base + 2),
        }
    }

    /// Stores the two entries of a `Fold` block in place.
    pub(crate) fn publish_fold(&self, node: Entry, beside: Entry, below: Entry) {
        let base = word_of(node.granule());
        self.publish(base + 1, beside);
        self.publish(base + 2, below);
    }

    /// The runs of a node other than a `Fold`.
    pub(crate) fn runs(&self, node: Entry) -> Runs {
        let base = word_of(node.granule());
        let mut runs = Runs::default();
        match node.kind() {
            Kind::Direct => {
                (0..=u8::MAX).for_each(|slot| runs.push(slot, self.entry(base + usize::from(slot))))
            }
            Kind::Tiny => {
                let bounds = self.fixed(base);
                for (index, start) in [0, bounds as u8, (bounds >> 8) as u8].into_iter().enumerate() {
                    runs.push(start, self.entry(base + TINY_HEADER + index));
                }
            }
            Kind::Ranked | Kind::Fold => {
                let mut index = base + RANKED_HEADER;
                runs.0.push(Run { start: 0, entry: self.entry(index) });
                for group in 0..8 {
                    let mut starts = self.fixed(base + 2 + group);
                    while starts != 0 {
                        index += 1;
                        let start = group as u8 * 32 + starts.trailing_zeros() as u8;
                        runs.0.push(Run { start, entry: self.entry(index) });
                        starts &= starts - 1;
                    }
                }
            }
        }
        runs
    }

    /// Stores the entries of `new` into a block that holds runs with the bounds of `new`.
    pub(crate) fn publish_runs(&self, node: Entry, old: &Runs, new: &Runs) {
        let base = word_of(node.granule());
        let count = new.0.len();
        for (index, (was, run)) in old.0.iter().zip(&new.0).enumerate() {
            if was.entry == run.entry {
                continue;
            }
            match node.kind() {
                Kind::Direct => {
                    for slot in run.start..=new.end(index) {
                        self.publish(base + usize::from(slot), run.entry);
                    }
                }
                // The last run of a Tiny node also fills the entries that have no run.
                Kind::Tiny if index + 1 == count => {
                    (index..TINY_RUNS).for_each(|at| self.publish(base + TINY_HEADER + at, run.entry));
                }
                Kind::Tiny => self.publish(base + TINY_HEADER + index, run.entry),
                Kind::Ranked | Kind::Fold => self.publish(base + RANKED_HEADER + index, run.entry),
            }
        }
    }

    /// A new block for `runs` (two or more), not yet published.
    pub(crate) fn encode(&self, allocator: &mut Allocator, runs: &Runs) -> Option<Entry> {
        let count = runs.0.len();
        let (kind, granules) = match count {
            0..=TINY_RUNS => (Kind::Tiny, 1),
            _ if count <= RANKED_RUNS => (Kind::Ranked, ranked_granules(count)),
            _ => (Kind::Direct, (SLOTS / 4) as u32),
        };
        let granule = allocator.allocate(granules)?;
        self.begin_block(granule);
        let base = word_of(granule);
        match kind {
            Kind::Tiny => {
                // A bound of 255 for a missing run sends slot 255 to the copies of the last entry.
                let bound = |run: usize| runs.0.get(run).map_or(0xff, |run| u32::from(run.start));
                self.fill(base, bound(1) | bound(2) << 8);
                for index in 0..TINY_RUNS {
                    self.fill(base + TINY_HEADER + index, runs.0[index.min(count - 1)].entry.word());
                }
            }
            Kind::Direct => {
                for (index, run) in runs.0.iter().enumerate() {
                    for slot in run.start..=runs.end(index) {
                        self.fill(base + usize::from(slot), run.entry.word());
                    }
                }
            }
            Kind::Ranked | Kind::Fold => {
                let mut starts = [0u32; 8];
                runs.0
                    .iter()
                    .skip(1)
                    .for_each(|run| starts[usize::from(run.start >> 5)] |= 1 << (run.start & 31));
                let (mut ranks, mut rank) = (0u64, 0u64);
                for (group, bits) in starts.iter().enumerate() {
                    ranks |= rank << (8 * group);
                    rank += u64::from(bits.count_ones());
                    self.fill(base + 2 + group, *bits);
                }
                self.fill(base, ranks as u32);
                self.fill(base + 1, (ranks >> 32) as u32);
                for (index, run) in runs.0.iter().enumerate() {
                    self.fill(base + RANKED_HEADER + index, run.entry.word());
                }
            }
        }
        Some(Entry::node(kind, granule))
    }

    /// A new `Fold` block, not yet published.
    pub(crate) fn encode_fold<A: Address>(&self, allocator: &mut Allocator, fold: Fold<A>) -> Option<Entry> {
        let granule = allocator.allocate(FOLD_GRANULES)?;
        self.begin_block(granule);
        let base = word_of(granule);
        let path = fold.path.widen();
        self.fill(base, fold.end);
        self.fill(base + 1, fold.beside.word());
        self.fill(base + 2, fold.below.word());
        (0..4).for_each(|word| self.fill(base + 4 + word, (path >> (96 - 32 * word)) as u32));
        Some(Entry::node(Kind::Fold, granule))
    }
}

fn ranked_granules(runs: usize) -> u32 {
    (RANKED_HEADER + runs).div_ceil(16) as u32 * 4
}

#[cfg(test)]
mod tests {
    use super::super::NextHopId;
    use super::*;

    fn leaf(id: u32) -> Entry {
        Entry::leaf(NextHopId(id), 24)
    }

    #[test]
    fn every_form_gives_back_what_was_put_in() {
        let words = Words::reserve(1 << 20).unwrap();
        let mut allocator = Allocator::new(&words);
        let spread = |count: u32| -> Vec<u8> { (0..count).map(|run| (run * 256 / count) as u8).collect() };
        let mut cases: Vec<Vec<u8>> = [2, 3, 4, 6, 7, 22, 23, 86, 87, 255, 256].map(spread).into();
        cases.extend([vec![0, 255], vec![0, 1], vec![0, 254, 255], vec![0, 1, 255], vec![0, 253, 254, 255]]);
        for starts in cases {
            let mut runs = Runs::default();
            starts.iter().enumerate().for_each(|(id, &start)| runs.push(start, leaf(id as u32 + 1)));
            let node = words.encode(&mut allocator, &runs).unwrap();
            assert_eq!(words.runs(node).0, runs.0, "{starts:?}");
            for byte in 0..=u8::MAX {
                let id = starts.iter().filter(|&&start| start <= byte).count() as u32;
                let found = words.view().step(node, u32::from(byte) << 8, 16);
                assert_eq!(found, (leaf(id), 24), "{:?} slot {byte} of {starts:?}", node.kind());
            }
            let mut other = runs.clone();
            other.0.iter_mut().for_each(|run| run.entry = leaf(run.entry.id().0 + 1000));
            words.publish_runs(node, &runs, &other);
            assert_eq!(words.runs(node).0, other.0);
            assert_eq!(words.view().step(node, 0xff00u32, 16), (other.0.last().unwrap().entry, 24));
            allocator.release(node.granule(), false);
        }
        assert_eq!(allocator.bytes().0, 0, "every block was given back");
    }

    #[test]
    fn a_fold_tells_its_path_from_all_else() {
        let words = Words::reserve(1 << 20).unwrap();
        let mut allocator = Allocator::new(&words);
        let path = 0xfd00_0010_0244_0007u128 << 64;
        let fold = Fold { end: 64, path, beside: leaf(1), below: leaf(2) };
        let node = words.encode_fold(&mut allocator, fold).unwrap();
        for bit in 0..128u32 {
            let expect = if (16..64).contains(&bit) { leaf(1) } else { leaf(2) };
            assert_eq!(words.view().step(node, path ^ 1 << (127 - bit), 16), (expect, 64), "bit {bit}");
        }
        assert_eq!(words.view().step(node, path, 16), (leaf(2), 64));
        assert_eq!(words.fold::<u128>(node).path, path);
    }
}
