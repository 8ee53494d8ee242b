//! Prefixes of IPv6 that are exchanged, in either direction.

use super::*;
use crate::session::tests::handover::{WORKERS, workers_of};
use core::net::Ipv6Addr;

const NPTV6: &str = include_str!("../../../../tests/vectors/nptv6.txt");

fn bits(text: &str) -> u128 {
    text.parse::<Ipv6Addr>().unwrap().to_bits()
}

/// 2001:db8:1001::/48 is seen as 2001:db8:9999::/48.
fn exchanging() -> Tenant {
    let pair = PrefixPair { inside: bits("2001:db8:1001::"), outside: bits("2001:db8:9999::"), len: 48 };
    translating(Pool { addresses: Vec::new(), prefixes: Prefixes::new(&[pair]), ..pool(1024..=65535) })
}

fn map(bench: &mut Bench, tenant: &Tenant) {
    let key = bench.key::<Tenants>();
    let pool = Arc::clone(tenant.nat.as_ref().unwrap());
    bench.publish(|draft| {
        draft.change(key, |all| {
            all.mapped.clear();
            all.mapped.add(0, 1, &pool);
        });
    });
}

fn exchanged(tier: Tier) -> (Bench, Tenant) {
    let tenant = exchanging();
    let mut bench = bench(tier, std::slice::from_ref(&tenant));
    map(&mut bench, &tenant);
    (bench, tenant)
}

const CONVERSATIONS: [&str; 9] = [
    "udp asks",
    "udp asked",
    "udp hairpin",
    "tcp asks",
    "tcp asked",
    "tcp hairpin",
    "echo asks",
    "echo asked",
    "echo hairpin",
];

#[test]
fn either_side_begins_and_the_other_answers() {
    for tier in Tier::available() {
        for name in CONVERSATIONS {
            let (mut bench, tenant) = exchanged(tier);
            pass(&mut bench, NPTV6, name);
            pass(&mut bench, NPTV6, &format!("{name} answer"));
            pass(&mut bench, NPTV6, name);
            assert_eq!(one(&mut bench).session.packets(), [2, 1], "{name}");
            assert_eq!(translations(&tenant), 1, "{name}");
            assert_eq!((count(&bench, "nat", "out"), count(&bench, "nat", "in")), (2, 1), "{name}");
            // The same tenant, changed in what doesn't concern it.
            let changed = Tenant { max_sessions: 7, ..tenant };
            set_tenants(&mut bench, std::slice::from_ref(&changed));
            pass(&mut bench, NPTV6, &format!("{name} answer"));
            assert_eq!(one(&mut bench).session.packets(), [2, 2], "{name}");
            // Without its prefix, it ends.
            set_tenants(&mut bench, &[Tenant { nat: Some(Arc::new(pool(1024..=65535))), ..changed.clone() }]);
            (0..64).for_each(|_| bench.round());
            assert!(seen(&mut bench).is_empty(), "{name}");
            assert_eq!(translations(&changed), 0, "{name}");
        }
    }
}

/// RFC 6296 section 2: no transport checksum changes. Scapy has worked out all of them anew.
#[test]
fn no_checksum_changes() {
    for name in CONVERSATIONS {
        let Row { rx_if, frame, verdict, .. } = packet(NPTV6, name);
        let Verdict::Sent(sent) = verdict else { panic!("{name}") };
        let of = |interface, frame: &[u8]| frame[if interface == 3 { 40 } else { 54 }..].to_vec();
        assert_eq!(of(sent[0].0, &sent[0].1), of(rx_if, &frame), "{name}");
    }
}

#[test]
fn errors_come_from_the_host_that_they_concern() {
    for tier in Tier::available() {
        for name in ["error of the host", "error of an inside router"] {
            let (mut bench, _) = exchanged(tier);
            pass(&mut bench, NPTV6, "udp asked");
            // It asks by port 40000 in the quotes, too.
            pass(&mut bench, NPTV6, name);
        }
    }
}

#[test]
fn what_can_not_be_exchanged_is_dropped_by_name() {
    for tier in Tier::available() {
        let (mut bench, tenant) = exchanged(tier);
        dropped(&mut bench, NPTV6, "subnet of ones", "nat unmappable");
        assert_eq!(translations(&tenant), 0);
    }
}

/// What leads outside with another prefix keeps it, and so does what comes from there to another one.
#[test]
fn other_prefixes_stay() {
    for tier in Tier::available() {
        let (mut bench, _) = exchanged(tier);
        for name in ["udp", "udp answer"] {
            pass(&mut bench, V6, name);
        }
        assert_eq!(count(&bench, "nat", "exempt"), 1);
    }
}

#[test]
fn esp_is_exchanged_and_ah_never() {
    for tier in Tier::available() {
        let (mut bench, tenant) = exchanged(tier);
        ["esp asks", "esp asked"].iter().for_each(|name| pass(&mut bench, NPTV6, name));
        assert_eq!((seen(&mut bench).len(), translations(&tenant)), (2, 2));
        dropped(&mut bench, NPTV6, "ah asks", "nat authenticated");
    }
}

/// Whoever begins, question and answer are one worker's: both keys have the hosts' own addresses there.
#[test]
fn both_sides_are_one_worker_s() {
    let mut owners = [0; WORKERS];
    for seed in 1..9 {
        for name in CONVERSATIONS {
            let tenant = exchanging();
            let mut workers = workers_of(slowest(), [seed; 4], &tenant);
            workers.iter_mut().for_each(|worker| map(worker, &tenant));
            for (at, name) in [(0, name.to_string()), (1, format!("{name} answer")), (1, name.to_string())] {
                let row = packet(NPTV6, &name);
                let Verdict::Sent(expected) = row.verdict else { panic!("{name}") };
                let (interface, frame) = &expected[0];
                let mut came =
                    workers[at].run(row.rx_if, &[row.frame], 1).sent.remove(interface).unwrap_or_default();
                let other = &mut workers[1 - at];
                other.round();
                other.settle();
                came.extend(other.wires[interface].take());
                assert_eq!(came, std::slice::from_ref(frame), "{name}");
            }
            let sessions: Vec<usize> = workers.iter_mut().map(|worker| seen(worker).len()).collect();
            assert_eq!(sessions.iter().sum::<usize>(), 1, "{name}");
            owners.iter_mut().zip(sessions).for_each(|(owner, more)| *owner += more);
        }
    }
    assert!(owners.iter().all(|sessions| *sessions > 0), "{owners:?}");
}
