//! TCP (RFC 9293), both ends.
//!
//! * [`Tcb`]: one connection, a cache line.
//! * [`machine`]: what arrives, what is sent, what is due: the same code for both ends.
//! * [`Client`]: opens connections; a connection's place follows from its address and port.
//! * [`Server`]: accepts what comes; [`Table`] finds connections by the addresses it sees.
//! * `initial`: where sequence numbers begin, the same for both ends.
//!
//! Left out, since a generator has no use for it: congestion control (what the peer's window allows is sent), window
//! scaling, SACK, timestamps, urgent data. Payload is counted, not kept.

mod client;
mod initial;
pub mod machine;
mod rules;
mod server;
mod table;
mod tcb;

pub use client::Client;
pub use rules::{Close, Exchange, Role, Rules};
pub use server::Server;
pub use table::Table;
pub use tcb::{State, Tcb};
