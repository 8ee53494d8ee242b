//! The side of the table that workers see.

use std::sync::Arc;

use super::address::Address;
use super::entry::ID_MASK;
use super::walk::BATCH;
use super::words::Words;

/// Index of a next hop in the table the owner keeps; the FIB only stores it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NextHopId(pub u32);

impl NextHopId {
    /// What a lookup gives where no prefix matches.
    pub const NO_ROUTE: Self = Self(0);
    /// The greatest id the table can hold, 2^23 − 1.
    pub const MAX: Self = Self(ID_MASK);
}

/// A routing table as a worker sees it. Clones are the same table; what its [`FibWriter`](super::FibWriter) changes
/// is visible at once.
///
/// Blocks are used anew after the grace periods that the writer's owner keeps. A worker that announces a quiescent
/// state in the middle of a call breaks them: it may get any id, or panic on an index that makes no sense.
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
        self.words.view().leaf(addr).id()
    }

    /// [`lookup`](Self::lookup) of many: `out[i]` becomes the raw id for `addrs[i]`. Where the slices differ in
    /// length the shorter one counts.
    ///
    /// The addresses of a vector go down the table together, so that their cache misses overlap: much faster than
    /// one by one as soon as the table isn't small. Where it is larger than a core's cache, `prefetch` is told each line some time
    /// before it is read.
    #[inline(always)]
    pub fn lookup_batch(&self, addrs: &[A], out: &mut [u32], prefetch: impl Fn(*const u8)) {
        let view = self.words.view();
        for (addrs, out) in addrs.chunks(BATCH).zip(out.chunks_mut(BATCH)) {
            let count = addrs.len().min(out.len());
            view.ids(&addrs[..count], &mut out[..count], &prefetch);
        }
    }
}
