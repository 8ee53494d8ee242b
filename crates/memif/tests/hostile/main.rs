//! Peers that break the rules on a live connection, and what that costs: the peer one disconnect that says why, the
//! operator one counter, everybody else nothing.
//!
//! A victim serves the hostile peer and a well-behaved one in the same loop. The well-behaved one exchanges numbered
//! packets all the time and must get each of them back, whole, once, in order. Hostile peers are written by hand,
//! byte by byte: sockets, messages, memory and rings, with nothing of the library.
//!
//! - [`hostile_client`]: clients against our server.
//! - [`hostile_server`]: servers against our client.
//!
//! One test a fault: `cargo test --release -p memif hostile`.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod arena;
mod hostile_client;
mod hostile_server;
#[path = "../common/lingering.rs"]
mod lingering;
mod traffic;
mod waits;
mod wire;
