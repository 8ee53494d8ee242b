//! The control thread's side of forwarding: the one writer of forwarding tables, next hops, groups and VRFs.
//!
//! ```text
//! interfaces, addresses ─┐                       ┌─▶ Rib per VRF and IP version ──ops──▶ FIB (changed in place)
//! neighbours ────────────┼─▶ path sets (interned) │        candidates by prefix
//! routes, VRFs ──────────┘    │ resolve           ┘
//!                             ▼
//!                          next hops, by id  ──────────────────────────────────────▶ snapshot (published)
//! ```
//!
//! A route leads to a **path set**: the list of its next hops, shared by all routes that have the same. A set has one
//! next-hop id for life, and that id is what the FIB holds. When a neighbour changes its address or an interface goes
//! down, the set is *resolved* anew and the next hop behind the id is replaced: all routes switch with one pointer
//! store, however many there are.
//!
//! Everything is pure logic on one thread. [`Forwarding::commit`] is the only place that touches what workers read, in
//! an order in which no packet is lost:
//!
//! 1. next hops and VRFs are published;
//! 2. when every worker has passed a round boundary since, so that none looks for a next hop in an older snapshot, the
//!    queued changes are carried into the FIBs;
//! 3. ids and FIB blocks given up are used again when every worker has passed one more boundary; an id that a full table still
//!    leads to, since it had no room for the change, when it doesn't any more.

mod adjacencies;
mod commit;
mod error;
mod explain;
mod forwarding;
mod hops;
mod interfaces;
mod links;
mod rib;
mod route;
mod sets;
mod splits;

pub use adjacencies::{Adjacencies, AdjacencyView};
pub use commit::Progress;
pub use error::ForwardingError;
pub use explain::{RouteView, Step, Summary};
pub use forwarding::Forwarding;
pub use route::{Origin, Path, Pending, Prefix, RouteState, Via};
pub use splits::SplitRule;

#[cfg(test)]
mod tests;
