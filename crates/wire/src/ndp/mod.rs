//! IPv6 neighbour discovery (RFC 4861): messages, options, and the checks the RFC demands.
//!
//! The messages here include the ICMPv6 header. They are short and rare, so [`check`] wants one whole in a
//! row: pull it first.

mod check;
mod message;
mod options;

pub use check::{NdpMessage, NdpReason, check};
pub use message::{
    NeighborAdvertisement, NeighborFlags, NeighborSolicitation, Redirect, RouterAdvertisement, RouterFlags,
    RouterSolicitation,
};
pub use options::{LinkLayerAddress, Mtu, NdpOption, NdpOptions, PrefixFlags, PrefixInformation};
