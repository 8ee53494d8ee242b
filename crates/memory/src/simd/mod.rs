//! SIMD tiers: one body of code, compiled for each instruction set the CPU may have.
//!
//! A node writes its loop once, generic over [`Simd`], and the tier is chosen **once**, when the graph is built.
//! A tier is a zero-sized proof that the CPU has the instructions: it can only be made by [`Tier::detect`], so
//! running code compiled for it is sound. [`Simd::run`] compiles a closure for the tier; what is inlined into
//! that closure (loops, copies) uses the tier's registers.

mod copy;
mod fields;
#[cfg(test)]
mod tests;
mod tier;

pub use tier::{Avx2, Avx512, Line, Row, Scalar, Simd, Tier, TierTask};
