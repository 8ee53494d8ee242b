//! What has been sent to each next hop.

use std::collections::BTreeMap;

use api::v1::AdjacencyState;

use super::exposition::{Exposition, Kind};
use crate::dataplane::Inspect;

/// Adjacencies of an interface with a series of their own: those with the lowest numbers. Strangers can make neighbours, tens of thousands of
/// them, and a series for each would be a burden for whoever collects them; those of another interface lose nothing by that.
const MOST: usize = 256;

/// Counters of each adjacency, and how many there are.
pub(super) fn collect(inspect: &dyn Inspect, out: &mut Exposition) {
    type Figure = (&'static str, &'static str, fn(&AdjacencyState) -> u64);
    const FIGURES: [Figure; 2] = [
        ("quiver_adjacency_packets_total", "Packets sent to a next hop.", |adjacency| adjacency.packets),
        (
            "quiver_adjacency_bytes_total",
            "Bytes sent to a next hop, from the link-layer header on.",
            |adjacency| adjacency.bytes,
        ),
    ];
    let adjacencies = inspect.adjacencies();
    let mut of = BTreeMap::<&str, Vec<&AdjacencyState>>::new();
    for adjacency in &adjacencies {
        of.entry(&adjacency.interface).or_default().push(adjacency);
    }
    of.values_mut().for_each(|all| all.sort_unstable_by_key(|adjacency| adjacency.index));
    let mut metric =
        out.metric("quiver_adjacencies", Kind::Gauge, "Next hops: neighbours and other ends of interfaces.");
    for (interface, all) in &of {
        metric.sample(&[("interface", interface)], all.len() as u64);
    }
    for (name, help, figure) in FIGURES {
        let mut metric = out.metric(name, Kind::Counter, help);
        for adjacency in of.values().flat_map(|all| all.iter().take(MOST)) {
            let labels = [("interface", adjacency.interface.as_str()), ("address", &adjacency.address)];
            metric.sample(&labels, figure(adjacency));
        }
    }
}
