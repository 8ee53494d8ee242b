//! IPFIX (RFC 7011): what sessions were, as collectors of flows read it.
//!
//! * `templates`: which information elements records have, and how each is written; [`Record`]: where that is read from.
//! * [`Messages`]: records and templates in messages, numbered.
//!
//! Bytes only. Where records come from and where messages go to is the engine's business.

mod messages;
mod templates;

#[cfg(test)]
pub(crate) use messages::tests;
pub use messages::{MESSAGE, Messages};
pub use templates::{DROPPED, EndReason, FORWARDED, NatEvent, Record, Template};
