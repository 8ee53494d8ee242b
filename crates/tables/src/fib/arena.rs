//! Memory of a trie: one reserved range that readers walk and the writer hands out in blocks.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};

use super::entry::Entry;
use crate::zeroed::{LINE, LineAligned};

/// Unit of allocation: 4 words, 16 bytes.
pub(crate) const GRANULE_WORDS: usize = 4;
/// Granules of a cache line.
const LINE_GRANULES: u32 = (LINE / 16) as u32;
/// Largest block: 256 entries.
pub(crate) const LARGEST: u32 = 64;
/// Entries are 29-bit granule numbers.
const MOST_GRANULES: u32 = 1 << 29;

/// The words readers see. The first 65 536 are the root, the rest is blocks.
///
/// The range is reserved whole when the table is made and never moves: a reader needs no indirection to find a
/// block, and growth needs no copy. Pages are used when they are first written.
#[derive(Debug)]
pub(crate) struct Words {
    words: LineAligned<AtomicU32>,
}

/// Entries of the root.
pub(crate) const ROOTS: usize = 1 << 16;
/// 64 KiB of blocks.
const LEAST_BLOCK_WORDS: usize = 1 << 14;

impl Words {
    /// Reserves `bytes`, within what entries can point to and what the first changes need.
    pub(crate) fn reserve(bytes: usize) -> Option<Self> {
        let words = (bytes / 4).clamp(ROOTS + LEAST_BLOCK_WORDS, MOST_GRANULES as usize * GRANULE_WORDS);
        Some(Self { words: LineAligned::zeroed(words.next_multiple_of(LINE / 4))? })
    }

    /// Bytes reserved.
    pub(crate) fn capacity(&self) -> usize {
        self.words.as_slice().len() * 4
    }

    fn all_granules(&self) -> u32 {
        (self.words.as_slice().len() / GRANULE_WORDS) as u32
    }

    /// A word of a block that isn't changed after the block was published (bounds, bitmaps, ranks).
    #[inline]
    pub(crate) fn fixed(&self, index: usize) -> u32 {
        self.words.as_slice()[index].load(Ordering::Relaxed)
    }

