//! Queues around queues: what isn't a matter of one kind of port.
//!
//! * [`capture`]: copies of what is received, sent and dropped, for a reader that may be too slow.
//! * [`Fault`]: damage done on purpose, the same for the same seed.
//! * [`RateLimit`]: no more than so many packets or bits in a second.

pub mod capture;
mod fault;
mod rate;

pub use fault::{Damage, Fault, FaultOptions};
pub use rate::{Rate, RateLimit};
