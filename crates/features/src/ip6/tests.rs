//! IPv6 forwarding as a whole.

use crate::ip::topology;
use crate::testing::{forwarding_nodes, rows, run_table_on};

#[test]
fn packets_are_forwarded_refused_and_reported_as_the_rfcs_ask() {
    let rows = rows(include_str!("../../tests/vectors/ip6.txt"));
    run_table_on(&forwarding_nodes(), &rows, |bench| {
        topology::set_up(bench, 1280);
    });
}
