//! Comparing and changing a row of 16-bit numbers at once, for the x86-64 tiers.
//!
//! Written with intrinsics, not as loops: compilers that see other accesses to some of the numbers nearby take the row to
//! pieces and spend more on putting it together again than the comparison takes.
#![cfg(target_arch = "x86_64")]

use super::{Line, Row};
use core::arch::x86_64::*;
#[cfg(not(miri))]
use core::{arch::asm, sync::atomic::AtomicU64};

#[target_feature(enable = "avx2")]
#[inline]
fn load(row: &Row) -> __m256i {
    // SAFETY: the reference is readable for all of its 32 bytes; the load needs no alignment.
    unsafe { _mm256_loadu_si256(core::ptr::from_ref(row).cast()) }
}

/// See [`Simd::line_within`](super::Simd::line_within).
#[target_feature(enable = "avx2")]
#[inline]
pub(super) fn line_within_avx2(line: &Line, look: &Line, low: &Line, span: &Line) -> bool {
    let half = |numbers: &Line, at: usize| {
        // SAFETY: `at` is 0 or 8: 32 of the 64 bytes of the reference; the load needs no alignment.
        unsafe { _mm256_loadu_si256(core::ptr::from_ref(numbers).cast::<u32>().add(at).cast()) }
    };
    let fits = |at| {
        let above = _mm256_sub_epi32(_mm256_and_si256(half(line, at), half(look, at)), half(low, at));
        _mm256_cmpeq_epi32(_mm256_min_epu32(above, half(span, at)), above)
    };
    _mm256_movemask_epi8(_mm256_and_si256(fits(0), fits(8))) == -1
}

/// See [`Simd::line_within`](super::Simd::line_within).
#[target_feature(enable = "avx512f")]
#[inline]
pub(super) fn line_within_avx512(line: &Line, look: &Line, low: &Line, span: &Line) -> bool {
    let load = |numbers: &Line| {
        // SAFETY: the reference is readable for all of its 64 bytes; the load needs no alignment.
        unsafe { _mm512_loadu_si512(core::ptr::from_ref(numbers).cast()) }
    };
    let above = _mm512_sub_epi32(_mm512_and_si512(load(line), load(look)), load(low));
    _mm512_cmpgt_epu32_mask(above, load(span)) == 0
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

/// See [`Simd::equal`](super::Simd::equal). By the instruction and not by its intrinsic: for Rust a load of words that others write is
/// undefined unless it is an atomic one, and there is none of that width.
#[cfg(not(miri))]
#[target_feature(enable = "avx2")]
#[inline]
pub(super) fn equal_avx2(words: &[AtomicU64; 4], word: u64) -> u8 {
    let mut equal = _mm256_set1_epi64x(word as i64);
    // SAFETY: it reads the 32 bytes of the reference, which needs no alignment; words of 8 aligned bytes are read whole by every CPU that
    // has AVX2.
    unsafe {
        asm!(
            "vpcmpeqq {equal}, {equal}, [{words}]",
            equal = inout(ymm_reg) equal,
            words = in(reg) words.as_ptr(),
            options(pure, readonly, nostack, preserves_flags),
        );
    }
    _mm256_movemask_pd(_mm256_castsi256_pd(equal)) as u8
}

/// See [`equal_avx2`].
#[cfg(not(miri))]
#[target_feature(enable = "avx512f,avx512vl")]
#[inline]
pub(super) fn equal_avx512(words: &[AtomicU64; 4], word: u64) -> u8 {
    let equal: u8;
    // SAFETY: as with AVX2.
    unsafe {
        asm!(
            "vpcmpeqq {equal}, {word}, [{words}]",
            equal = out(kreg) equal,
            word = in(ymm_reg) _mm256_set1_epi64x(word as i64),
            words = in(reg) words.as_ptr(),
            options(pure, readonly, nostack, preserves_flags),
        );
    }
    equal
}

/// See [`Simd::store_firsts`](super::Simd::store_firsts), and [`equal_avx2`] for why by the instruction. One store instead of four: what a
/// core can have on its way to lines that another has is so many stores.
#[cfg(not(miri))]
#[target_feature(enable = "avx512f")]
#[inline]
pub(super) fn store_firsts_avx512(pairs: &[[AtomicU64; 2]; 4], word: u64) {
    // SAFETY: it writes words of the reference alone, which are atomic ones and may be written through it. Each of them has 8 aligned bytes,
    // so none lies across cache lines, and those are stored whole (Intel SDM volume 3, section 9.1.1; AMD APM volume 2, section 7.3.2: aligned quadwords).
    unsafe {
        asm!(
            "vmovdqu64 zmmword ptr [{pairs}]{{{firsts}}}, {word}",
            firsts = in(kreg) 0x55_u8,
            word = in(zmm_reg) _mm512_set1_epi64(word as i64),
            pairs = in(reg) pairs.as_ptr(),
            options(nostack, preserves_flags),
        );
    }
}
