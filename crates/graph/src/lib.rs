//! The packet graph: packets move in vectors through nodes.
//!
//! * [`node`]: what a node is and how it declares itself ([`edges!`], [`drops!`], [`counters!`], [`NodeSpec`]).
//! * [`plan`]: nodes and feature arcs resolved by name into a graph, once, with readable errors.
//! * [`engine`]: one worker's instance of the graph and the dispatch of a round.
//! * [`publish`]: read-only tables for all workers, replaced by one pointer store and freed by QSBR.
//! * [`port`]: what a port gives the graph: queues that receive and send; the nodes that drive them are [`nodes`].
//! * [`worker`]: the thread that runs rounds, takes commands between two of them and sleeps when there is nothing to do.
//! * [`handover`]: packets that another worker is to go on with.
//! * [`locals`]: what a worker's nodes share among themselves.
//! * [`counters`], [`trace`]: what can be seen from outside.
//! * [`checksum`]: finishing what a sender has left to the device.
//!
//! Production and tests build a graph by the same two calls: [`plan::Plan::resolve`] and [`engine::Graph::new`].

pub mod arc;
pub mod checksum;
pub mod context;
pub mod counters;
pub mod engine;
pub mod handover;
pub mod locals;
mod longest;
mod macros;
pub mod node;
pub mod nodes;
pub mod plan;
pub mod port;
pub mod publish;
mod sync;
pub mod trace;
pub mod worker;

pub use context::{Ctx, Frame, GONE};
pub use memory::packet;
pub use memory::region::prefetch_read;
pub use memory::simd;
pub use node::{
    Attach, CounterSpec, DropSpec, Feature, Node, NodeContext, NodeKind, NodeSpec, Resume, Severity,
};
pub use port::IfIndex;
