//! The internet checksum (RFC 1071) in pieces, because a packet's bytes need not lie in one place.
//!
//! - [`Partial`]: the sum of a slice; sums combine at any offset, odd ones included.
//! - [`pseudo_header_v4`], [`pseudo_header_v6`]: what TCP, UDP and ICMPv6 add in front.
//! - [`update`], [`update_u16`], [`update_u32`]: change a checksum with the bytes it covers (RFC 1624).
//! - [`Delta`]: the same change for many packets, worked out once.
//!
//! Checksums go in and out as numbers (what `U16::get` of a header field gives).

mod incremental;
mod partial;
mod pseudo;

pub use incremental::{Delta, update, update_u16, update_u32};
pub use partial::Partial;
pub use pseudo::{pseudo_header_v4, pseudo_header_v6};
