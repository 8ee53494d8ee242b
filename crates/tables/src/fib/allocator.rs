//! The writer's books on the words of a trie: what is free, and what waits for readers to leave.

use std::collections::VecDeque;

use super::words::{GRANULE_WORDS, ROOTS, Words};

/// Granules of a chunk: 4 KiB, a page.
const CHUNK: u32 = 256;
/// Block sizes in granules, ascending: `Tiny`, `Fold`, `Ranked` of one to six cache lines, `Direct`.
const SIZES: [u32; CLASSES] = [1, 2, 4, 8, 12, 16, 20, 24, 64];
const CLASSES: usize = 9;
/// Chunks that hold the root.
const ROOT_CHUNKS: u32 = (ROOTS / GRANULE_WORDS) as u32 / CHUNK;

/// Hands out blocks from chunks of one size each. A chunk whose blocks are all free serves any size again: so a
/// table whose nodes grow, shrink and go doesn't splinter. Blocks start at multiples of their size, cache lines
/// and more of them on line boundaries.
#[derive(Debug)]
pub(crate) struct Allocator {
    /// Chunks that were ever in use.
    chunks: Vec<Chunk>,
    /// Chunks the reserved range holds beside the root.
    most: u32,
    /// Chunks all of whose blocks are free.
    empty: Vec<u32>,
    /// Per size, chunks with blocks in use and free ones.
    partial: [Vec<u32>; CLASSES],
    retired: VecDeque<u32>,
    /// Blocks ever retired and ever reclaimed: the positions of the two ends of `retired`.
    retired_total: u64,
    reclaimed_total: u64,
    live_granules: usize,
    retired_granules: usize,
}

#[derive(Debug)]
struct Chunk {
    /// A bit per free block.
    free: [u64; 4],
    free_count: u16,
    class: u8,
    /// Its place in `partial`.
    place: u32,
}

impl Chunk {
    fn size(&self) -> u32 {
        SIZES[usize::from(self.class)]
    }

    fn blocks(&self) -> u16 {
        (CHUNK / self.size()) as u16
    }

    /// Makes all blocks free, of the size of `class`.
    fn divide(&mut self, class: usize) {
        self.class = class as u8;
        self.free_count = self.blocks();
        let blocks = usize::from(self.free_count);
        for (word, free) in self.free.iter_mut().enumerate() {
            let here = blocks.saturating_sub(64 * word).min(64) as u32;
            *free = u64::MAX.checked_shr(64 - here).unwrap_or(0);
        }
    }

    fn take(&mut self) -> Option<u32> {
        let word = self.free.iter().position(|&free| free != 0)?;
        let bit = self.free[word].trailing_zeros();
        self.free[word] &= self.free[word] - 1;
        self.free_count -= 1;
        Some((word as u32 * 64 + bit) * self.size())
    }

    fn put(&mut self, offset: u32) {
        let block = offset / self.size();
        self.free[block as usize / 64] |= 1 << (block % 64);
        self.free_count += 1;
    }
}

impl Allocator {
    pub(crate) fn new(words: &Words) -> Self {
        Self {
            chunks: Vec::new(),
            most: words.granules() / CHUNK - ROOT_CHUNKS,
            empty: Vec::new(),
            partial: Default::default(),
            retired: VecDeque::new(),
            retired_total: 0,
            reclaimed_total: 0,
            live_granules: 0,
            retired_granules: 0,
        }
    }

    /// Chunks that can be had for whatever size.
    pub(crate) fn room(&self) -> u32 {
        self.most - self.chunks.len() as u32 + self.empty.len() as u32
    }

    /// Chunks that are enough for any `blocks` blocks, whatever their sizes: each size may begin one, and no size
    /// has fewer than four blocks to a chunk.
    pub(crate) const fn chunks_for(blocks: u32) -> u32 {
        CLASSES as u32 + blocks.div_ceil(4)
    }

    /// A block of at least `granules`, or `None` when the table is full. Its words are what they were.
    pub(crate) fn allocate(&mut self, granules: u32) -> Option<u32> {
        let class = SIZES.iter().position(|&size| size >= granules)?;
        let index = match self.partial[class].last() {
            Some(&index) => index,
            None => self.begin_chunk(class)?,
        };
        let chunk = &mut self.chunks[index as usize];
        let offset = chunk.take()?;
        if chunk.free_count == 0 {
            self.unlist(index);
        }
        self.live_granules += SIZES[class] as usize;
        Some((ROOT_CHUNKS + index) * CHUNK + offset)
    }

