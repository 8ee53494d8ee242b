//! Which ports sessions are given, and when they give them back.

use super::*;
use crate::session::nat::Wish;
use crate::session::room::Evicted;
use core::net::IpAddr;
use proptest::prelude::*;
use std::collections::BTreeMap;
use tables::session::{Key, Seed};

/// A UDP packet of A to B, from another port; checksums aren't looked at on the way.
pub(super) fn from_port(port: u16) -> Vec<u8> {
    let mut frame = packet(NAT, "udp").frame;
    frame[34..36].copy_from_slice(&port.to_be_bytes());
    frame
}

/// The same of another host of its network.
pub(super) fn from_host(host: u8, port: u16) -> Vec<u8> {
    let mut frame = from_port(port);
    frame[29] = host;
    summed(frame)
}

/// With the checksum that its IPv4 header has now.
pub(super) fn summed(mut frame: Vec<u8>) -> Vec<u8> {
    frame[24..26].fill(0);
    let checksum = wire::checksum::Partial::of(&frame[14..34]).checksum();
    frame[24..26].copy_from_slice(&checksum.to_be_bytes());
    frame
}

/// The same to another port.
pub(super) fn to_port(mut frame: Vec<u8>, port: u16) -> Vec<u8> {
    frame[36..38].copy_from_slice(&port.to_be_bytes());
    frame
}

/// Sends a packet and gives source and source port of what comes out, or why nothing does.
pub(super) fn sent_as(bench: &mut Bench, frame: Vec<u8>) -> Result<(u32, u16), String> {
    let outcome = bench.run(2, &[frame], 1);
    match outcome.sent.get(&3) {
        Some(frames) => {
            let ip = &frames[0];
            let address = u32::from_be_bytes(*ip[12..16].first_chunk().unwrap());
            Ok((address, u16::from_be_bytes([ip[20], ip[21]])))
        }
        None => Err(outcome.drops.into_keys().collect()),
    }
}

#[test]
fn a_port_serves_as_many_sessions_as_there_are_destinations() {
    let tenant = translating(pool(50000..=50003));
    let mut bench = bench(slowest(), std::slice::from_ref(&tenant));
    let mut ports: Vec<u16> = (0..4).map(|n| sent_as(&mut bench, from_port(40000 + n)).unwrap().1).collect();
    assert!(
        ports.iter().enumerate().all(|(at, port)| port % 2 == at as u16 % 2),
        "parity is kept: {ports:?}"
    );
    let who_has_50001 = 40000 + ports.iter().position(|port| *port == 50001).unwrap() as u16;
    ports.sort_unstable();
    assert_eq!(ports, [50000, 50001, 50002, 50003]);
    let refused = Err("nat pool-exhausted".to_string());
    assert_eq!(sent_as(&mut bench, from_port(40004)), refused);
    bench.now += SECOND;
    assert_eq!(sent_as(&mut bench, from_port(40005)), refused);
    assert_eq!(tenant.nat.as_ref().unwrap().figures.exhausted.load(Ordering::Relaxed), 2);
    for other in 54..60 {
        assert!(sent_as(&mut bench, to_port(from_port(40004), other)).is_ok(), "to another destination");
    }
    wait(&mut bench, 1);
    assert_eq!((translations(&tenant), seen(&mut bench).len()), (10, 10), "those refused are no sessions");
    let outside =
        Filter { address: Some("192.0.2.1".parse().unwrap()), port: Some(50001), ..Filter::default() };
    let as_seen = sessions(&mut bench).look(&outside, 0, u32::MAX).0;
    assert!(
        as_seen.iter().any(|seen| seen.endpoints().0.1 == who_has_50001),
        "found by what it is seen as: {as_seen:?}"
    );
    let one = Filter { port: Some(40001), ..Filter::default() };
    assert_eq!(sessions(&mut bench).clear(&one, 0, u32::MAX, 0).0, 1);
    assert_eq!(
        sent_as(&mut bench, from_port(40007)).map(|seen| seen.0),
        Ok(POOL),
        "the one that was given back"
    );
}

/// SFDP's weakness 11: thirteen addresses, four tries, and no counters.
#[test]
fn a_pool_has_any_number_of_addresses_and_all_of_their_ports() {
    const ADDRESSES: u32 = 16;
    let addresses = vec![POOL..=POOL + ADDRESSES - 1];
    let tenant = translating(Pool { addresses, ..pool(50000..=50007) });
    let mut bench = bench(slowest(), std::slice::from_ref(&tenant));
    let mut given = BTreeMap::<u32, Vec<u16>>::new();
    let mut refused = 0;
    // As many of each host as its address has, so that one will do.
    for (host, port) in (2..252).flat_map(|host| (0..8).map(move |n| (host, 40000 + n))) {
        match sent_as(&mut bench, from_host(host, port)) {
            Ok((address, port)) => given.entry(address).or_default().push(port),
            Err(why) => {
                assert_eq!(why, "nat pool-exhausted");
                refused += 1;
            }
        }
    }
    let all: Vec<u32> = given.keys().copied().collect();
    assert_eq!(all, (POOL..POOL + ADDRESSES).collect::<Vec<_>>());
    for (address, ports) in &mut given {
        ports.sort_unstable();
        assert_eq!(*ports, (50000..=50007).collect::<Vec<_>>(), "of {address:#x}");
    }
    let figures = &tenant.nat.as_ref().unwrap().figures;
    let counted = [&figures.created, &figures.exhausted].map(|figure| figure.load(Ordering::Relaxed));
    assert_eq!(counted, [u64::from(ADDRESSES) * 8, refused]);
    assert_eq!(translations(&tenant), u64::from(ADDRESSES) * 8);
}

