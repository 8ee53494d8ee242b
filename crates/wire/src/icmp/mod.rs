//! ICMP for IPv4 (RFC 792, RFC 1812) and for IPv6 (RFC 4443).
//!
//! Both have the same first four bytes and four more whose meaning depends on the type. Errors are built from
//! [`Icmpv4Error`] and [`Icmpv6Error`], which know type, code and those four bytes; checksums are left to the
//! caller because the quoted packet may lie elsewhere.

mod v4;
mod v6;

pub use v4::{Icmpv4Error, Icmpv4Header, Icmpv4Type};
pub use v6::{Icmpv6Error, Icmpv6Header, Icmpv6Type};
