//! Tables for all workers: many readers, one writer, no locks and no barrier.
//!
//! A [`Tables`] snapshot has one part per declared type. The writer builds changed parts, shares the others, and
//! publishes by one pointer store ([`Publisher::publish`]). A worker loads the snapshot once per round and says
//! between two rounds that it holds nothing ([`Reader::quiesce`]); what was replaced is freed when every worker has
//! said so since ([`Publisher::reclaim`]): quiescent-state-based reclamation (QSBR).
//!
//! [`qsbr`] is checked by loom (`RUSTFLAGS="--cfg loom" cargo test -p quiver-graph --release loom`). What it does not
//! see: memory freed by the allocator, and tables with interior atomics, whose ordering is their own matter.

mod publisher;
pub mod qsbr;
mod tables;

pub use publisher::{Publisher, Reader};
pub use tables::{Draft, Key, Schema, Tables};
