//! Backends that are for clients inside alone, or for all others.

use super::changes::{asked_by, backend, web, with};
use super::*;
use std::collections::BTreeSet;

const OUTSIDE: u32 = 0x0a00_0202;
const INSIDE: u32 = 0x0a00_0702;

fn of(host: u8, clients: BackendClients) -> BackendConfig {
    BackendConfig { clients, ..active(backend(host)) }
}

/// Clients from 10.0.7.0 to 10.0.8.3 are inside, by two ranges that overlap.
fn split(backends: Vec<BackendConfig>) -> VipConfig {
    let range = |first: &str, last: &str| (at(first, 0).0, at(last, 0).0);
    let inside = [range("10.0.7.0", "10.0.7.255"), range("10.0.7.128", "10.0.8.3")].into();
    VipConfig { inside, ..web(backends) }
}

/// Who gets sessions from many ports of a client.
fn given(bench: &mut Bench, client: u32, first: u16) -> BTreeSet<Result<u8, String>> {
    (first..first + 60).map(|port| asked_by(bench, client, port)).collect()
}

fn all<const N: usize>(hosts: [u8; N]) -> BTreeSet<Result<u8, String>> {
    hosts.into_iter().map(Ok).collect()
}

#[test]
fn who_is_inside_has_other_backends_than_who_is_not() {
    use BackendClients::{All, Inside, Outside};
    for algorithm in [Algorithm::Maglev, Algorithm::LeastFlows] {
        let backends = vec![of(1, All), of(2, Inside), of(3, Outside)];
        let (mut bench, mut balancer) = with(VipConfig { algorithm, ..split(backends) });
        assert_eq!(given(&mut bench, INSIDE, 1000), all([1, 2]));
        assert_eq!(given(&mut bench, OUTSIDE, 1000), all([1, 3]));
        // The ends of ranges, and their neighbours.
        for (client, hosts) in
            [(0x0a00_0700, [1, 2]), (0x0a00_0803, [1, 2]), (0x0a00_06ff, [1, 3]), (0x0a00_0804, [1, 3])]
        {
            assert_eq!(given(&mut bench, client, 1000), all(hosts), "{client:#x}");
        }
        // Nobody is left for those outside; then it is the other way round, and sessions that there are go on.
        for (clients, inside, first) in [(Inside, true, 2000), (Outside, false, 3000)] {
            balancer.set("web", Some(VipConfig { algorithm, ..split(vec![of(2, clients)]) }));
            publish(&mut bench, &mut balancer);
            for (client, is_inside) in [(INSIDE, true), (OUTSIDE, false)] {
                let nobody = BTreeSet::from([Err("balance no-backend".to_owned())]);
                let want = if inside == is_inside { all([2]) } else { nobody };
                assert_eq!(given(&mut bench, client, first), want, "{clients:?} {client:#x}");
            }
        }
        assert_eq!(given(&mut bench, INSIDE, 2000), all([2]));
    }
}

/// The client of a backend that isn't for it any more is given another, whatever it had last.
#[test]
fn affinity_ends_where_a_backend_is_for_others() {
    use BackendClients::{All, Inside, Outside};
    let config = |backends| VipConfig { affinity: 60, ..split(backends) };
    let (mut bench, mut balancer) = with(config(vec![of(1, All)]));
    assert_eq!(given(&mut bench, INSIDE, 1000), all([1]));
    assert_eq!(given(&mut bench, OUTSIDE, 1000), all([1]));
    balancer.set("web", Some(config(vec![of(1, Outside), of(2, Inside)])));
    publish(&mut bench, &mut balancer);
    assert_eq!(given(&mut bench, INSIDE, 2000), all([2]));
    assert_eq!(given(&mut bench, OUTSIDE, 2000), all([1]));
}

/// Then it is as if nobody were said to be inside.
#[test]
fn a_vip_without_a_difference_has_one_table() {
    let alike = || (1..=3).map(|host| of(host, BackendClients::All)).collect::<Vec<_>>();
    let (mut plain, balancer) = with(web(alike()));
    let (mut bench, other) = with(split(alike()));
    let bytes = |balancer: &Balancer| balancer.placed("web").unwrap().bytes();
    assert_eq!(bytes(&balancer), bytes(&other));
    for port in 1000..1030 {
        assert_eq!(asked_by(&mut bench, INSIDE, port), asked_by(&mut plain, INSIDE, port));
    }
}
