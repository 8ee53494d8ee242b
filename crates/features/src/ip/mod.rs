//! What IPv4 and IPv6 forwarding share: next hops, forwarding tables, VRFs.

mod adjacency;
mod arrival;
pub mod control;
pub(crate) mod family;
mod fibs;
mod follow;
pub(crate) mod input;
mod link_local;
pub(crate) mod lookup;
mod next_hop;
mod output;
pub(crate) mod rewrite;
pub(crate) mod rpf;
pub(crate) mod sources;
#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) mod topology;
mod usual;

pub use adjacency::{Tallies, Tally, Traffic};
pub(crate) use arrival::Arrival;
pub use fibs::{Fibs, VrfTables};
pub use follow::{Followed, follow};
pub use input::{Arrived, arrives};
pub use link_local::LinkLocals;
pub use next_hop::{ECMP_SEED, MAX_REWRITE, NextHop, NextHopKind, NextHops};
pub use output::{Lane, has_headroom, segment_len, segment_len_at};
pub use rpf::leads_back;
