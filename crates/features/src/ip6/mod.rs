//! IPv6 forwarding: `ip6-input`, the `ip6-unicast` arc, `ip6-lookup`, `ip6-rewrite`. See the folder's `README.md`.

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

/// The arc between `ip6-input` and `ip6-lookup`.
pub const UNICAST: &str = "ip6-unicast";

/// Key under which `ip6-lookup` takes packets from `inject`: from the control thread, `data` at the IPv6 header.
pub const INJECT_KEY: u32 = 6;
