//! The tiers and their detection.

#[cfg(target_arch = "x86_64")]
use super::{copy, fields};
use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};

/// Sixteen 16-bit numbers.
pub type Row = [u16; 16];
/// Sixteen 32-bit numbers: a cache line.
pub type Line = [u32; 16];

/// An instruction set that hot loops are compiled for.
///
/// Implementors are zero-sized proofs: holding one means that the CPU has the instructions.
///
/// Nobody else can implement it: what is read and written by a tier is what its methods say.
pub trait Simd: sealed::Tier + Copy + Send + fmt::Debug + 'static {
    /// Runs `f` compiled for this tier. Everything that is inlined into `f` uses the tier's instructions.
    fn run<R>(self, f: impl FnOnce() -> R) -> R;

    /// Copies `len` bytes, neither reading nor writing a byte beyond them.
    ///
    /// # Safety
    /// `src` must be readable and `dst` writable for `len` bytes. They may overlap, as two ranges that a peer has chosen in its own
    /// region may: then it isn't said which of the source's bytes end up in the destination.
    unsafe fn copy(self, dst: *mut u8, src: *const u8, len: usize);

    /// Copies the one cache line a packet's head begins with: always 64 bytes.
    ///
    /// # Safety
    /// `src` must be readable and `dst` writable for 64 bytes. They may overlap, as with [`copy`](Self::copy).
    unsafe fn copy_line(self, dst: *mut u8, src: *const u8);

    /// Reads a cache line that somebody else may be writing, each byte of it once: what was found good is what is used afterwards,
    /// whatever the compiler thinks of reading it again.
    ///
    /// # Safety
    /// `src` must be readable for 64 bytes and aligned to them.
    unsafe fn read_line(self, src: *const Line) -> Line;

    /// Copies the first `len` bytes of a line, 1 to 64.
    ///
    /// # Safety
    /// `src` must be readable for 64 bytes, `dst` writable for `len`. They don't overlap.
    #[inline(always)]
    unsafe fn copy_front(self, dst: *mut u8, src: *const u8, len: usize) {
        // SAFETY: the caller promises more.
        unsafe { self.copy(dst, src, len) }
    }

    /// [`within`](Self::within) for a line of 32-bit numbers.
    fn line_within(self, line: &Line, look: &Line, low: &Line, span: &Line) -> bool;

    /// Whether each number of `row`, of which the bits in `look` count, is at least that in `low` and at most that much
    /// more as `span` says.
    fn within(self, row: &Row, look: &Row, low: &Row, span: &Row) -> bool;

    /// Clears the bits of each number that aren't in `keep`, then sets those in `set`.
    fn patch(self, row: &mut Row, keep: &Row, set: &Row);

    /// A bit for each of `words` that equals `word`, the first one lowest. Each is read once, as by a relaxed load, in no order: others may
    /// be writing them.
    #[inline(always)]
    fn equal(self, words: &[AtomicU64; 4], word: u64) -> u8 {
        let is_equal = |at: usize| u8::from(words[at].load(Ordering::Relaxed) == word);
        (0..4).fold(0, |equal, at| equal | is_equal(at) << at)
    }

    /// Stores `word` as the first of each pair: relaxed stores, in no order. Others may be reading and writing them.
    #[inline(always)]
    fn store_firsts(self, pairs: &[[AtomicU64; 2]; 4], word: u64) {
        pairs.iter().for_each(|[first, _]| first.store(word, Ordering::Relaxed));
    }
}

/// Work that is generic over the tier; see [`Tier::dispatch`].
pub trait TierTask {
    /// What the work returns.
    type Output;
    /// Does the work on tier `s`. Implementations put their loop inside `s.run(..)`.
    fn run<S: Simd>(self, s: S) -> Self::Output;
}

/// The tier without special instructions: plain Rust, as compiled for the target's baseline. It is the reference.
#[derive(Clone, Copy, Debug)]
pub struct Scalar;

/// AVX2 with BMI1/BMI2 (x86-64-v3).
#[derive(Clone, Copy, Debug)]
pub struct Avx2(());

/// AVX-512 F, BW, VL, DQ with BMI1/BMI2 (x86-64-v4).
#[derive(Clone, Copy, Debug)]
pub struct Avx512(());

mod sealed {
    /// Those of this module.
    pub trait Tier {}
    impl Tier for super::Scalar {}
    #[cfg(target_arch = "x86_64")]
    impl Tier for super::Avx2 {}
    #[cfg(target_arch = "x86_64")]
    impl Tier for super::Avx512 {}
}

