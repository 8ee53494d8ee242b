//! Neighbours: ARP and IPv6 neighbour discovery. See `README.md`.
//!
//! Workers answer what can be answered from the tables and tell the control thread the rest, where [`control`] decides.

mod adjacency;
mod arp_input;
pub mod control;
mod ethernet_out;
mod hold;
mod ip4_resolve;
mod ip6_resolve;
mod limit;
mod own;

pub use ethernet_out::{INJECT_KEY as ETHERNET_OUT, frame};
pub(crate) use own::{is_own, own_link_local};

use graph::NodeSpec;

/// The nodes of this folder.
pub const NODES: &[NodeSpec] = &[arp_input::NODE, ip4_resolve::NODE, ethernet_out::NODE];

/// Kind of the ARP packets that go to the control thread.
pub const ARP: &str = "arp";
/// Kind of the neighbour discovery messages that go to the control thread.
pub const ND: &str = "nd";
/// Kind of the IPv4 packets that wait for their neighbour.
pub const RESOLVE4: &str = "resolve4";
/// Kind of the IPv6 packets that wait for their neighbour.
pub const RESOLVE6: &str = "resolve6";

/// Where packets go on that have waited.
const IP4_LOOKUP: u32 = crate::ip4::INJECT_KEY;
const IP6_LOOKUP: u32 = 6;
