//! The addresses of a vector, each of those behind each other once.

use graph::engine::MAX_VECTOR;
use graph::prefetch_read;
use graph::simd::Simd;
use std::sync::atomic::AtomicU64;
use tables::mac::{Hardware, MacKey, MacTable, NO_INTERFACE};

/// Numbers keys from 0 on, those behind each other that are equal with one number. Without a branch: in a vector of few stations it
/// couldn't be foreseen.
#[derive(Clone, Copy)]
pub(super) struct Numbers {
    count: usize,
    last: MacKey,
}

impl Numbers {
    pub(super) const fn new() -> Self {
        // No station's, so that the first key is a new one.
        Self { count: 0, last: MacKey::ALL }
    }

    #[inline(always)]
    pub(super) fn number(&mut self, key: MacKey) -> usize {
        self.count += usize::from(key != self.last);
        self.last = key;
        self.count.wrapping_sub(1) % MAX_VECTOR
    }

    /// The next key is a new one, even if it is the same.
    pub(super) fn renew(&mut self) {
        self.last = MacKey::ALL;
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }
}

/// The destinations of a vector. Kept by the node, so that it needn't be cleared.
pub(super) struct Destinations {
    /// By number: what is looked up, and the interface that was found.
    keys: [MacKey; MAX_VECTOR],
    found: [u32; MAX_VECTOR],
    len: usize,
    /// By place in the vector.
    numbers: [u8; MAX_VECTOR],
}

impl Destinations {
    pub(super) const fn new() -> Self {
        Self {
            keys: [MacKey::NONE; MAX_VECTOR],
            found: [NO_INTERFACE; MAX_VECTOR],
            len: 0,
            numbers: [0; MAX_VECTOR],
        }
    }

    /// Notes that the packet at `place` is for `key`, whose number is the last one of `numbers`; [`MacKey::NONE`]: nothing is looked up.
    #[inline(always)]
    pub(super) fn note(&mut self, numbers: &mut Numbers, key: MacKey, place: usize) {
        let number = numbers.number(key);
        self.keys[number] = key;
        self.numbers[place % MAX_VECTOR] = number as u8;
    }

    /// Ends the list that was numbered by `numbers`.
    pub(super) fn end(&mut self, numbers: &Numbers) {
        self.len = numbers.count();
    }

    /// What is to be looked up, by number.
    #[inline(always)]
    pub(super) fn keys(&self) -> &[MacKey] {
        &self.keys[..self.len]
    }

    /// Looks all of them up; lines are asked for as with [`MacTable::lookup_batch`].
    #[inline(always)]
    pub(super) fn look_up(&mut self, macs: &MacTable, ahead: usize, hardware: impl Hardware) {
        macs.lookup_batch(&self.keys[..self.len], ahead, &mut self.found[..self.len], hardware);
    }

    /// Finds none of them.
    pub(super) fn find_none(&mut self) {
        self.found[..self.len].fill(NO_INTERFACE);
    }

    /// What was found for the packet at `place`: an interface or [`NO_INTERFACE`].
    #[inline(always)]
    pub(super) fn found(&self, place: usize) -> u32 {
        self.found[usize::from(self.numbers[place % MAX_VECTOR])]
    }
}

/// The machine, to the address table.
#[derive(Clone, Copy)]
pub(super) struct Machine<S>(pub(super) S);

impl<S: Simd> Hardware for Machine<S> {
    #[inline(always)]
    fn soon(self, line: *const u8) {
        prefetch_read(line);
    }

    #[inline(always)]
    fn equal(self, words: &[AtomicU64; 4], word: u64) -> u8 {
        self.0.equal(words, word)
    }
}