#[test]
fn what_a_session_was_given_it_gives_back() {
    let tenant = Tenant { max_sessions: 2, ..translating(pool(50000..=50001)) };
    let mut bench = bench(slowest(), std::slice::from_ref(&tenant));
    for n in 0..10 {
        assert!(
            sent_as(&mut bench, from_port(40000 + n)).is_ok(),
            "the oldest one makes room, and gives its port back"
        );
    }
    assert_eq!(translations(&tenant), 2);
    wait(&mut bench, 6);
    assert_eq!((translations(&tenant), seen(&mut bench).len()), (0, 0), "expired");
    assert!(sent_as(&mut bench, from_port(40000)).is_ok());
    set_tenants(&mut bench, &[]);
    wait(&mut bench, 1);
    assert_eq!((translations(&tenant), seen(&mut bench).len()), (0, 0), "its tenant is gone");
}

#[test]
fn a_session_ends_when_its_address_is_no_longer_the_pool_s() {
    let tenant = translating(pool(50000..=50000));
    let mut bench = bench(slowest(), std::slice::from_ref(&tenant));
    pass(&mut bench, NAT, "udp");
    let figures = Arc::clone(&tenant.nat.as_ref().unwrap().figures);
    let larger =
        Pool { figures: Arc::clone(&figures), addresses: vec![POOL..=POOL + 1], ..pool(50000..=50007) };
    set_tenants(&mut bench, &[translating(larger)]);
    pass(&mut bench, NAT, "udp answer");
    assert_eq!(one(&mut bench).session.packets(), [1, 1], "more addresses and ports don't matter");
    let other = Pool { figures: Arc::clone(&figures), ..pool(50001..=50001) };
    set_tenants(&mut bench, &[translating(other)]);
    // Its next packet is a new session's, before anybody has looked through all of them.
    assert_eq!(sent_as(&mut bench, from_port(40000)), Ok((POOL, 50001)));
    assert_eq!(figures.translations(), 1);
    let other = Pool { figures: Arc::clone(&figures), ..pool(50002..=50002) };
    set_tenants(&mut bench, &[translating(other)]);
    wait(&mut bench, 1);
    assert_eq!((seen(&mut bench).len(), figures.translations()), (0, 0));
}

#[test]
fn without_a_pool_nothing_leaves() {
    let mut bench = bench(slowest(), &[Tenant { nat: None, ..translating(pool(1..=1)) }]);
    dropped(&mut bench, NAT, "udp", "nat no-pool");
    let hosts = Deterministic { first: 0x0a00_0203, last: 0x0a00_0207 };
    let strangers = Pool { deterministic: Some(hosts), ..pool(1024..=65535) };
    set_tenants(&mut bench, &[translating(strangers)]);
    dropped(&mut bench, NAT, "udp", "nat no-share");
}

#[test]
fn a_host_has_its_ports_by_its_address() {
    let hosts = Deterministic { first: 0x0a00_0200, last: 0x0a00_02ff };
    let fixed = Pool { deterministic: Some(hosts), ..pool(1024..=65535) };
    let mut bench = bench(slowest(), &[translating(fixed)]);
    for n in 0..252 {
        let (address, port) = sent_as(&mut bench, from_port(40000 + n)).unwrap();
        // 64512 ports are 252 for each of 256 hosts; A is the third.
        assert_eq!((address, (1528..1780).contains(&port)), (POOL, true), "{port}");
    }
    assert_eq!(sent_as(&mut bench, from_port(41000)), Err("nat pool-exhausted".into()));
    // Its neighbour, to the same remote in the same tick, has its own ports of the same address.
    let seen = sent_as(&mut bench, from_host(3, 41000));
    assert!(
        seen.as_ref().is_ok_and(|(address, port)| *address == POOL && (1780..2032).contains(port)),
        "{seen:?}"
    );
}

/// A port of UDP is another one than that of TCP, at the remote, too.
#[test]
fn that_one_protocol_has_no_port_says_nothing_of_others() {
    let mut bench = bench(slowest(), &[translating(pool(50000..=50000))]);
    assert!(sent_as(&mut bench, from_port(40000)).is_ok());
    assert_eq!(sent_as(&mut bench, from_port(40001)), Err("nat pool-exhausted".into()));
    pass(&mut bench, NAT, "tcp syn");
}

