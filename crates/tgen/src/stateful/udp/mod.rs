//! UDP: requests and responses.
//!
//! * [`Client`]: sends requests, one after the other within a flow, and waits for each response.
//! * [`Server`]: answers each request where it came from. It keeps nothing: a request's tag says all it needs.
//!   A datagram without one was not read as one of ours and doesn't come here.

mod client;
mod server;

pub use client::{Client, Flow, Rules};
pub use server::Server;
