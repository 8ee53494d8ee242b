//! ARP and neighbour discovery in the graph: tables of frames.

use crate::interface::Interface;
use crate::ip::topology::{self, address};
use crate::testing::{Bench, rows, run_table};
use std::sync::Arc;

/// The network in which neighbours speak with interface 1.
pub(crate) fn set_up(bench: &mut Bench) {
    topology::set_up(bench, 300);
    let ranges = [
        ("10.1.0.0", "10.1.255.255"),
        ("10.0.1.128", "10.0.1.255"),
        ("192.0.2.1", "192.0.2.1"),
        ("2001:db8:1001::", "2001:db8:1001:ffff:ffff:ffff:ffff:ffff"),
        ("2001:db8:1::8000", "2001:db8:1::ffff"),
    ];
    let proxy_ranges = Arc::new(ranges.map(|(first, last)| (address(first), address(last))).to_vec());
    let interface = topology::interface(1, 300);
    bench.set_interface(1, Interface { proxy_ranges, ..interface });
    bench.chain("ip6-unicast", 1, &["ip6-nd-proxy"], "ip6-lookup");
}

#[test]
fn arp_is_answered_and_told_of_where_there_is_something_to_learn() {
    run_table(&rows(include_str!("../../tests/vectors/neighbour.txt")), set_up);
}

#[test]
fn solicitations_are_answered_and_told_of_where_there_is_something_to_learn() {
    run_table(&rows(include_str!("../../tests/vectors/nd.txt")), set_up);
}
