//! The memory that packets live in.
//!
//! [`region`]: memory shared with another process: created and sealed, or a peer's, checked before it is
//! mapped.

pub mod region;
