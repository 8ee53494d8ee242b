//! Listeners of quiverd, and how many connections and calls each client may have.
//!
//! - [`Client`]: the process behind a unix connection, or the address behind a TCP connection.
//! - [`Admission`]: limits of one listener. A new connection is always accepted; where there is no room, the client
//!   with the most connections loses one, silent connections first.
//! - [`Admitted`]: a connection that [`Admission`] can close.
//! - [`socket`]: unix socket files: creation, permissions, removal.

mod admission;
mod client;
mod connection;
pub mod socket;
mod table;

pub use admission::{Admission, Busy, Call, Figures, Limits, Ticket};
pub use client::Client;
pub use connection::{Admitted, Caller};