    /// An entry; what was written before it was published is visible after it was read.
    #[inline]
    pub(crate) fn entry(&self, index: usize) -> Entry {
        Entry::from_word(self.words.as_slice()[index].load(Ordering::Acquire))
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

/// The writer's books on [`Words`]: what is free, what is waiting for readers to leave.
///
/// Blocks of one and two granules are cut from a line; larger ones are whole lines, so that no block straddles a
/// line it doesn't need. Free blocks are kept by size and cut when nothing else is left; they aren't joined.
#[derive(Debug)]
pub(crate) struct Allocator {
    next: u32,
    end: u32,
    free: [Vec<u32>; CLASSES],
    retired: VecDeque<(u32, u8)>,
    /// Blocks ever retired, and ever reclaimed: the positions of the two ends of `retired`.
    retired_total: u64,
    reclaimed_total: u64,
    live_granules: usize,
    retired_granules: usize,
}

/// Sizes in granules, ascending.
const SIZES: [u32; CLASSES] = [1, 2, 4, 8, 12, 16, 20, 24, LARGEST];
const CLASSES: usize = 9;

fn class_of(granules: u32) -> usize {
    SIZES.iter().position(|&size| size >= granules).unwrap_or(CLASSES - 1)
}

impl Allocator {
    pub(crate) fn new(words: &Words) -> Self {
        Self {
            next: (ROOTS / GRANULE_WORDS) as u32,
            end: words.all_granules(),
            free: Default::default(),
            retired: VecDeque::new(),
            retired_total: 0,
            reclaimed_total: 0,
            live_granules: 0,
            retired_granules: 0,
        }
    }

    /// Granules that can be had for certain, whatever the sizes asked for.
    pub(crate) fn room(&self) -> u32 {
        self.end - self.next + LARGEST * self.free[CLASSES - 1].len() as u32
    }

    /// A block of at least `granules`, or `None` when the table is full. Its words are what they were.
    pub(crate) fn allocate(&mut self, granules: u32) -> Option<u32> {
        let class = class_of(granules);
        let block = self.take(class)?;
        self.live_granules += SIZES[class] as usize;
        Some(block)
    }

    fn take(&mut self, class: usize) -> Option<u32> {
        let size = SIZES[class];
        if let Some(block) = self.free[class].pop() {
            return Some(block);
        }
        if size < LINE_GRANULES {
            let line = self.take(class_of(LINE_GRANULES))?;
            self.free[class].extend((line + size..line + LINE_GRANULES).step_by(size as usize).rev());
            return Some(line);
        }
        if self.end - self.next >= size {
            let block = self.next;
            self.next += size;
            return Some(block);
        }
        let larger = (class + 1..CLASSES).find(|&larger| !self.free[larger].is_empty())?;
        let block = self.free[larger].pop()?;
        self.cut(block + size, SIZES[larger] - size);
        Some(block)
    }

    /// Puts a rest of whole lines into the lists, largest pieces first.
    fn cut(&mut self, mut block: u32, mut granules: u32) {
        for class in (0..CLASSES).rev().filter(|&class| SIZES[class] >= LINE_GRANULES) {
            while granules >= SIZES[class] {
                self.free[class].push(block);
                block += SIZES[class];
                granules -= SIZES[class];
            }
        }
    }

    /// Gives a block back: at once when no reader exists, after the grace period otherwise.
    pub(crate) fn release(&mut self, block: u32, granules: u32, readers: bool) {
        let class = class_of(granules);
        self.live_granules -= SIZES[class] as usize;
        if readers {
            self.retired.push_back((block, class as u8));
            self.retired_total += 1;
            self.retired_granules += SIZES[class] as usize;
        } else {
            self.free[class].push(block);
        }
    }

    /// Position up to which everything retired so far lies.
    pub(crate) fn mark(&self) -> u64 {
        self.retired_total
    }

    /// Makes what was retired before `mark` usable again; returns the number of blocks.
    pub(crate) fn reclaim(&mut self, mark: u64) -> usize {
        let mut blocks = 0;
        while self.reclaimed_total < mark
            && let Some((block, class)) = self.retired.pop_front()
        {
            self.free[usize::from(class)].push(block);
            self.retired_granules -= SIZES[usize::from(class)] as usize;
            self.reclaimed_total += 1;
            blocks += 1;
        }
        blocks
    }

    /// Bytes of blocks in use, of retired blocks, and of all memory touched so far (root included).
    pub(crate) fn bytes(&self) -> (usize, usize, usize) {
        let granule = GRANULE_WORDS * 4;
        (self.live_granules * granule, self.retired_granules * granule, self.next as usize * granule)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_do_not_overlap_and_come_back_after_the_mark() {
        let words = Words::reserve(ROOTS * 4 + 64 * 1024).unwrap();
        let mut allocator = Allocator::new(&words);
        let mut taken = std::collections::BTreeMap::new();
        for round in 0.. {
            let size = [1, 2, 4, 11, 24, 64, 1, 6][round % 8];
            let Some(block) = allocator.allocate(size) else { break };
            assert!(block as usize * GRANULE_WORDS >= ROOTS);
            assert!(taken.insert(block, SIZES[class_of(size)]).is_none());
            if size >= LINE_GRANULES {
                assert_eq!(block % LINE_GRANULES, 0, "whole lines");
            }
        }
        let ends = taken.iter().map(|(block, size)| block + size);
        assert!(ends.zip(taken.keys().skip(1)).all(|(end, next)| end <= *next));
        let (live, ..) = allocator.bytes();
        assert!(live > 48 * 1024, "most of the range could be used: {live}");

        for (&block, &size) in &taken {
            allocator.release(block, size, true);
        }
        assert_eq!(allocator.allocate(64), None, "retired blocks are not reused");
        let mark = allocator.mark();
        assert_eq!(allocator.reclaim(mark), taken.len());
        assert!(allocator.allocate(64).is_some());
        assert_eq!(allocator.bytes().1, 0);
    }
}