#[test]
fn what_does_not_lead_outside_or_was_there_before_keeps_its_addresses() {
    let mut bench = bench(slowest(), &[Tenant { outside: vec![5], ..translating(pool(50000..=50000)) }]);
    pass(&mut bench, V4, "udp");
    pass(&mut bench, V4, "udp answer");
    set_tenants(&mut bench, &[translating(pool(50000..=50000))]);
    pass(&mut bench, V4, "udp");
    pass(&mut bench, V4, "udp answer");
    assert_eq!((one(&mut bench).translated, count(&bench, "nat", "exempt")), (None, 2));
    pass(&mut bench, V6, "udp");
    pass(&mut bench, V6, "udp answer");
}

#[test]
fn nobody_comes_round_the_translation() {
    let mut bench = bench(slowest(), &[translating(pool(50000..=50000))]);
    pass(&mut bench, NAT, "udp");
    dropped(&mut bench, V4, "udp answer", "nat untranslated");
    dropped(&mut bench, V4, "error of a router", "nat untranslated");
    pass(&mut bench, NAT, "udp answer");
}

/// Sessions of hosts 0..8 to remotes 0..3 come and go: what they are seen as is never anybody else's, a host has always the same address, and
/// one is refused only where all ports are taken.
fn check(steps: &[(u8, u8, u8, u8)], ports: RangeInclusive<u16>) {
    let addresses = vec![POOL..=POOL + 1, POOL + 9..=POOL + 9];
    let tenant = translating(Pool { addresses, ..pool(ports.clone()) });
    let mut tenants = Tenants::default();
    (tenants.generation, tenants.workers, tenants.per_worker) = (1, 1, 1 << 20);
    tenants.shares = Seed::known([1, 2, 3, 4]);
    tenants.set(1, Some(tenant.clone()));
    let pool = tenant.nat.clone().unwrap();
    let mut sessions = Sessions::default();
    let mut live = BTreeMap::new();
    let mut taken = BTreeMap::new();
    let mut paired = BTreeMap::new();
    for (now, (kind, host, port, remote)) in steps.iter().enumerate() {
        let now = now as u64 * SECOND;
        let id = (kind % 3, host % 8, port % 16, remote % 3);
        let protocol = [17, 6, 1][usize::from(id.0)];
        let local = (0x0a00_0000 + u32::from(id.1), 40000 + u16::from(id.2));
        let far = (0x0800_0000 + u32::from(id.3), if protocol == 1 { local.1 } else { 53 });
        if let Some((index, seen)) = live.remove(&id) {
            sessions.end(index, End::Cleared);
            taken.remove(&seen);
            continue;
        }
        let (key, from_high) = Key::v4(0, protocol, local, far);
        let hash = sessions.table.hash(&key);
        let of_key = (key, hash, from_high);
        let begun = sessions.begin(&tenants, (1, 2), &tenant, of_key, now, &mut Evicted::default());
        let (index, new) = begun.unwrap();
        assert!(new);
        let wish = Wish { source: None, responder: far };
        match sessions.translate(&tenants, 0, index, (&pool, wish), None, now) {
            Ok(()) => {
                let handle = sessions.table.handle(index).unwrap();
                let [(address, port), _] = sessions.translations.endpoints(handle).unwrap();
                assert!(ports.contains(&port));
                let other = (far.0, if protocol == 1 { port } else { far.1 });
                let IpAddr::V4(v4) = address else { panic!() };
                let seen = (protocol, v4.to_bits(), port, far.0);
                assert_eq!(taken.insert(seen, id), None, "it is somebody's already");
                assert_eq!(*paired.entry(local.0).or_insert(v4), v4);
                let alias = Key::v4(0, protocol, other, (v4.to_bits(), port)).0;
                let found = sessions.find(&alias, sessions.table.hash(&alias));
                assert_eq!(found.map(|found| found.0), Some(index));
                live.insert(id, (index, seen));
            }
            Err(_) => {
                sessions.end(index, End::Cleared);
                let address = paired.get(&local.0).map(|address| address.to_bits());
                let all = taken.keys().filter(|seen| {
                    seen.0 == protocol && address.is_none_or(|address| address == seen.1) && seen.3 == far.0
                });
                assert!(all.count() >= ports.len(), "there is a port left");
            }
        }
        assert_eq!(pool.figures.translations(), live.len() as u64);
    }
    live.into_values().for_each(|(index, _)| sessions.end(index, End::Cleared));
    assert_eq!(pool.figures.translations(), 0);
    for seen in taken.keys() {
        let far = (seen.3, if seen.0 == 1 { seen.2 } else { 53 });
        let alias = Key::v4(0, seen.0, far, (seen.1, seen.2)).0;
        assert_eq!(sessions.find(&alias, sessions.table.hash(&alias)), None);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_port_is_in_use_twice(
        steps in prop::collection::vec((any::<u8>(), any::<u8>(), any::<u8>(), any::<u8>()), 1..800),
        first in 39990_u16..40020,
        ports in 1_u16..20,
    ) {
        check(&steps, first..=first + ports - 1);
    }
}
