//! What is fuzzed: each function takes any bytes, makes a peer of them and panics if the library does what it must not.
//!
//! Shared by `tests/fuzz` (stable, a short run with every test run) and the libFuzzer targets beside it.
#![allow(clippy::unwrap_used, reason = "the crash is the result")]
#![allow(dead_code, unused_imports, reason = "each target uses its own part")]

mod bytes;
mod client;
mod oracle;
mod pool;
mod rings;
mod server;

pub use client::client;
pub use pool::pool;
pub use rings::rings;
pub use server::server;
