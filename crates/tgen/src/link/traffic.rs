//! Who makes packets, and who takes frames. A kind of traffic brings these two; links know no more of it. All methods are
//! inlined into the links' loops.

use super::{Target, View};
use memif::Lines;

/// Makes packets.
pub trait Packets {
    /// Makes sure that there are packets; gives how many are there, at least 1 unless there are no more at all.
    fn prepare(&mut self) -> usize;

    /// Bytes of the packet of this number, counted from the first that is there.
    fn len(&self, packet: usize) -> u32;

    /// Writes a packet. `rest`: also what is the same in all packets of its length. `stamp`: gives its timestamp, if it has
    /// one, in ticks of the cycle counter.
    fn write<T: Target>(&self, packet: usize, into: T, rest: bool, stamp: impl Fn() -> u64);

    /// The packets that are there, from the first on, if a line is all that [`write`](Self::write) would write of each.
    #[inline(always)]
    fn lines(&self, rest: bool) -> Option<Lines<'_>> {
        let _ = rest;
        None
    }

    /// The first `n` have been sent.
    fn sent(&mut self, n: usize);
}

/// Takes frames.
pub trait Receiver {
    /// A frame. Its bytes may change until they were copied.
    fn frame<V: View>(&mut self, frame: V);
}
