//! Longest-prefix match for IPv6: root of 16 bits, then nodes of 8 bits, with paths without branches folded. See
//! [`fib`](crate::fib).

pub use crate::fib::{FibError, NextHopId, Retired, Usage};

/// What workers read; addresses are `u128` in host byte order.
pub type Fib6 = crate::fib::Fib<u128>;
/// What the control thread writes.
pub type Fib6Writer = crate::fib::FibWriter<u128>;
