//! Flows: the 5-tuple of a packet and its hash, for choosing among paths and workers.
//!
//! ```text
//! Ipv4Flow::of(head)?  ->  .hash(seed)            differs by direction: ECMP
//!                          .symmetric_hash(seed)  same both ways: worker, symmetric ECMP
//!                       ->  pick(hash, n)          one of n, without division
//! ```
//!
//! Fragments carry ports only in their first piece, so *no* fragment's ports are looked at: all pieces of a
//! packet have the same 3-tuple hash. A protocol without ports has the 3-tuple hash as well.
//!
//! **Seeds.** Two choices made from the same hash are not independent: routers in a row, or a router that picks
//! first a worker and then a path, would leave some paths unused. Give each choice a seed of its own. The hash
//! is no MAC: with a secret random seed an outsider can't aim at a bucket, but don't build on more than that.
//! Values may change with the version of this crate.

mod hash;
mod tuple;

pub use hash::pick;
pub use tuple::{Ipv4Flow, Ipv6Flow};
