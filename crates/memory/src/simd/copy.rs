//! Copy loops for the x86-64 tiers.
//!
//! Bodies are a few lines to a few KiB: unrolled vector moves are as fast as `rep movsb`, whose start costs about a short
//! packet, and twice as fast as moves past the cache (docs/performance-notes.md). Each loop takes the tail with one
//! overlapping or masked move, so no byte outside is touched.
#![cfg(target_arch = "x86_64")]

use super::Line;
use core::arch::x86_64::*;

/// # Safety
/// As [`Simd::copy`](super::Simd::copy), and the CPU has AVX-512 F, BW and BMI2.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,bmi2")]
#[inline]
pub(super) unsafe fn avx512(dst: *mut u8, src: *const u8, len: usize) {
    let mut at = 0;
    // SAFETY: every move stays inside `len` bytes of both ranges: whole blocks while they fit, then one masked
    // move of exactly the bytes that are left.
    unsafe {
        while at + 256 <= len {
            let a = _mm512_loadu_si512(src.add(at).cast());
            let b = _mm512_loadu_si512(src.add(at + 64).cast());
            let c = _mm512_loadu_si512(src.add(at + 128).cast());
            let d = _mm512_loadu_si512(src.add(at + 192).cast());
            _mm512_storeu_si512(dst.add(at).cast(), a);
            _mm512_storeu_si512(dst.add(at + 64).cast(), b);
            _mm512_storeu_si512(dst.add(at + 128).cast(), c);
            _mm512_storeu_si512(dst.add(at + 192).cast(), d);
            at += 256;
        }
        while at + 64 <= len {
            _mm512_storeu_si512(dst.add(at).cast(), _mm512_loadu_si512(src.add(at).cast()));
            at += 64;
        }
        if at < len {
            let mask = _bzhi_u64(u64::MAX, (len - at) as u32);
            _mm512_mask_storeu_epi8(
                dst.add(at).cast(),
                mask,
                _mm512_maskz_loadu_epi8(mask, src.add(at).cast()),
            );
        }
    }
}

/// # Safety
/// As [`Simd::copy_line`](super::Simd::copy_line), and the CPU has AVX-512 F.
#[target_feature(enable = "avx512f")]
#[inline]
pub(super) unsafe fn line_avx512(dst: *mut u8, src: *const u8) {
    // SAFETY: 64 bytes on both sides, as the caller promises.
    unsafe { _mm512_storeu_si512(dst.cast(), _mm512_loadu_si512(src.cast())) }
}

/// # Safety
/// As [`Simd::read_line`](super::Simd::read_line), and the CPU has AVX-512 F.
#[target_feature(enable = "avx512f")]
#[inline]
pub(super) unsafe fn read_line_avx512(src: *const Line) -> Line {
    let mut line = [0; 16];
    // SAFETY: 64 aligned bytes to read, as the caller promises, and a line to write.
    unsafe { _mm512_storeu_si512(line.as_mut_ptr().cast(), src.cast::<__m512i>().read_volatile()) };
    line
}

/// # Safety
/// As [`Simd::read_line`](super::Simd::read_line), and the CPU has AVX2.
#[target_feature(enable = "avx2")]
#[inline]
pub(super) unsafe fn read_line_avx2(src: *const Line) -> Line {
    let mut line = [0; 16];
    // SAFETY: twice 32 aligned bytes to read, as the caller promises, and as many to write.
    unsafe {
        let (a, b) = (src.cast::<__m256i>().read_volatile(), src.cast::<__m256i>().add(1).read_volatile());
        _mm256_storeu_si256(line.as_mut_ptr().cast(), a);
        _mm256_storeu_si256(line.as_mut_ptr().add(8).cast(), b);
    }
    line
}

/// # Safety
/// As [`Simd::copy_front`](super::Simd::copy_front), and the CPU has AVX-512 F, BW and BMI2.
#[target_feature(enable = "avx512f,avx512bw,bmi2")]
#[inline]
pub(super) unsafe fn front_avx512(dst: *mut u8, src: *const u8, len: usize) {
    let mask = _bzhi_u64(u64::MAX, len as u32);
    // SAFETY: 64 bytes to read, and `len` to write, as the caller promises.
    unsafe { _mm512_mask_storeu_epi8(dst.cast(), mask, _mm512_loadu_si512(src.cast())) }
}

/// # Safety
/// As [`Simd::copy`](super::Simd::copy), and the CPU has AVX2.
#[target_feature(enable = "avx2")]
#[inline]
pub(super) unsafe fn avx2(dst: *mut u8, src: *const u8, len: usize) {
    // SAFETY: whole blocks while they fit; the tail is the last 32 (16, 8, ...) bytes of the range, which overlap
    // bytes that were already copied with the same values.
    unsafe {
        if len < 32 {
            return short(dst, src, len);
        }
        let mut at = 0;
        while at + 128 <= len {
            let a = _mm256_loadu_si256(src.add(at).cast());
            let b = _mm256_loadu_si256(src.add(at + 32).cast());
            let c = _mm256_loadu_si256(src.add(at + 64).cast());
            let d = _mm256_loadu_si256(src.add(at + 96).cast());
            _mm256_storeu_si256(dst.add(at).cast(), a);
            _mm256_storeu_si256(dst.add(at + 32).cast(), b);
            _mm256_storeu_si256(dst.add(at + 64).cast(), c);
            _mm256_storeu_si256(dst.add(at + 96).cast(), d);
            at += 128;
        }
        while at + 32 <= len {
            _mm256_storeu_si256(dst.add(at).cast(), _mm256_loadu_si256(src.add(at).cast()));
            at += 32;
        }
        if at < len {
            _mm256_storeu_si256(dst.add(len - 32).cast(), _mm256_loadu_si256(src.add(len - 32).cast()));
        }
    }
}

/// # Safety
/// As [`Simd::copy_line`](super::Simd::copy_line), and the CPU has AVX2.
#[target_feature(enable = "avx2")]
#[inline]
pub(super) unsafe fn line_avx2(dst: *mut u8, src: *const u8) {
    // SAFETY: 64 bytes on both sides, as the caller promises.
    unsafe {
        let a = _mm256_loadu_si256(src.cast());
        let b = _mm256_loadu_si256(src.add(32).cast());
        _mm256_storeu_si256(dst.cast(), a);
        _mm256_storeu_si256(dst.add(32).cast(), b);
    }
}

/// Fewer than 32 bytes: two overlapping moves of the largest power of two that fits.
///
/// # Safety
/// As [`Simd::copy`](super::Simd::copy), with `len` < 32.
#[inline(always)]
unsafe fn short(dst: *mut u8, src: *const u8, len: usize) {
    // SAFETY: both moves lie inside the `len` bytes; both loads happen before both stores.
    unsafe {
        macro_rules! ends {
            ($t:ty) => {{
                let back = len - size_of::<$t>();
                let first = src.cast::<$t>().read_unaligned();
                let last = src.add(back).cast::<$t>().read_unaligned();
                dst.cast::<$t>().write_unaligned(first);
                dst.add(back).cast::<$t>().write_unaligned(last);
            }};
        }
        match len {
            16.. => ends!(u128),
            8.. => ends!(u64),
            4.. => ends!(u32),
            2.. => ends!(u16),
            1 => dst.write(src.read()),
            _ => {}
        }
    }
}
