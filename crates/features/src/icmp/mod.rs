//! ICMP: errors that other nodes ask for ([`request`]), and what is sent to ourselves. See `README.md`.

mod icmp4_echo;
mod icmp4_error;
mod icmp4_input;
mod icmp6_echo;
mod icmp6_error;
mod icmp6_input;
mod input;
mod own;
mod request;
#[cfg(test)]
mod tests;

pub(crate) use own::{ERRORS, make_own};
pub use request::{request, request_v4, request_v6, requested};

use graph::NodeSpec;

/// The nodes of this folder.
pub const NODES: &[NodeSpec] = &[
    icmp4_input::NODE,
    icmp4_echo::NODE,
    icmp4_error::NODE,
    icmp6_input::NODE,
    icmp6_echo::NODE,
    icmp6_error::NODE,
];

/// Key under which `icmp4-error` takes packets from `inject`: from the control thread, with an error [requested](request).
pub const INJECT_KEY_4: u32 = 104;
/// [`INJECT_KEY_4`] for `icmp6-error`.
pub const INJECT_KEY_6: u32 = 106;

/// Time to live and hop limit of what is sent from here (RFC 1700, "IP time to live parameter").
pub(crate) const HOPS: u8 = 64;