    fn begin_chunk(&mut self, class: usize) -> Option<u32> {
        let index = match self.empty.pop() {
            Some(index) => index,
            None if (self.chunks.len() as u32) < self.most => {
                self.chunks.push(Chunk { free: [0; 4], free_count: 0, class: 0, place: 0 });
                self.chunks.len() as u32 - 1
            }
            None => return None,
        };
        self.chunks[index as usize].divide(class);
        self.list(index);
        Some(index)
    }

    fn list(&mut self, index: u32) {
        let chunk = &mut self.chunks[index as usize];
        let list = &mut self.partial[usize::from(chunk.class)];
        chunk.place = list.len() as u32;
        list.push(index);
    }

    fn unlist(&mut self, index: u32) {
        let Chunk { class, place, .. } = self.chunks[index as usize];
        let list = &mut self.partial[usize::from(class)];
        list.swap_remove(place as usize);
        if let Some(&moved) = list.get(place as usize) {
            self.chunks[moved as usize].place = place;
        }
    }

    /// Gives a block back: at once when no reader exists, after the grace period otherwise.
    pub(crate) fn release(&mut self, block: u32, readers: bool) {
        let size = self.chunks[(block / CHUNK - ROOT_CHUNKS) as usize].size() as usize;
        self.live_granules -= size;
        if readers {
            self.retired.push_back(block);
            self.retired_total += 1;
            self.retired_granules += size;
        } else {
            self.free(block);
        }
    }

    fn free(&mut self, block: u32) {
        let index = block / CHUNK - ROOT_CHUNKS;
        let chunk = &mut self.chunks[index as usize];
        chunk.put(block % CHUNK);
        let (count, all) = (chunk.free_count, chunk.blocks());
        if count == 1 && count < all {
            self.list(index);
        } else if count == all {
            self.unlist(index);
            self.empty.push(index);
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
            && let Some(block) = self.retired.pop_front()
        {
            self.retired_granules -= self.chunks[(block / CHUNK - ROOT_CHUNKS) as usize].size() as usize;
            self.free(block);
            self.reclaimed_total += 1;
            blocks += 1;
        }
        blocks
    }

    /// Bytes of blocks in use, of retired blocks, and of all memory touched so far: root, chunks and these books.
    pub(crate) fn bytes(&self) -> (usize, usize, usize) {
        let granule = GRANULE_WORDS * 4;
        let chunks = ROOT_CHUNKS as usize + self.chunks.len();
        let books = self.chunks.capacity() * size_of::<Chunk>() + self.retired.capacity() * 4;
        (
            self.live_granules * granule,
            self.retired_granules * granule,
            chunks * CHUNK as usize * granule + books,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn blocks_do_not_overlap_and_come_back_after_the_mark() {
        let words = Words::reserve(ROOTS * 4 + 512 * 1024).unwrap();
        let mut allocator = Allocator::new(&words);
        let all = allocator.room();
        for round in 0..3 {
            let mut taken = BTreeMap::new();
            for at in 0.. {
                let wanted = [1, 2, 4, 11, 24, 64, 1, 6, 17, 14][at % 10];
                let Some(block) = allocator.allocate(wanted) else { break };
                let size = SIZES.into_iter().find(|&size| size >= wanted).unwrap();
                assert!(block as usize * GRANULE_WORDS >= ROOTS && block + size <= words.granules());
                assert_eq!(
                    block % size.min(4),
                    0,
                    "small blocks don't straddle a line, large ones begin one"
                );
                assert!(taken.insert(block, size).is_none());
            }
            let ends = taken.iter().map(|(block, size)| block + size);
            assert!(ends.zip(taken.keys().skip(1)).all(|(end, next)| end <= *next));
            assert!(allocator.bytes().0 > 400 * 1024, "nearly all of the range could be used");

            // Every size once at a time: what one gave back serves the others.
            taken.keys().for_each(|&block| allocator.release(block, round > 0));
            if round > 0 {
                assert_eq!(allocator.room(), 0, "retired blocks are not reused");
                let mark = allocator.mark();
                assert_eq!(allocator.reclaim(mark), taken.len());
            }
            assert_eq!((allocator.room(), allocator.bytes().0, allocator.bytes().1), (all, 0, 0));
        }
    }

    #[test]
    fn the_room_for_blocks_of_all_sizes_is_enough() {
        let words = Words::reserve(0).unwrap();
        for step in 1..CLASSES {
            let mut allocator = Allocator::new(&words);
            while allocator.room() > Allocator::chunks_for(40) {
                allocator.allocate(64).unwrap();
            }
            let granted = (0..40).filter_map(|at| allocator.allocate(SIZES[at * step % CLASSES])).count();
            assert_eq!(granted, 40);
        }
    }
}
