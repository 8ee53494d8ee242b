//! The size of a ring.

use std::fmt;

/// Number of descriptors of a ring: a power of two from 2^6 to 2^14.
///
/// Indices are free-running 16-bit numbers; 2^14 leaves room to tell every possible distance from an
/// impossible one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RingSize {
    log2: u8,
}

impl RingSize {
    /// 64 descriptors.
    pub const MIN: Self = Self { log2: 6 };
    /// 16384 descriptors.
    pub const MAX: Self = Self { log2: 14 };

    /// 2 descriptors: small enough for a model checker.
    #[cfg(all(test, loom))]
    pub(super) const TWO: Self = Self { log2: 1 };

    /// A ring of 2^`log2` descriptors; `None` unless 6 ≤ `log2` ≤ 14.
    #[must_use]
    pub const fn from_log2(log2: u8) -> Option<Self> {
        if log2 < Self::MIN.log2 || log2 > Self::MAX.log2 { None } else { Some(Self { log2 }) }
    }

    /// A ring of `descriptors`; `None` unless it is a power of two from 64 to 16384.
    #[must_use]
    pub const fn from_descriptors(descriptors: u32) -> Option<Self> {
        if descriptors.is_power_of_two() { Self::from_log2(descriptors.ilog2() as u8) } else { None }
    }

    /// The power of two.
    #[must_use]
    pub const fn log2(self) -> u8 {
        self.log2
    }

    /// Number of descriptors.
    #[inline(always)]
    #[must_use]
    pub const fn descriptors(self) -> u16 {
        1 << self.log2
    }
}

impl Default for RingSize {
    /// 1024, as everywhere.
    fn default() -> Self {
        Self { log2: 10 }
    }
}

impl fmt::Display for RingSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.descriptors().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_powers_of_two_in_range() {
        for (descriptors, valid) in [
            (0, false),
            (1, false),
            (32, false),
            (64, true),
            (65, false),
            (1000, false),
            (1024, true),
            (16384, true),
            (32768, false),
            (1 << 31, false),
        ] {
            let size = RingSize::from_descriptors(descriptors);
            assert_eq!(size.is_some(), valid, "{descriptors}");
            assert!(size.is_none_or(|s| u32::from(s.descriptors()) == descriptors));
        }
        assert!(RingSize::from_log2(255).is_none());
    }
}
