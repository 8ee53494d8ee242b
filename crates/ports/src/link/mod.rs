//! The kernel's side of a device: address, MTU, state and routes, set and read by rtnetlink.
//!
//! Ports follow their devices ([`crate::Port::link`]); for the rest, all calls block, on a thread in the device's network namespace.

mod netlink;
mod query;
mod setup;
mod watch;

pub use query::{LinkInfo, TunInfo, get};
pub use setup::{HostRoute, LinkOptions, change, configure, delete};
pub(crate) use watch::watch;
