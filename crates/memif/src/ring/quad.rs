//! Four descriptors at a time: what most packets of a vector need is the same, so that a cache line of descriptors is
//! read once and checked as a whole, offsets and all.
//!
//! A line with anything out of the ordinary in it (a chain, another region, another length, an offset beyond the region)
//! is left to the general loop, descriptor by descriptor, which also finds out what is wrong.

use memory::region::Span;
use memory::simd::{Line, Simd};

use super::{Descriptors, FLAG_NEXT};

/// Descriptors in a cache line.
pub(super) const QUAD: usize = 4;
/// 32-bit words of a descriptor, and where its fields are among them.
const WORDS: usize = 4;
const FLAGS_AND_REGION: usize = 0;
const LENGTH: usize = 1;
const OFFSET: usize = 2;
const METADATA: usize = 3;

/// What the four must have in common.
#[derive(Debug, Clone, Copy)]
pub(super) struct Usual {
    look: Line,
    low: Line,
    span: Line,
}

impl Usual {
    /// Packets in one piece of exactly `length` bytes, at offsets of `region` up to `last`.
    #[inline(never)]
    pub fn packets(region: u16, length: u32, last: u32) -> Self {
        Self::new(region, FLAG_NEXT, length..=length, last)
    }

    /// Empty buffers of `least` bytes or more, at offsets of `region` up to `last`.
    #[inline(never)]
    pub fn buffers(region: u16, least: u32, last: u32) -> Self {
        Self::new(region, 0, least..=u32::MAX, last)
    }

    /// `flags`: those that must not be set.
    fn new(region: u16, flags: u16, lengths: std::ops::RangeInclusive<u32>, last: u32) -> Self {
        let (mut look, mut low, mut span) = ([u32::MAX; 16], [0; 16], [0; 16]);
        for at in (0..16).step_by(WORDS) {
            look[at + FLAGS_AND_REGION] = u32::from(u16::MAX) << 16 | u32::from(flags);
            low[at + FLAGS_AND_REGION] = u32::from(region) << 16;
            low[at + LENGTH] = *lengths.start();
            span[at + LENGTH] = lengths.end() - lengths.start();
            span[at + OFFSET] = last;
            span[at + METADATA] = u32::MAX;
        }
        Self { look, low, span }
    }
}

/// A line of descriptors, read once.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Quad(Line);

impl Quad {
    /// Reads, once, the line that begins with the slot of index `first`.
    #[inline(always)]
    pub fn read(simd: impl Simd, ring: Descriptors<'_>, first: u16) -> Self {
        Self(ring.read_line(simd, first))
    }

    /// Whether the four are as they should be.
    #[inline(always)]
    pub fn is(&self, simd: impl Simd, usual: &Usual) -> bool {
        simd.line_within(&self.0, &usual.look, &usual.low, &usual.span)
    }

    /// Where they point to, in the region of [`Usual`].
    #[inline(always)]
    pub fn addresses(&self, span: Span<'_>) -> [*mut u8; QUAD] {
        std::array::from_fn(|at| span.address(self.0[at * WORDS + OFFSET]))
    }
}
