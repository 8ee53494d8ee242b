//! Workers: one pinned thread each, with its own instance of the graph.
//!
//! Between two rounds a worker is quiescent (tables that were replaced may be freed) and takes commands from its
//! mailbox: adding a queue, starting a trace, stopping. The control thread never waits for all workers at once.

mod event;
mod handle;
mod rest;
mod run;
mod sleep;

pub use event::{Event, EventSender};
pub use handle::{Command, Worker, WorkerError, WorkerOptions};
