//! ARP as a whole: tables of frames, and control thread and worker together.

use crate::interface::{Interface, Interfaces};
use crate::ip::topology::{self, address};
use crate::testing::{Bench, rows, run_table};
use std::sync::Arc;

fn set_up(bench: &mut Bench) {
    topology::set_up(bench, 300);
    let ranges = [("10.1.0.0", "10.1.255.255"), ("10.0.1.128", "10.0.1.255"), ("192.0.2.1", "192.0.2.1")];
    let proxy_ranges = Arc::new(ranges.map(|(first, last)| (address(first), address(last))).to_vec());
    let interface = topology::interface(1, 300);
    bench.set_interface(1, Interface { proxy_ranges, ..interface });
    assert!(!bench.publisher.current().get(bench.key::<Interfaces>()).get(1).proxy_ranges.is_empty());
}

#[test]
fn arp_is_answered_and_told_of_where_there_is_something_to_learn() {
    run_table(&rows(include_str!("../../tests/vectors/neighbour.txt")), set_up);
}
