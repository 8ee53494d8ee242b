//! Full reassembly: fragments of a packet put together, for whoever needs it whole.
//!
//! * `datagram`, `store`: pieces and what becomes of them, without packets: bounded in datagrams, bytes, pieces and time, and fair between interfaces.
//! * `version`: how an IP version's fragments are read, and its packets made of them.
//! * [`Assemble`]: a node of it. What is a node's own (where its packets go, how long it waits, whether it tells senders) says [`Assembles`].
//!
//! | nodes | of packets |
//! |---|---|
//! | `ip4-reassembly`, `ip6-reassembly` | to our own addresses ([`local`](crate::local)) |
//! | `ip4-redirect-reassembly`, `ip6-redirect-reassembly` | that an engine is to see whole ([`redirect`](crate::session::redirect)) |

mod assemble;
mod datagram;
mod store;
mod version;

pub(crate) use assemble::{Assemble, Assembles, Counter, Loss, owner_of_fragments};
pub(crate) use store::Bounds;
pub(crate) use version::{Joins, fragment_header_at};
