//! IPv4 forwarding: `ip4-input`, the `ip4-unicast` arc, `ip4-lookup`, `ip4-rewrite`. See the folder's `README.md`.

mod input;
mod lookup;
mod quick;
mod rewrite;
mod rpf;
#[cfg(test)]
mod tests;

pub(crate) use input::arrives;

use graph::NodeSpec;

/// The folder's nodes.
pub const NODES: &[NodeSpec] = &[input::NODE, lookup::NODE, rewrite::NODE, rpf::NODE];

/// The arc between `ip4-input` and `ip4-lookup`.
pub const UNICAST: &str = "ip4-unicast";

/// Key under which `ip4-lookup` takes packets from `inject`: from the control thread, `data` at the IP header.
pub const INJECT_KEY: u32 = 4;
