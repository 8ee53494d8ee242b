//! ICMP and local delivery as a whole.

use crate::ip::topology;
use crate::testing::{Bench, Dropped, Seen, Verdict, rows, run_table};
use graph::simd::Tier;

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

#[test]
fn a_packet_is_one_drop_as_it_came_whether_its_sender_is_told_or_not() {
    for (table, mtu, name, node, error) in [
        (include_str!("../../tests/vectors/icmp4.txt"), 300, "time exceeded", "ip4-rewrite", "icmp4-error"),
        (include_str!("../../tests/vectors/icmp6.txt"), 1280, "no route", "ip6-lookup", "icmp6-error"),
    ] {
        let row = rows(table).into_iter().find(|row| row.name == name).unwrap();
        let Verdict::SentAndDropped(_, reason) = row.verdict else { panic!("{name}: {:?}", row.verdict) };
        let mut bench = Bench::new(Tier::detect());
        topology::set_up(&mut bench, mtu);
        let seen = Seen::of(&mut bench);
        let outcome = bench.run(row.rx_if, &vec![row.frame.clone(); 1000], 200);
        let told = outcome.sent[&row.rx_if].len();
        assert!(told < 1000, "{name}: the limit of errors isn't reached");
        assert_eq!(outcome.drops, [(reason.to_string(), 1000)].into());

        let counters = bench.graph.counters();
        assert!(reason.starts_with(node));
        let id = bench.drop_id(reason);
        let of =
            |interface| counters.drops_of(interface).enumerate().filter(|(_, n)| *n > 0).collect::<Vec<_>>();
        assert_eq!((of(row.rx_if), of(1)), (vec![(usize::from(id), 1000)], vec![]));
        assert_eq!(counters.interface(row.rx_if).rx_drops.get(), 1000);
        let untold = bench.plan.counters.iter().position(|(at, spec)| {
            bench.plan.nodes[usize::from(*at)].spec.name == error && spec.name == "icmp-limited"
        });
        assert_eq!(counters.node(untold.unwrap() as u16).get(), 1000 - told as u64);
        let one = Dropped { frame: row.frame.clone(), rx_if: row.rx_if, reason: id };
        assert!(seen.take() == vec![one; 1000]);
    }
}
