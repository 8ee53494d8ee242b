//! Whom next hops lead to, and what has been sent there.

use std::fmt::Write as _;

use api::v1::AdjacencyState;
use features::ip::NextHopKind;
use features::ip::control::AdjacencyView;

use super::super::directory::Inventory;
use super::super::start::Shared;

pub(super) fn all(shared: &Shared) -> Vec<AdjacencyState> {
    let inventory = shared.directory.get();
    let views = shared.adjacencies.list();
    let mut list: Vec<_> = views.iter().map(|view| (view.hop.neighbour(), state(&inventory, view))).collect();
    list.sort_by(|(a, one), (b, other)| (&one.interface, a).cmp(&(&other.interface, b)));
    list.into_iter().map(|(_, state)| state).collect()
}

fn state(inventory: &Inventory, view: &AdjacencyView) -> AdjacencyState {
    let AdjacencyView { hop, sent } = view;
    let mut rewrite = String::new();
    for byte in hop.header.iter().take(hop.header_len.into()) {
        // Writing to a String can't fail.
        let _ = write!(rewrite, "{byte:02x}");
    }
    AdjacencyState {
        index: hop.adjacency,
        interface: inventory.registry.name(hop.tx_if),
        address: hop.neighbour().map(|address| address.to_string()).unwrap_or_default(),
        resolved: hop.kind == NextHopKind::Rewrite,
        rewrite,
        mtu: hop.mtu.into(),
        packets: sent.packets,
        bytes: sent.bytes,
    }
}
