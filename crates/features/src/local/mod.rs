//! Local delivery: packets to our own addresses, told apart by protocol. See `README.md`.

mod extensions;
mod ip4_local;
mod ip6_local;

use graph::{NodeContext, NodeSpec};

/// The nodes of this folder.
pub const NODES: &[NodeSpec] = &[ip4_local::NODE, ip6_local::NODE];

/// A node's children by their 8-bit key (IP protocol, ICMP type): the edge to each, 0 where there is none.
pub(crate) fn edges(cx: &NodeContext<'_>) -> [u8; 256] {
    let mut edges = [0; 256];
    for (key, edge) in cx.children() {
        if let Some(place) = edges.get_mut(*key as usize) {
            *place = *edge;
        }
    }
    edges
}
