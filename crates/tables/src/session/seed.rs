//! The keyed hash.

use super::Key;
use core::hash::BuildHasher;

/// The secret that a table's hash is keyed with. Without it nobody can choose flows that fall into the same bucket.
///
/// Multiplications 64 × 64 → 128 whose halves are xored (as wyhash and foldhash do), each operand hidden by a secret word.
/// A hash of 32 bits: the lower ones say which bucket, the upper 16 are the tag in it.
#[derive(Clone, Copy)]
pub struct Seed([u64; 4]);

impl Default for Seed {
    fn default() -> Self {
        Self::random()
    }
}

impl core::fmt::Debug for Seed {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Seed")
    }
}

#[inline(always)]
const fn fold(a: u64, b: u64) -> u64 {
    let product = a as u128 * b as u128;
    product as u64 ^ (product >> 64) as u64
}

impl Seed {
    /// A secret that the system's random numbers are behind.
    #[must_use]
    pub fn random() -> Self {
        let source = std::collections::hash_map::RandomState::new();
        Self(core::array::from_fn(|at| source.hash_one(at)))
    }

    /// A known one, for tests that shall be the same every time.
    #[must_use]
    pub const fn known(words: [u64; 4]) -> Self {
        Self(words)
    }

    /// Hash of a key.
    #[inline(always)]
    #[must_use]
    pub const fn hash(&self, key: &Key) -> u32 {
        let wide = self.wide(key);
        (wide ^ wide >> 32) as u32
    }

    /// Hash of a key, where 32 bits are too few.
    #[inline(always)]
    #[must_use]
    pub const fn wide(&self, key: &Key) -> u64 {
        let s = &self.0;
        let (a, rest) = key.words();
        let mixed = if key.is_v4() {
            fold(a[0] ^ s[0], rest ^ s[1])
        } else {
            let low = fold(a[0] ^ s[0], a[1] ^ s[1]);
            let high = fold(a[2] ^ s[2], a[3] ^ s[3]);
            fold(low ^ rest ^ s[2], high ^ s[1])
        };
        fold(mixed ^ s[3], s[2] | 1)
    }
}
