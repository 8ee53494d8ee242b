//! ICMP and local delivery as a whole.

use crate::ip::topology;
use crate::testing::{rows, run_table};

#[test]
fn echoes_are_answered_and_errors_reported_over_ip4() {
    let rows = rows(include_str!("../../tests/vectors/icmp4.txt"));
    run_table(&rows, |bench| {
        topology::set_up(bench, 300);
    });
}

#[test]
fn echoes_are_answered_and_errors_reported_over_ip6() {
    let rows = rows(include_str!("../../tests/vectors/icmp6.txt"));
    run_table(&rows, |bench| {
        topology::set_up(bench, 1280);
    });
}
