//! Memory of a trie: one reserved range that readers walk while the writer fills it.

use std::sync::atomic::{AtomicU32, Ordering};

use super::entry::Entry;
use super::walk::View;
use crate::backing::{self, STEP};
use crate::zeroed::{LINE, LineAligned};

/// Unit of allocation: 4 words, 16 bytes.
pub(crate) const GRANULE_WORDS: usize = 4;
/// Entries are 29-bit granule numbers.
const MOST_GRANULES: u32 = 1 << 29;

/// The words readers see. The first 65 536 are the root, the rest is blocks.
///
/// The range is reserved whole when the table is made and never moves: a reader needs no indirection to find a
/// block, and growth needs no copy. Pages are used when they are first written; what is filled next is [told](crate::backing) a few steps
/// of 2 MiB before, but for the first one, which most tables don't outgrow.
#[derive(Debug)]
pub(crate) struct Words {
    words: LineAligned<AtomicU32>,
    /// The greatest granule that was ever a block's first: how far the table reaches.
    top: AtomicU32,
    /// Steps that were told ahead, from the first one on.
    told: AtomicU32,
}

/// Entries of the root.
pub(crate) const ROOTS: usize = 1 << 16;
/// Granules of root and blocks that stay in a core's own cache next to all that else is there: 1 MiB.
const CACHED_GRANULES: u32 = 1 << 16;
/// 256 KiB of blocks.
const LEAST_BLOCK_WORDS: usize = 1 << 16;
/// Words, and granules, of a step.
const STEP_WORDS: usize = STEP / 4;
const STEP_GRANULES: u32 = (STEP_WORDS / GRANULE_WORDS) as u32;

impl Words {
    /// Reserves `bytes`, within what entries can point to and what the first changes need.
    pub(crate) fn reserve(bytes: usize) -> Option<Self> {
        let words = (bytes / 4).clamp(ROOTS + LEAST_BLOCK_WORDS, MOST_GRANULES as usize * GRANULE_WORDS);
        let words = LineAligned::zeroed(words.next_multiple_of(LINE / 4))?;
        Some(Self { words, top: AtomicU32::new(0), told: AtomicU32::new(1) })
    }

    /// Bytes reserved.
    pub(crate) fn capacity(&self) -> usize {
        self.words.as_slice().len() * 4
    }

    /// Granules reserved.
    pub(crate) fn granules(&self) -> u32 {
        (self.words.as_slice().len() / GRANULE_WORDS) as u32
    }

    /// The words, to read.
    #[inline(always)]
    pub(crate) fn view(&self) -> View<'_> {
        let is_large = self.top.load(Ordering::Relaxed) > CACHED_GRANULES;
        View { words: self.words.as_slice(), is_large }
    }

    /// Notes that a block begins there.
    pub(crate) fn begin_block(&self, granule: u32) {
        let top = self.top.load(Ordering::Relaxed);
        if granule > top {
            self.top.store(granule, Ordering::Relaxed);
            if granule / STEP_GRANULES > top / STEP_GRANULES {
                self.begin_step(granule / STEP_GRANULES);
            }
        }
    }

    /// Before a step's first block is filled.
    #[cold]
    fn begin_step(&self, step: u32) {
        let from = self.told.load(Ordering::Relaxed).max(step) as usize;
        let to = step as usize + 1 + backing::ahead(step as usize);
        let words = self.words.as_slice();
        if let Some(next) = words.get(from * STEP_WORDS..(to * STEP_WORDS).min(words.len())) {
            let range = next.as_ptr_range();
            backing::hint(range.start.cast()..range.end.cast());
        }
        self.told.store(to as u32, Ordering::Relaxed);
    }

    /// See [`View::fixed`].
    pub(crate) fn fixed(&self, index: usize) -> u32 {
        self.view().fixed(index)
    }

    /// See [`View::entry`].
    pub(crate) fn entry(&self, index: usize) -> Entry {
        self.view().entry(index)
    }

    /// Fills a word of a block that no reader can reach yet.
    pub(crate) fn fill(&self, index: usize, word: u32) {
        self.words.as_slice()[index].store(word, Ordering::Relaxed);
    }

    /// Publishes an entry and with it every block below it.
    pub(crate) fn publish(&self, index: usize, entry: Entry) {
        self.words.as_slice()[index].store(entry.word(), Ordering::Release);
    }
}

/// First word of a block.
#[inline]
pub(crate) fn word_of(granule: u32) -> usize {
    granule as usize * GRANULE_WORDS
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::ops::Range;
    use std::sync::Mutex;

    static TOLD: Mutex<Vec<Range<usize>>> = Mutex::new(Vec::new());

    #[test]
    fn what_is_filled_next_is_told_once_and_before() {
        backing::set(|range| TOLD.lock().unwrap().push(range.start.addr()..range.end.addr()));
        let words = Words::reserve(64 << 20).unwrap();
        let all = words.words.as_slice().as_ptr_range();
        let (start, end) = (all.start.addr(), all.end.addr());
        // Other tests' tables are told as well.
        let told = || {
            let told = TOLD.lock().unwrap();
            told.iter().filter(|range| (start..end).contains(&range.start)).cloned().collect::<Vec<_>>()
        };
        for granule in (0..words.granules()).step_by(64) {
            words.begin_block(granule);
            let filled = start + granule as usize * 16;
            match told().last() {
                None => assert!(filled < start + STEP, "nothing was told, and {filled:x} is filled"),
                Some(last) => assert!(last.end > filled + STEP || last.end == end),
            }
        }
        let told = told();
        assert_eq!(told.first().map(|range| range.start), Some(start + STEP));
        assert_eq!(told.last().map(|range| range.end), Some(end));
        assert!(told.is_sorted_by(|a, b| a.end == b.start), "without gaps, nothing twice: {told:x?}");
    }
}