impl Simd for Scalar {
    #[inline(always)]
    fn run<R>(self, f: impl FnOnce() -> R) -> R {
        f()
    }

    #[inline(always)]
    unsafe fn copy(self, dst: *mut u8, src: *const u8, len: usize) {
        // SAFETY: the caller promises both ranges; `copy` allows for overlap.
        unsafe { core::ptr::copy(src, dst, len) }
    }

    #[inline(always)]
    unsafe fn copy_line(self, dst: *mut u8, src: *const u8) {
        // SAFETY: as above, for 64 bytes.
        unsafe { core::ptr::copy(src, dst, 64) }
    }

    #[inline(always)]
    unsafe fn read_line(self, src: *const Line) -> Line {
        // SAFETY: 8 numbers of 8 bytes, as the caller promises.
        let read = |at| unsafe { src.cast::<u64>().add(at).read_volatile() };
        let numbers: [u64; 8] = core::array::from_fn(read);
        zerocopy::transmute!(numbers)
    }

    #[inline(always)]
    fn within(self, row: &Row, look: &Row, low: &Row, span: &Row) -> bool {
        let beyond: Row =
            core::array::from_fn(|at| (row[at] & look[at]).wrapping_sub(low[at]).saturating_sub(span[at]));
        let [a, b, c, d]: [u64; 4] = zerocopy::transmute!(beyond);
        a | b | c | d == 0
    }

    #[inline(always)]
    fn line_within(self, line: &Line, look: &Line, low: &Line, span: &Line) -> bool {
        (0..16).fold(true, |all, at| all & ((line[at] & look[at]).wrapping_sub(low[at]) <= span[at]))
    }

    #[inline(always)]
    fn patch(self, row: &mut Row, keep: &Row, set: &Row) {
        let old = *row;
        *row = core::array::from_fn(|at| old[at] & keep[at] | set[at]);
    }
}

#[cfg(target_arch = "x86_64")]
impl Simd for Avx2 {
    #[inline(always)]
    fn run<R>(self, f: impl FnOnce() -> R) -> R {
        #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt,fma,movbe")]
        #[inline]
        fn go<R>(f: impl FnOnce() -> R) -> R {
            f()
        }
        // SAFETY: `self` exists only if the CPU was found to have these features (`Tier::detect`).
        unsafe { go(f) }
    }

    #[inline(always)]
    unsafe fn copy(self, dst: *mut u8, src: *const u8, len: usize) {
        // SAFETY: ranges as promised by the caller; features as promised by `self`.
        unsafe { copy::avx2(dst, src, len) }
    }

    #[inline(always)]
    unsafe fn copy_line(self, dst: *mut u8, src: *const u8) {
        // SAFETY: as above.
        unsafe { copy::line_avx2(dst, src) }
    }

    #[inline(always)]
    unsafe fn read_line(self, src: *const Line) -> Line {
        // SAFETY: the line as promised by the caller; features as promised by `self`.
        unsafe { copy::read_line_avx2(src) }
    }

    #[inline(always)]
    fn line_within(self, line: &Line, look: &Line, low: &Line, span: &Line) -> bool {
        // SAFETY: features as promised by `self`.
        unsafe { fields::line_within_avx2(line, look, low, span) }
    }

    #[inline(always)]
    fn within(self, row: &Row, look: &Row, low: &Row, span: &Row) -> bool {
        // SAFETY: features as promised by `self`; AVX-512 implies AVX2.
        unsafe { fields::within(row, look, low, span) }
    }

    #[inline(always)]
    fn patch(self, row: &mut Row, keep: &Row, set: &Row) {
        // SAFETY: as above.
        unsafe { fields::patch(row, keep, set) }
    }

    #[cfg(not(miri))]
    #[inline(always)]
    fn equal(self, words: &[AtomicU64; 4], word: u64) -> u8 {
        // SAFETY: features as promised by `self`.
        unsafe { fields::equal_avx2(words, word) }
    }
}

