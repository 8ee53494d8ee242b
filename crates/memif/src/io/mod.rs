//! The control channel on real sockets: unix SOCK_SEQPACKET, without a runtime.
//!
//! [`Listener`] (server, many interfaces on one socket) and [`Client`] (one interface, reconnects) each have
//! one file descriptor to poll and a [`process`](Listener::process) that never blocks and returns what
//! happened. Time is passed in: call `process` when the descriptor is readable or `next_deadline` has come.

mod address;
mod admission;
mod ancillary;
mod channel;
mod client;
mod conversation;
mod credentials;
mod descriptors;
mod disposal;
mod errands;
mod foreign;
mod held;
mod interfaces;
mod line;
mod listener;
mod mapping;
mod outcomes;
mod process;
mod rights;
mod server;
mod sessions;
mod socket;
#[cfg(test)]
mod testing;
mod watch;

use std::time::{Duration, Instant};

/// The time `wait` after `now`; far away where that is beyond what the clock can say.
fn later(now: Instant, wait: Duration) -> Instant {
    const FAR: Duration = Duration::from_secs(366 * 86_400);
    now.checked_add(wait).unwrap_or(now + FAR)
}

pub use address::{Address, SocketName};
pub use channel::all_said;
pub use client::{Client, ClientEvent, ClientTiming};
pub use credentials::Credentials;
pub use held::{HeldRegion, held_regions};
pub use listener::Listener;
pub use server::{Handshake, ListenerSettings, ServerEvent};
