//! What has been sent to each next hop.

use std::collections::BTreeMap;

use api::v1::AdjacencyState;

use super::exposition::{Exposition, Kind};
use crate::dataplane::Inspect;

/// Adjacencies with a series of their own are those with numbers up to this. Strangers can make neighbours, tens of thousands of them, and a
/// series for each would be a burden for whoever collects them. Numbers are dense and for life, so that one that is shown stays.
const MAX_INDEX: u32 = 1024;

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
    let mut counts = BTreeMap::<&str, u64>::new();
    for adjacency in &adjacencies {
        *counts.entry(&adjacency.interface).or_default() += 1;
    }
    let mut metric =
        out.metric("quiver_adjacencies", Kind::Gauge, "Next hops: neighbours and other ends of interfaces.");
    for (interface, count) in counts {
        metric.sample(&[("interface", interface)], count);
    }
    for (name, help, figure) in FIGURES {
        let mut metric = out.metric(name, Kind::Counter, help);
        for adjacency in adjacencies.iter().filter(|adjacency| adjacency.index <= MAX_INDEX) {
            let labels = [("interface", adjacency.interface.as_str()), ("address", &adjacency.address)];
            metric.sample(&labels, figure(adjacency));
        }
    }
}
