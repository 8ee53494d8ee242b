//! Neighbours: ARP and IPv6 neighbour discovery. See `README.md`.
//!
//! Workers answer what can be answered from the tables and tell the control thread the rest, where [`control`] decides.

mod arp_input;
mod claim;
pub mod control;
mod direct;
mod ethernet_out;
mod frames;
mod hold;
mod ip4_direct;
mod ip4_resolve;
mod ip6_direct;
mod ip6_nd;
mod ip6_nd_proxy;
mod ip6_resolve;
#[cfg(test)]
mod loop_tests;
mod neighbor_drop;
mod own;
mod resolve;
mod said;
#[cfg(test)]
pub(crate) mod tests;

use crate::interface::Limiter;
pub use direct::way as direct_way;
pub use ethernet_out::{INJECT_KEY as ETHERNET_OUT, frame};
use graph::NodeSpec;
pub(crate) use hold::note;
pub(crate) use ip6_nd_proxy::is_for_proxy;
pub use neighbor_drop::INJECT_KEY as DROP;

/// The nodes of this folder.
pub const NODES: &[NodeSpec] = &[
    arp_input::NODE,
    ip6_nd::NODE,
    ip6_nd_proxy::NODE,
    ip4_resolve::NODE,
    ip6_resolve::NODE,
    ip4_direct::NODE,
    ip6_direct::NODE,
    ethernet_out::NODE,
    neighbor_drop::NODE,
];

/// Kind of the ARP packets that go to the control thread.
pub const ARP: &str = "arp";
/// Kind of the neighbour discovery messages that go to the control thread.
pub const ND: &str = "nd";
/// Kind of the IPv4 packets that wait for their neighbour.
pub const RESOLVE4: &str = "resolve4";
/// Kind of the IPv6 packets that wait for their neighbour.
pub const RESOLVE6: &str = "resolve6";
/// Kind of the packets that wait for a neighbour which isn't their destination.
pub const RESOLVE_DIRECT: &str = "resolve-direct";

/// Limits what one worker tells the control thread, by the interface that it came in by: 200 packets a second, a vector at once.
/// The queue of events is bounded too; this keeps one interface from filling it.
const TOLD: Limiter = Limiter::new(200, 256);

/// Where packets go on that have waited.
const IP4_LOOKUP: u32 = crate::ip4::INJECT_KEY;
/// [`IP4_LOOKUP`] for IPv6.
const IP6_LOOKUP: u32 = crate::ip6::INJECT_KEY;
/// Those that go to a neighbour which isn't their destination.
const IP4_DIRECT: u32 = 204;
/// [`IP4_DIRECT`] for IPv6.
const IP6_DIRECT: u32 = 206;
