//! From what shall be to what is: the steps that lead there.
//!
//! [`Realised`] is what the dataplane has, kept true step by step; [`plan`] finds the steps from there to what is
//! ready of the desired state. A plan only depends on the two, not on how the desired state came about.

mod plan;
mod realised;
mod strip;

pub use plan::plan;
pub use realised::{Realised, Running};
