//! When it goes wrong.

/// A sequence of numbers that look random (xorshift64*, Vigna 2016).
#[derive(Debug)]
pub(super) struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32
    }

    /// A number below `end`; 0 where there is none.
    pub fn below(&mut self, end: u32) -> u32 {
        (self.next() % u64::from(end.max(1))) as u32
    }

    /// True so often of a hundred times.
    pub fn percent(&mut self, percent: u8) -> bool {
        percent > 0 && self.below(100) < percent.into()
    }
}
