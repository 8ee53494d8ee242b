//! Queues around queues: what isn't a matter of one kind of port.
//!
//! * [`capture`]: copies of what is received, sent and dropped, for a reader that may be too slow.
//! * [`Fault`]: damage done on purpose, the same for the same seed.

pub mod capture;
mod fault;

pub use fault::{Damage, Fault, FaultOptions};
