//! IPv4 (RFC 791): header, options, what RFC 1812 asks of a router's input, kinds of addresses.

mod address;
mod header;
mod options;
mod validate;

pub use address::{Ipv4Class, Ipv4Kind};
pub use header::{Ipv4Flags, Ipv4Header};
pub use options::{Ipv4Option, Ipv4Options};
pub use validate::Ipv4Reason;
