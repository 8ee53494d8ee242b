//! A tenant that lets everything pass changes nothing for anybody, but for fragments that come alone: they wait for the first of theirs.

use super::*;
use crate::testing::{forwarding_nodes, run_table, run_table_on};

fn all_interfaces(bench: &mut Bench) {
    for index in 1..=6 {
        if index != 6 {
            bench.chain("ip4-unicast", index, &["ip4-session-input"], "ip4-lookup");
            bench.chain("ip6-unicast", index, &["ip6-session-input"], "ip6-lookup");
        }
    }
    set_tenants(bench, &[tenant()]);
    let key = bench.key::<Tenants>();
    bench.publish(|draft| {
        draft.change(key, |all| {
            (1..=6).for_each(|at| all.set_place(at, Place { tenant: 1, ..Place::default() }))
        });
    });
}

/// Rows without those.
fn not_alone(text: &'static str) -> Vec<Row> {
    rows(text).into_iter().filter(|row| !row.name.contains("fragment")).collect()
}

#[test]
fn forwarding_stays_as_it_is() {
    for (text, mtu) in [
        (include_str!("../../../tests/vectors/ip4.txt"), 300),
        (include_str!("../../../tests/vectors/ip6.txt"), 1280),
    ] {
        run_table_on(&forwarding_nodes(), &not_alone(text), |bench| {
            topology::set_up(bench, mtu);
            all_interfaces(bench);
        });
    }
}

#[test]
fn every_packet_of_the_conversations_passes() {
    for text in [V4, V6] {
        run_table(&not_alone(text), |bench| {
            topology::set_up(bench, 1500);
            all_interfaces(bench);
        });
    }
}
