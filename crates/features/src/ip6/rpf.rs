//! `ip6-rpf`: drops packets whose source address isn't behind the interface they came in by (RFC 3704).
//!
//! | edge | packets |
//! |---|---|
//! | *arc `ip6-unicast`* | believed |
//! | `drop` | see [`rpf::Drop`] |
//!
//! An interface's [`Rpf`](crate::interface::Rpf) says how strict it is; with several ways back each of them
//! counts, also one that other VRFs lead to. The default route is a route back like any other.

use crate::ip::family::V6;
use crate::ip::rpf::{self, ReversePath};
use graph::{Feature, NodeSpec};

graph::edges! {
    /// Where packets go besides the arc.
    enum Next {
        Drop => "drop",
    }
}

/// The node's declaration.
pub const NODE: NodeSpec = NodeSpec {
    name: "ip6-rpf",
    help: "Checks that a route leads back to the source of IPv6 packets.",
    edges: Next::NAMES,
    drops: rpf::Drop::SPECS,
    features: &[Feature { arc: super::UNICAST, runs_before: &[], runs_after: &[] }],
    make: |cx| ReversePath::<V6>::boxed(cx, super::UNICAST),
    ..NodeSpec::EMPTY
};

#[cfg(test)]
mod tests {
    use crate::interface::{Interface, Rpf};
    use crate::ip::topology;
    use crate::testing::{forwarding_nodes, rows, run_table_on};
    use std::sync::Arc;

    /// What interface 1 may send from besides: a foreign network, some hosts of interface 2's, and one of our own addresses.
    const ALLOWED: &[(&str, &str)] = &[
        ("2001:db8:f::", "2001:db8:f:ffff:ffff:ffff:ffff:ffff"),
        ("2001:db8:2::20", "2001:db8:2::22"),
        ("2001:db8:3::1", "2001:db8:3::1"),
    ];

    #[test]
    fn sources_are_believed_where_a_route_leads_back() {
        let rows = rows(include_str!("../../tests/vectors/rpf6.txt"));
        run_table_on(&forwarding_nodes(), &rows, |bench| {
            topology::set_up(bench, 1500);
            for (index, rpf) in [(1, Rpf::Strict), (2, Rpf::Strict), (3, Rpf::Loose), (5, Rpf::Strict)] {
                let allowed = if index == 1 { ALLOWED } else { &[] };
                let range =
                    |(first, last): &(&str, &str)| (topology::address(first), topology::address(last));
                let allowed_sources = Arc::new(allowed.iter().map(range).collect());
                let interface = Interface { rpf, allowed_sources, ..topology::interface(index, 1500) };
                bench.set_interface(index, interface);
                bench.chain(super::super::UNICAST, index, &["ip6-rpf"], "ip6-lookup");
            }
        });
    }
}
