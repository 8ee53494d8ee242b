//! Drives a whole graph with tables of packets: the same rows through every SIMD tier, in vectors of 1 and of 256.
//!
//! The graph is built as `quiverd` builds it, with one more kind of port whose queues are lists in memory.

mod bench;
#[cfg(test)]
mod example;
mod port;
mod probe;
mod rows;
mod seen;
mod stand_in;
mod table;
mod vectors;

pub use bench::{Bench, Outcome, all_nodes};
pub use port::{TEST_NODES, TestWire};
pub use probe::{PASS_IN, PASS_OUT, PROBE, PROBE_IF, probe_header};
pub use rows::rows;
pub use seen::{Dropped, Seen};
pub use stand_in::forwarding_nodes;
pub use table::{Row, Verdict, hex, run_table, run_table_on};
pub use vectors::Vectors;
