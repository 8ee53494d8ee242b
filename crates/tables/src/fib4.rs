//! Longest-prefix match for IPv4: root of 16 bits, then nodes of 8 and 8. See [`fib`](crate::fib).
//!
//! ```
//! use quiver_tables::fib4::{Fib4Writer, NextHopId};
//!
//! let mut writer = Fib4Writer::new()?;
//! let fib = writer.reader();
//! writer.insert(0x0a00_0000, 8, NextHopId(1))?;
//! writer.insert(0x0a01_0200, 24, NextHopId(2))?;
//! assert_eq!(fib.lookup(0x0a01_0203), NextHopId(2));
//! writer.remove(0x0a01_0200, 24)?;
//! assert_eq!(fib.lookup(0x0a01_0203), NextHopId(1));
//!
//! let retired = writer.retire_mark();
//! // … every worker passes a quiescent state …
//! writer.reclaim(retired);
//! # Ok::<(), quiver_tables::fib::FibError>(())
//! ```

pub use crate::fib::{FibError, NextHopId, Retired, Usage};

/// What workers read; addresses are `u32` in host byte order.
pub type Fib4 = crate::fib::Fib<u32>;
/// What the control thread writes.
pub type Fib4Writer = crate::fib::FibWriter<u32>;
