//! Comparing and changing a row of 16-bit numbers at once, for the x86-64 tiers.
//!
//! Written with intrinsics, not as loops: compilers that see other accesses to some of the numbers nearby take the row to
//! pieces and spend more on putting it together again than the comparison takes.
#![cfg(target_arch = "x86_64")]

use super::Row;
use core::arch::x86_64::*;

#[target_feature(enable = "avx2")]
#[inline]
fn load(row: &Row) -> __m256i {
    // SAFETY: the reference is readable for all of its 32 bytes; the load needs no alignment.
    unsafe { _mm256_loadu_si256(core::ptr::from_ref(row).cast()) }
}

/// See [`Simd::within`](super::Simd::within).
#[target_feature(enable = "avx2")]
#[inline]
pub(super) fn within(row: &Row, look: &Row, low: &Row, span: &Row) -> bool {
    let above = _mm256_sub_epi16(_mm256_and_si256(load(row), load(look)), load(low));
    let beyond = _mm256_subs_epu16(above, load(span));
    _mm256_testz_si256(beyond, beyond) != 0
}

/// See [`Simd::patch`](super::Simd::patch).
#[target_feature(enable = "avx2")]
#[inline]
pub(super) fn patch(row: &mut Row, keep: &Row, set: &Row) {
    let new = _mm256_or_si256(_mm256_and_si256(load(row), load(keep)), load(set));
    // SAFETY: the reference is writable for all of its 32 bytes; the store needs no alignment.
    unsafe { _mm256_storeu_si256(core::ptr::from_mut(row).cast(), new) }
}
