//! Four descriptors at a time: what most packets of a vector need is the same, so that a cache line of descriptors is
//! read once, checked as a whole, and only the offsets are looked at one by one.
//!
//! A line with anything out of the ordinary in it (a chain, another region, an odd length, an offset beyond the region)
//! is left to the general loop, descriptor by descriptor, which also finds out what is wrong.

use memory::simd::{Row, Simd};

use super::{Descriptor, Descriptors, FLAG_NEXT};

/// Descriptors in a cache line.
pub(super) const QUAD: usize = 4;
/// 16-bit words of a descriptor, and where its fields are among them.
const WORDS: usize = 8;
const FLAGS: usize = 0;
const REGION: usize = 1;
const LENGTH: usize = 2;
const OFFSET: usize = 4;

/// What the four must have in common.
#[derive(Debug, Clone, Copy)]
pub(super) struct Usual {
    region: u16,
    look: Row,
    low: Row,
    span: Row,
}

impl Usual {
    /// All in region `region`, of `least` to `most` bytes, and, unless `any_flags`, the last of their packets.
    #[inline(never)]
    pub fn new(region: u16, least: u16, most: u16, any_flags: bool) -> Self {
        let (mut look, mut low, mut span) = ([0; 16], [0; 16], [0; 16]);
        for at in [0, WORDS] {
            look[at + FLAGS] = if any_flags { 0 } else { FLAG_NEXT };
            look[at + REGION] = u16::MAX;
            low[at + REGION] = region;
            look[at + LENGTH] = u16::MAX;
            low[at + LENGTH] = least;
            span[at + LENGTH] = most.saturating_sub(least);
            // The upper half of the length is 0.
            look[at + LENGTH + 1] = u16::MAX;
        }
        Self { region, look, low, span }
    }

    /// The region.
    #[inline(always)]
    pub const fn region(&self) -> u16 {
        self.region
    }
}

/// A line of descriptors, read once.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Quad([Row; 2]);

impl Quad {
    /// Reads the line that begins with the slot of index `first`.
    #[inline(always)]
    pub fn read(simd: impl Simd, ring: Descriptors<'_>, first: u16) -> Self {
        let mut quad = Self([[0; 16]; 2]);
        ring.copy_line(simd, first, &mut quad.0);
        quad
    }

    /// Whether the four are as they should be; their offsets aren't looked at.
    #[inline(always)]
    pub fn is(&self, simd: impl Simd, usual: &Usual) -> bool {
        let [first, second] = &self.0;
        simd.within(first, &usual.look, &usual.low, &usual.span)
            && simd.within(second, &usual.look, &usual.low, &usual.span)
    }

    /// The four, which are [as they should be](Self::is).
    #[inline(always)]
    pub fn descriptors(&self, usual: &Usual) -> [Descriptor; QUAD] {
        std::array::from_fn(|at| {
            let words = &self.0[at / 2][at % 2 * WORDS..][..WORDS];
            Descriptor {
                flags: 0,
                region: usual.region,
                length: words[LENGTH].into(),
                offset: u32::from(words[OFFSET]) | u32::from(words[OFFSET + 1]) << 16,
            }
        })
    }
}
