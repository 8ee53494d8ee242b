//! What IPv4 and IPv6 forwarding share: next hops, forwarding tables, VRFs.

pub mod control;
mod fibs;
mod next_hop;
mod output;
#[cfg(test)]
pub(crate) mod topology;

pub use fibs::{Fibs, VrfTables};
pub use next_hop::{ECMP_SEED, MAX_REWRITE, NextHop, NextHopKind, NextHops};
pub use output::{Lane, has_headroom, segment_len};