#[cfg(target_arch = "x86_64")]
impl Simd for Avx512 {
    #[inline(always)]
    fn run<R>(self, f: impl FnOnce() -> R) -> R {
        #[target_feature(
            enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512cd,avx2,bmi1,bmi2,lzcnt,popcnt,fma,movbe"
        )]
        #[inline]
        fn go<R>(f: impl FnOnce() -> R) -> R {
            f()
        }
        // SAFETY: `self` exists only if the CPU was found to have these features (`Tier::detect`).
        unsafe { go(f) }
    }

    #[inline(always)]
    unsafe fn copy(self, dst: *mut u8, src: *const u8, len: usize) {
        // SAFETY: ranges as promised by the caller; features as promised by `self`.
        unsafe { copy::avx512(dst, src, len) }
    }

    #[inline(always)]
    unsafe fn copy_line(self, dst: *mut u8, src: *const u8) {
        // SAFETY: as above.
        unsafe { copy::line_avx512(dst, src) }
    }

    #[inline(always)]
    unsafe fn read_line(self, src: *const Line) -> Line {
        // SAFETY: the line as promised by the caller; features as promised by `self`.
        unsafe { copy::read_line_avx512(src) }
    }

    #[inline(always)]
    unsafe fn copy_front(self, dst: *mut u8, src: *const u8, len: usize) {
        // SAFETY: ranges as promised by the caller; features as promised by `self`.
        unsafe { copy::front_avx512(dst, src, len) }
    }

    #[inline(always)]
    fn line_within(self, line: &Line, look: &Line, low: &Line, span: &Line) -> bool {
        // SAFETY: features as promised by `self`.
        unsafe { fields::line_within_avx512(line, look, low, span) }
    }

    #[inline(always)]
    fn within(self, row: &Row, look: &Row, low: &Row, span: &Row) -> bool {
        // SAFETY: features as promised by `self`; AVX-512 implies AVX2.
        unsafe { fields::within(row, look, low, span) }
    }

    #[inline(always)]
    fn patch(self, row: &mut Row, keep: &Row, set: &Row) {
        // SAFETY: as above.
        unsafe { fields::patch(row, keep, set) }
    }

    #[cfg(not(miri))]
    #[inline(always)]
    fn equal(self, words: &[AtomicU64; 4], word: u64) -> u8 {
        // SAFETY: features as promised by `self`.
        unsafe { fields::equal_avx512(words, word) }
    }

    #[cfg(not(miri))]
    #[inline(always)]
    fn store_firsts(self, pairs: &[[AtomicU64; 2]; 4], word: u64) {
        // SAFETY: features as promised by `self`.
        unsafe { fields::store_firsts_avx512(pairs, word) }
    }
}

/// The tier that a graph is built for.
#[derive(Clone, Copy, Debug)]
pub enum Tier {
    /// See [`Scalar`].
    Scalar(Scalar),
    /// See [`Avx2`].
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    /// See [`Avx512`].
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512),
}

impl Tier {
    /// The names that [`Tier::named`] knows, from the least to the most.
    pub const NAMES: [&str; 3] = ["scalar", "avx2", "avx512"];

    /// The best tier this CPU has.
    #[must_use]
    pub fn detect() -> Self {
        Self::named("avx512").or_else(|| Self::named("avx2")).unwrap_or(Self::Scalar(Scalar))
    }

    /// All tiers this CPU has, the reference first: what a test that holds tiers equal goes through.
    #[must_use]
    pub fn available() -> Vec<Self> {
        Self::NAMES.iter().filter_map(|name| Self::named(name)).collect()
    }

    /// The tier of that name, if there is one and the CPU has it.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "scalar" => Some(Self::Scalar(Scalar)),
            #[cfg(target_arch = "x86_64")]
            "avx2" if has_avx2() => Some(Self::Avx2(Avx2(()))),
            #[cfg(target_arch = "x86_64")]
            "avx512" if has_avx2() && has_avx512() => Some(Self::Avx512(Avx512(()))),
            _ => None,
        }
    }

    /// The tier's name as shown to users.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Scalar(_) => "scalar",
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(_) => "avx2",
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(_) => "avx512",
        }
    }

    /// Does `task` on this tier: one branch per call, so call it per vector, never per packet.
    #[inline]
    pub fn dispatch<T: TierTask>(self, task: T) -> T::Output {
        match self {
            Self::Scalar(s) => task.run(s),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(s) => task.run(s),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(s) => task.run(s),
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn has_avx2() -> bool {
    use std::arch::is_x86_feature_detected as has;
    has!("avx2")
        && has!("bmi1")
        && has!("bmi2")
        && has!("lzcnt")
        && has!("popcnt")
        && has!("fma")
        && has!("movbe")
}

#[cfg(target_arch = "x86_64")]
fn has_avx512() -> bool {
    use std::arch::is_x86_feature_detected as has;
    has!("avx512f") && has!("avx512bw") && has!("avx512vl") && has!("avx512dq") && has!("avx512cd")
}
