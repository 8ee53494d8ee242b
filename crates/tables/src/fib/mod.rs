//! Longest-prefix match, changed in place while workers read it.
//!
//! One structure serves both address families: a root of 2^16 entries and below it nodes of 256 slots, in one of
//! four forms (`node.rs`). A lookup is one load for a prefix up to /16, one node more for each further eight bits;
//! IPv6 paths without branches are folded into one node.
//!
//! ```text
//! Fib<A>  ──────────────┐ clones share        FibWriter<A>
//!   lookup, lookup_batch│                       Prefixes what was inserted: (prefix, length) → id
//!                       ▼                       Editor   carries one change into the trie
//!                     Words ◀───────────────────Allocator free blocks, retired blocks
//! ```
//!
//! **What a reader sees.** For every address, at every moment, the result before a change or the result after it;
//! with several changes under way, the results appear in the order of the changes. There is no moment without a
//! route, because a block is complete before one release store publishes it, and no block is written anew before
//! [`FibWriter::reclaim`].
//!
//! **What the owner has to do.** Blocks that changes took out of the trie wait in a list. Take a token with
//! [`FibWriter::retire_mark`], let every worker that holds a [`Fib`] pass a quiescent state, then hand the token to
//! [`FibWriter::reclaim`]. While no [`Fib`] exists blocks are used again at once, so a table filled before it is
//! given to workers needs none of this.

mod address;
mod allocator;
mod bulk;
mod edit;
mod entry;
mod error;
mod large;
mod node;
mod prefixes;
mod reader;
mod walk;
mod words;
mod writer;

pub use address::Address;
pub use error::FibError;
pub use prefixes::Prefixes;
pub use reader::{Fib, NextHopId};
pub use writer::{DEFAULT_CAPACITY, FibWriter, Retired, RouteChange, Usage};

#[cfg(test)]
mod tests;
