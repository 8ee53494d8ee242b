//! quiverd: desired state in, packets out.
//!
//! - [`settings`], [`logging`], [`notify`], [`crash`], `open_files`, `held`: the process and the system around it.
//! - [`model`]: what shall exist. [`mod@reconcile`]: the steps from what is to what shall be. [`dataplane`]: what takes
//!   those steps, and what can be asked of it.
//! - [`control`]: the thread that owns all of these and changes them in step with [`state`], the copy on disk.
//! - [`listener`]: connections of clients and their limits. [`grpc`], and [`metrics`] over [`http`]: what is served.
//! - [`files`]: which files are read and written.
//! - [`engine`]: the packet engine behind [`dataplane`].
//! - [`daemon`]: all of it put together; [`check`]: whether it could start; [`program`]: with a command line.
#![forbid(unsafe_code)]

pub mod check;
pub mod control;
pub mod crash;
pub mod daemon;
pub mod dataplane;
pub mod engine;
pub mod files;
pub mod grpc;
mod health;
mod held;
pub mod http;
pub mod ipfix;
pub mod listener;
pub mod logging;
pub mod metrics;
pub mod model;
pub mod notify;
mod open_files;
pub mod program;
pub mod reconcile;
pub mod settings;
pub mod state;
pub mod version;
