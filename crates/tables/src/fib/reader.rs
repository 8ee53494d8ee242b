//! The side of the table that workers see.

use std::sync::Arc;

use super::address::Address;
use super::arena::Words;
use super::edit::ROOT_DEPTH;
use super::entry::{Entry, ID_MASK};

/// Index of a next hop in the table the owner keeps; the FIB only stores it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NextHopId(pub u32);

impl NextHopId {
    /// What a lookup gives where no prefix matches.
    pub const NO_ROUTE: Self = Self(0);
    /// The greatest id the table can hold, 2^23 − 1.
    pub const MAX: Self = Self(ID_MASK);
}

/// Most addresses looked up in one go; longer slices are cut.
const BATCH: usize = 256;

/// A routing table as a worker sees it. Clones are the same table; what its [`FibWriter`](super::FibWriter) changes
/// is visible at once.
///
/// Blocks are reclaimed by the grace periods of the writer's owner: results of a lookup that spans a quiescent
/// state would be arbitrary (never unsafe), so don't announce one in the middle of a call.
#[derive(Clone, Debug)]
pub struct Fib<A> {
    words: Arc<Words>,
    address: std::marker::PhantomData<A>,
}

impl<A: Address> Fib<A> {
    pub(super) fn new(words: Arc<Words>) -> Self {
        Self { words, address: std::marker::PhantomData }
    }

    /// The id of the longest prefix that contains `addr` (host byte order), or [`NextHopId::NO_ROUTE`].
    #[inline]
    #[must_use]
    pub fn lookup(&self, addr: A) -> NextHopId {
        let mut entry = self.words.entry(addr.root());
        let mut depth = ROOT_DEPTH;
        while entry.is_node() {
            (entry, depth) = self.words.step(entry, addr, depth);
        }
        entry.id()
    }

    /// [`lookup`](Self::lookup) of many: `out[i]` becomes the raw id for `addrs[i]`. Where the slices differ in
    /// length the shorter one counts.
    ///
    /// All addresses take a step before the first takes its second one. The loads of a step don't depend on each
    /// other, so the processor has many cache misses under way at a time; addresses that have their result drop
    /// out, and there are as many steps as the deepest of them needs.
    #[inline]
    pub fn lookup_batch(&self, addrs: &[A], out: &mut [u32]) {
        for (addrs, out) in addrs.chunks(BATCH).zip(out.chunks_mut(BATCH)) {
            self.lookup_chunk(addrs, out);
        }
    }

    #[inline(always)]
    fn lookup_chunk(&self, addrs: &[A], out: &mut [u32]) {
        // `open` lists the addresses without a result. Writing each index and moving on only past those that stay
        // open costs no branch that depends on the addresses.
        let mut open = [0u8; BATCH];
        let mut depths = [ROOT_DEPTH as u8; BATCH];
        let mut count = 0;
        for (index, (addr, out)) in addrs.iter().zip(out.iter_mut()).enumerate() {
            let entry = self.words.entry(addr.root());
            *out = entry.word();
            open[count & (BATCH - 1)] = index as u8;
            count += usize::from(entry.is_node());
        }
        while count > 0 {
            let mut still = 0;
            for at in 0..count {
                let index = open[at & (BATCH - 1)];
                let (Some(addr), Some(out)) =
                    (addrs.get(usize::from(index)), out.get_mut(usize::from(index)))
                else {
                    continue;
                };
                let depth = &mut depths[usize::from(index)];
                let (entry, next) = self.words.step(Entry::from_word(*out), *addr, u32::from(*depth));
                *depth = next as u8;
                *out = entry.word();
                open[still & (BATCH - 1)] = index;
                still += usize::from(entry.is_node());
            }
            count = still;
        }
        out.iter_mut().for_each(|out| *out &= ID_MASK);
    }
}
