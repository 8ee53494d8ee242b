//! What IPv4 and IPv6 forwarding share: next hops, forwarding tables, VRFs.

mod fibs;
mod next_hop;

pub use fibs::{Fibs, VrfTables};
pub use next_hop::{MAX_REWRITE, NextHop, NextHopKind, NextHops};
