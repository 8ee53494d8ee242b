//! IPv4 fragmentation: `ip4-fragment`. See the folder's `README.md`.
//!
//! IPv6 has none here: its routers send "packet too big" instead (RFC 8200 section 5).

mod cut;
mod ip4;
#[cfg(test)]
mod tests;

use graph::NodeSpec;

/// The folder's nodes.
pub const NODES: &[NodeSpec] = &[ip4::NODE];
