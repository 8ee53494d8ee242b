//! The kernel's side of a device: address, MTU, state and routes, set and read by rtnetlink.
//!
//! All calls block, on a thread in the device's network namespace.

mod netlink;
mod query;
mod setup;

pub use query::{LinkInfo, TunInfo, get};
pub use setup::{HostRoute, LinkOptions, change, configure, delete};
