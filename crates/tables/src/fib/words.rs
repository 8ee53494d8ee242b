//! Memory of a trie: one reserved range that readers walk while the writer fills it.

use std::sync::atomic::{AtomicU32, Ordering};

use super::entry::Entry;
use super::walk::View;
use crate::zeroed::{LINE, LineAligned};

/// Unit of allocation: 4 words, 16 bytes.
pub(crate) const GRANULE_WORDS: usize = 4;
/// Entries are 29-bit granule numbers.
const MOST_GRANULES: u32 = 1 << 29;

/// The words readers see. The first 65 536 are the root, the rest is blocks.
///
/// The range is reserved whole when the table is made and never moves: a reader needs no indirection to find a
/// block, and growth needs no copy. Pages are used when they are first written.
#[derive(Debug)]
pub(crate) struct Words {
    words: LineAligned<AtomicU32>,
    /// The greatest granule that was ever a block's first: how far the table reaches.
    top: AtomicU32,
}

/// Entries of the root.
pub(crate) const ROOTS: usize = 1 << 16;
/// Granules of root and blocks that stay in a core's own cache next to all that else is there: 1 MiB.
const CACHED_GRANULES: u32 = 1 << 16;
/// 256 KiB of blocks.
const LEAST_BLOCK_WORDS: usize = 1 << 16;

impl Words {
    /// Reserves `bytes`, within what entries can point to and what the first changes need.
    pub(crate) fn reserve(bytes: usize) -> Option<Self> {
        let words = (bytes / 4).clamp(ROOTS + LEAST_BLOCK_WORDS, MOST_GRANULES as usize * GRANULE_WORDS);
        Some(Self { words: LineAligned::zeroed(words.next_multiple_of(LINE / 4))?, top: AtomicU32::new(0) })
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
        if granule > self.top.load(Ordering::Relaxed) {
            self.top.store(granule, Ordering::Relaxed);
        }
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
