//! What becomes of sessions when backends change, and who gets new ones.

use super::events::Listener;
use super::*;
use std::collections::BTreeMap;

const VIP: &str = "10.96.0.1";

pub(super) fn backend(host: u8) -> Endpoint {
    at(&format!("10.2.0.{host}"), 8080)
}

pub(super) fn in_state(host: u8, state: BackendState) -> BackendConfig {
    BackendConfig { state, ..active(backend(host)) }
}

pub(super) fn web(backends: Vec<BackendConfig>) -> VipConfig {
    vip(IpProtocol::UDP, at(VIP, 80), backends)
}

/// A datagram from a client to the VIP, as it comes in by interface 2.
fn question(client: u32, port: u16) -> Vec<u8> {
    let row = packet(BALANCE4, "udp").frame;
    let (mut frame, ip) = (row, 14);
    frame[ip + 12..ip + 16].copy_from_slice(&client.to_be_bytes());
    frame[ip + 20..ip + 22].copy_from_slice(&port.to_be_bytes());
    // No checksum, and that of the header worked out anew.
    frame[ip + 26..ip + 28].fill(0);
    frame[ip + 10..ip + 12].fill(0);
    let sum = wire::checksum::Partial::of(&frame[ip..ip + 20]).checksum();
    frame[ip + 10..ip + 12].copy_from_slice(&sum.to_be_bytes());
    frame
}

const CLIENT: u32 = 0x0a00_0202;

/// Who gets a datagram; nobody: dropped, for that reason.
pub(super) fn asked(bench: &mut Bench, port: u16) -> Result<u8, String> {
    asked_by(bench, CLIENT, port)
}

pub(super) fn asked_by(bench: &mut Bench, client: u32, port: u16) -> Result<u8, String> {
    let outcome = bench.run(2, &[question(client, port)], 1);
    match outcome.sent.get(&3).map(Vec::as_slice) {
        Some([frame]) => Ok(frame[19]),
        _ => Err(outcome.drops.keys().next().cloned().unwrap_or_default()),
    }
}

fn everybody(bench: &mut Bench, ports: core::ops::Range<u16>) -> BTreeMap<u16, u8> {
    ports.map(|port| (port, asked(bench, port).unwrap())).collect()
}

fn figures(balancer: &mut Balancer) -> (Figures, BTreeMap<u8, Figures>) {
    balancer.set("again", None);
    let ledger = balancer.publish().ledger;
    let vip = balancer.placed("web").unwrap();
    let by = vip.backends.iter().map(|one| match one.config.endpoint.0 {
        IpAddr::V4(address) => (address.octets()[3], one.figures(&ledger)),
        IpAddr::V6(_) => panic!(),
    });
    (vip.figures(&ledger), by.collect())
}

pub(super) fn with(config: VipConfig) -> (Bench, Balancer) {
    let mut balancer = Balancer::new(1);
    balancer.set("web", Some(config));
    (network(Tier::available()[0], &mut balancer), balancer)
}

#[test]
fn flows_stay_whatever_becomes_of_backends_and_new_ones_go_where_they_may() {
    let all = || (1..=4).map(|host| active(backend(host))).collect::<Vec<_>>();
    let (mut bench, mut balancer) = with(web(all()));
    let before = everybody(&mut bench, 1000..1200);
    // So many packets that nobody asks any more whether an answer will come.
    (0..9).for_each(|_| assert_eq!(everybody(&mut bench, 1000..1200), before));
    let share = |host| before.values().filter(|by| **by == host).count();
    assert!((1..=4).all(|host| (25..80).contains(&share(host))), "{before:?}");
    let had = share(3) as u64;

    // One more, one draining, one taken away, one with another weight.
    let mut changed = all();
    changed.remove(0);
    changed[0].state = BackendState::Draining;
    changed[1].weight = 3;
    changed.push(active(backend(5)));
    balancer.set("web", Some(web(changed.clone())));
    publish(&mut bench, &mut balancer);
    assert_eq!(everybody(&mut bench, 1000..1200), before);
    let after = everybody(&mut bench, 2000..2200);
    let share = |host| after.values().filter(|by| **by == host).count();
    assert_eq!((share(1), share(2)), (0, 0), "neither who is gone nor who drains");
    assert!((95..145).contains(&share(3)) && (20..60).contains(&share(4)), "three shares of five");
    let has = share(3) as u64;

    // Down: its sessions end, and begin again with others; those of others stay.
    changed[1].state = BackendState::Down;
    balancer.set("web", Some(web(changed)));
    publish(&mut bench, &mut balancer);
    for (port, by) in before.iter().chain(&after) {
        let now = asked(&mut bench, *port).unwrap();
        assert!(if *by == 3 { [4, 5].contains(&now) } else { now == *by }, "{port}: {by} {now}");
    }
    let (sum, by) = figures(&mut balancer);
    assert_eq!((sum.sessions, by[&3].sessions), (400, 0));
    assert_eq!((sum.created, by[&3].created), (400 + had + has, had + has));
    assert_eq!(by[&3].packets, [11 * had + has, 0]);
}

#[test]
fn a_session_without_an_answer_doesn_t_wait_for_a_backend_that_takes_none() {
    let (mut bench, mut balancer) = with(web(vec![active(backend(1))]));
    assert_eq!(asked(&mut bench, 1000), Ok(1));
    balancer.set("web", Some(web(vec![in_state(1, BackendState::Draining), active(backend(2))])));
    publish(&mut bench, &mut balancer);
    assert_eq!(asked(&mut bench, 1000), Ok(2));
    assert_eq!(count(&bench, "balance", "rebalanced"), 1);
    let (_, by) = figures(&mut balancer);
    assert_eq!((by[&1].sessions, by[&2].sessions), (0, 1));
}

/// What has been told: packets from the client, and the backend's last octet.
fn told(listener: &Listener) -> Vec<(What, u64, Option<u8>)> {
    let octet = |[_, (address, _)]: [Endpoint; 2]| match address {
        IpAddr::V4(address) => address.octets()[3],
        IpAddr::V6(_) => panic!(),
    };
    let heard = listener.heard();
    let of = |seen: Seen| (seen.session.packets()[0], seen.translated.map(octet));
    heard.iter().map(|event| (event.what, of(event.seen).0, of(event.seen).1)).collect()
}

/// Who was seen how, and how much was sent to whom, is told of each backend.
#[test]
fn a_session_that_is_given_another_backend_is_told_of_as_another_one() {
    let (mut bench, mut balancer) = with(web(vec![active(backend(1))]));
    let listener = Listener::of_all(&mut bench);
    (0..3).for_each(|_| assert_eq!(asked(&mut bench, 1000), Ok(1)));
    balancer.set("web", Some(web(vec![in_state(1, BackendState::Draining), active(backend(2))])));
    publish(&mut bench, &mut balancer);
    (0..2).for_each(|_| assert_eq!(asked(&mut bench, 1000), Ok(2)));
    wait(&mut bench, 6);
    let end = What::Ended;
    let first =
        [(What::Began, 0, None), (What::Translated, 1, Some(1)), (end(End::Reconfigured), 3, Some(1))];
    let second = [(What::Began, 1, None), (What::Translated, 1, Some(2)), (end(End::Timeout), 2, Some(2))];
    assert_eq!(told(&listener), [first, second].concat());
}

/// What `session-stats` has noted of the one is told with its end, and of the other what has come since: its first packet, too.
#[test]
fn a_session_that_is_given_another_backend_is_noted_anew() {
    let config = |backends| vip(IpProtocol::TCP, at(VIP, 80), backends);
    let (mut bench, mut balancer) = with(config(vec![active(backend(1))]));
    let services = order().chain(["l4-lifecycle", "session-stats", "balance"]).unwrap();
    set_tenants(&mut bench, &[Tenant { chain: [services; 2], ..tenant() }]);
    let listener = Listener::of_all(&mut bench);
    let begin = |bench: &mut Bench, ttl: u8| {
        let (mut frame, ip) = (packet(BALANCE4, "tcp syn").frame, 14);
        frame[ip + 8] = ttl;
        frame[ip + 10..ip + 12].fill(0);
        let sum = wire::checksum::Partial::of(&frame[ip..ip + 20]).checksum();
        frame[ip + 10..ip + 12].copy_from_slice(&sum.to_be_bytes());
        bench.run(2, &[frame], 1).sent[&3][0][19]
    };
    assert_eq!([60, 60].map(|ttl| begin(&mut bench, ttl)), [1, 1]);
    balancer.set("web", Some(config(vec![in_state(1, BackendState::Draining), active(backend(9))])));
    publish(&mut bench, &mut balancer);
    assert_eq!(begin(&mut bench, 64), 9);
    let figures =
        |seen: Seen| seen.stats.unwrap().map(|side| (side.ttl_min, side.ttl_max, side.flags, side.repeated));
    let nothing = (0, 0, 0, 0);
    assert_eq!(figures(one(&mut bench)), [(64, 64, 2, 0), nothing]);
    bench.now += 30_000_000;
    let mut answer = packet(BALANCE4, "tcp syn answer").frame;
    // It acknowledges the SYN; nobody looks at the checksum on the way.
    answer[28..32].copy_from_slice(&1_u32.to_be_bytes());
    assert!(bench.run(3, &[answer], 1).sent.contains_key(&2));
    assert_eq!(one(&mut bench).stats.unwrap()[1].rtt, 30_000, "to who was asked");
    let heard = listener.heard();
    let of_end = heard.iter().find(|event| event.what == What::Ended(End::Reconfigured)).unwrap();
    let [(ttl_min, _, flags, repeated), server] = figures(of_end.seen);
    assert_eq!((ttl_min, flags, repeated > 0, server), (60, 2, true, nothing));
    wait(&mut bench, 61);
    let heard = listener.heard();
    let [over] = &heard[..] else { panic!("{heard:?}") };
    assert_eq!(over.what, What::Ended(End::Timeout));
    assert_eq!(figures(over.seen), [(64, 64, 2, 0), (64, 64, 0x12, 0)]);
}

#[test]
fn one_that_has_lost_its_backend_is_shown_without() {
    let (mut bench, mut balancer) = with(web(vec![active(backend(1))]));
    let listener = Listener::of_all(&mut bench);
    assert_eq!(asked(&mut bench, 1000), Ok(1));
    balancer.set("web", Some(web(vec![in_state(1, BackendState::Draining)])));
    publish(&mut bench, &mut balancer);
    assert_eq!(asked(&mut bench, 1000), Err("balance no-backend".into()));
    wait(&mut bench, 1);
    let all = told(&listener);
    let end = What::Ended;
    let rest = [(What::Began, 1, None), (What::Blocked, 1, None), (end(End::Blocked), 1, None)];
    assert_eq!(all[2..], [&[(end(End::Reconfigured), 1, Some(1))], &rest[..]].concat());
}

#[test]
fn down_sessions_may_be_kept() {
    let (mut bench, mut balancer) = with(web(vec![active(backend(1)), active(backend(2))]));
    // So many that nobody asks any more whether an answer will come.
    let before: Vec<_> = (0..10).map(|_| everybody(&mut bench, 1000..1040)).collect();
    let down = vec![in_state(1, BackendState::Down), active(backend(2))];
    balancer.set("web", Some(VipConfig { keep_down: true, ..web(down) }));
    publish(&mut bench, &mut balancer);
    assert_eq!(everybody(&mut bench, 1000..1040), before[0]);
    assert!(everybody(&mut bench, 2000..2040).values().all(|by| *by == 2));
}

#[test]
fn without_a_backend_packets_are_dropped_and_counted() {
    let (mut bench, mut balancer) = with(web(vec![]));
    assert_eq!(asked(&mut bench, 1000), Err("balance no-backend".into()));
    assert_eq!(balancer.placed("web").unwrap().refused(), 1);
    wait(&mut bench, 1);
    assert!(seen(&mut bench).is_empty(), "it is no session");
    balancer.set("web", Some(web(vec![active(backend(7))])));
    publish(&mut bench, &mut balancer);
    assert_eq!(asked(&mut bench, 1000), Ok(7));
}

#[test]
fn a_vip_that_goes_ends_its_sessions_and_one_that_comes_is_asked_at_once() {
    let (mut bench, mut balancer) = with(web(vec![active(backend(1))]));
    balancer.set("other", Some(vip(IpProtocol::UDP, at(VIP, 81), vec![active(backend(1))])));
    publish(&mut bench, &mut balancer);
    assert_eq!(everybody(&mut bench, 1000..1010).len(), 10);
    balancer.set("web", None);
    publish(&mut bench, &mut balancer);
    assert_eq!(seen(&mut bench).len(), 0);
    assert!(asked(&mut bench, 1000).is_err(), "there is no way to it");
    assert_eq!(one(&mut bench).translated, None);
    balancer.set("web", Some(web(vec![active(backend(2))])));
    publish(&mut bench, &mut balancer);
    assert_eq!(asked(&mut bench, 1000), Ok(2));
    // Elsewhere by the same name: as if another had come.
    balancer.set("web", Some(vip(IpProtocol::UDP, at(VIP, 82), vec![active(backend(2))])));
    publish(&mut bench, &mut balancer);
    assert_eq!(seen(&mut bench).len(), 0);
}

#[test]
fn fewest_sessions_for_their_weight() {
    let mut heavy = active(backend(2));
    heavy.weight = 3;
    let config = VipConfig { algorithm: Algorithm::LeastFlows, ..web(vec![active(backend(1)), heavy]) };
    let (mut bench, mut balancer) = with(config);
    everybody(&mut bench, 1000..1400);
    let (_, by) = figures(&mut balancer);
    assert_eq!((by[&1].sessions, by[&2].sessions), (100, 300));
    // Those of one end: it has the next ones.
    let own = Filter { address: Some(backend(2).0), ..Filter::default() };
    let ended = sessions(&mut bench).clear(&own, 0, u32::MAX, 0).0;
    assert_eq!(ended, 300);
    assert!(everybody(&mut bench, 2000..2200).values().all(|by| *by == 2));
}

#[test]
fn a_client_keeps_its_backend_for_a_while() {
    let two = || vec![active(backend(1)), active(backend(2))];
    let config = |backends| VipConfig { affinity: 60, algorithm: Algorithm::LeastFlows, ..web(backends) };
    let (mut bench, mut balancer) = with(config(two()));
    let first: Vec<u8> =
        (1..=40).map(|host| asked_by(&mut bench, CLIENT + host * 256, 1000).unwrap()).collect();
    assert!(first.contains(&1) && first.contains(&2));
    wait(&mut bench, 40);
    let again = |bench: &mut Bench, port| -> Vec<u8> {
        (1..=40).map(|host| asked_by(bench, CLIENT + host * 256, port).unwrap()).collect()
    };
    assert_eq!(again(&mut bench, 1001), first, "another port, within its time");
    let mut more = two();
    more.push(active(backend(3)));
    balancer.set("web", Some(config(more)));
    publish(&mut bench, &mut balancer);
    wait(&mut bench, 40);
    assert_eq!(again(&mut bench, 1002), first, "counted from the last session, and whoever has come");
    wait(&mut bench, 70);
    assert_ne!(again(&mut bench, 1003), first, "its time is over");
    balancer.set("web", Some(config(vec![active(backend(3))])));
    publish(&mut bench, &mut balancer);
    assert!(again(&mut bench, 1004).iter().all(|by| *by == 3), "its backend is gone");
}

/// Of Kubernetes' suite: "should have session affinity timeout work".
#[test]
fn whose_time_is_over_is_given_any_backend_and_who_is_not_known_always_the_same() {
    let config = || VipConfig { affinity: 60, ..web((1..=3).map(|host| active(backend(host))).collect()) };
    let first = |port| -> Vec<u8> {
        let (mut bench, _) = with(config());
        (1..=40).map(|host| asked_by(&mut bench, CLIENT + host * 256, port).unwrap()).collect()
    };
    assert_eq!(first(1000), first(2000));
    let (mut bench, _) = with(config());
    let mut had = std::collections::BTreeSet::new();
    for port in (1000..1060).step_by(3) {
        let its = asked(&mut bench, port).unwrap();
        had.insert(its);
        wait(&mut bench, 40);
        assert_eq!(asked(&mut bench, port + 1), Ok(its));
        wait(&mut bench, 70);
    }
    assert_eq!(had.len(), 3);
}

#[test]
fn whose_address_backends_see() {
    let config = |source_nat| VipConfig { source_nat, ..web(vec![active(backend(1))]) };
    let (mut bench, mut balancer) = with(config(SourceNat::Always));
    assert_eq!(asked(&mut bench, 1000), Ok(1));
    let [client, _] = one(&mut bench).translated.unwrap();
    assert!(client.0.to_string() == VIP && client.1 >= 1024, "{client:?}");
    balancer.set("web", Some(config(SourceNat::Never)));
    publish(&mut bench, &mut balancer);
    assert_eq!(asked(&mut bench, 1001), Ok(1));
    assert!(seen(&mut bench).iter().any(|seen| seen.translated.unwrap()[0] == at("10.0.2.2", 1001)));
}

/// Ranges that overlap, neighbours of their ends, and sessions that there are when they change.
#[test]
fn a_vip_may_be_there_for_some_clients_only() {
    let range = |first: &str, last: &str| (at(first, 0).0, at(last, 0).0);
    let config = |sources: &[(IpAddr, IpAddr)]| VipConfig {
        sources: sources.into(),
        reject: true,
        ..web(vec![active(backend(1))])
    };
    let of = |address: &str| u32::from(address.parse::<core::net::Ipv4Addr>().unwrap());
    let some =
        [range("10.0.7.4", "10.0.7.9"), range("10.0.2.0", "10.0.2.255"), range("10.0.7.8", "10.0.7.15")];
    let (mut bench, mut balancer) = with(config(&some));
    for inside in ["10.0.2.0", "10.0.2.2", "10.0.2.255", "10.0.7.4", "10.0.7.9", "10.0.7.15"] {
        assert_eq!(asked_by(&mut bench, of(inside), 1000), Ok(1), "{inside}");
    }
    for outside in ["10.0.1.255", "10.0.3.0", "10.0.7.3", "10.0.7.16", "192.0.2.1"] {
        let answer = asked_by(&mut bench, of(outside), 1000);
        assert_eq!(answer, Err("balance source-denied".into()), "{outside}");
    }
    balancer.set("web", Some(config(&some[..1])));
    publish(&mut bench, &mut balancer);
    assert_eq!(asked(&mut bench, 1000), Ok(1), "it goes on");
    assert_eq!(asked(&mut bench, 1001), Err("balance source-denied".into()));
    balancer.set("web", Some(config(&[])));
    publish(&mut bench, &mut balancer);
    wait(&mut bench, 1);
    assert_eq!(asked(&mut bench, 1001), Ok(1));
}

/// Who asks from where answers wouldn't come back is seen by an address that they come to; but not by a backend to which it is a neighbour.
#[test]
fn backends_see_an_address_of_choice_where_clients_are_out_of_reach() {
    const SOURCE: &str = "10.1.0.254";
    let near = BackendConfig { source_nat: Some(SourceNat::Hairpin), ..active(backend(1)) };
    let config = |backends| VipConfig {
        source_nat: SourceNat::Always,
        source_nat_address: SOURCE.parse().ok(),
        source_nat_except: [(at("10.0.7.0", 0).0, at("10.0.7.255", 0).0)].into(),
        ..web(backends)
    };
    let (mut bench, mut balancer) = with(config(vec![active(backend(2))]));
    let neighbour = 0x0a00_0702;
    for client in [CLIENT, neighbour] {
        assert_eq!(asked_by(&mut bench, client, 1000), Ok(2));
    }
    balancer.set("web", Some(config(vec![near])));
    publish(&mut bench, &mut balancer);
    assert_eq!(asked(&mut bench, 1001), Ok(1));
    let mut as_seen: Vec<_> =
        seen(&mut bench).into_iter().filter_map(|seen| seen.translated).map(|[client, _]| client).collect();
    as_seen.sort_unstable();
    let chosen = at(SOURCE, 1000);
    assert_eq!(as_seen[..2], [at("10.0.2.2", 1001), at("10.0.7.2", 1000)]);
    assert!(as_seen.len() == 3 && as_seen[2].0 == chosen.0 && as_seen[2].1 >= 1024, "{as_seen:?}");
}

#[test]
fn sessions_of_who_is_taken_away_may_end() {
    let config = |hosts: &[u8]| VipConfig {
        end_removed: true,
        ..web(hosts.iter().map(|host| active(backend(*host))).collect())
    };
    let (mut bench, mut balancer) = with(config(&[1, 2]));
    // So many that nobody asks any more whether an answer will come.
    let before: Vec<_> = (0..10).map(|_| everybody(&mut bench, 1000..1040)).collect();
    balancer.set("web", Some(config(&[2])));
    publish(&mut bench, &mut balancer);
    assert!(everybody(&mut bench, 1000..1040).values().all(|by| *by == 2));
    let moved = before[0].values().filter(|by| **by == 1).count() as u64;
    assert_eq!(figures(&mut balancer).0.created, 40 + moved, "the others' stay");
}

/// The client speaks with the backend itself by the same ports: one of the two isn't to be told from the other.
#[test]
fn a_flow_that_looks_like_another_is_seen_by_another_address_or_refused() {
    for (source_nat, seen_as) in [(SourceNat::Hairpin, Some(VIP)), (SourceNat::Never, None)] {
        let config = VipConfig { source_nat, ..web(vec![active(backend(1))]) };
        let (mut bench, _balancer) = with(config);
        let mut direct = question(CLIENT, 1000);
        let (ip, address) = (14, [10, 2, 0, 1]);
        direct[ip + 16..ip + 20].copy_from_slice(&address);
        direct[ip + 22..ip + 24].copy_from_slice(&8080u16.to_be_bytes());
        direct[ip + 10..ip + 12].fill(0);
        let sum = wire::checksum::Partial::of(&direct[ip..ip + 20]).checksum();
        direct[ip + 10..ip + 12].copy_from_slice(&sum.to_be_bytes());
        assert_eq!(bench.run(2, &[direct], 1).sent[&3].len(), 1);
        match seen_as {
            Some(_) => {
                assert_eq!(asked(&mut bench, 1000), Ok(1));
                let translated = seen(&mut bench).into_iter().find_map(|seen| seen.translated).unwrap();
                assert_eq!(translated[0].0.to_string(), VIP);
            }
            None => assert_eq!(asked(&mut bench, 1000), Err("balance in-use".into())),
        }
    }
}

/// 10000 VIPs of ten backends, and one of a thousand: memory in proportion, and a change touches one of them.
#[test]
fn many_vips_take_little_memory() {
    let mut balancer = Balancer::new(2);
    let many = |vip: u32| -> VipConfig {
        let host = |backend: u32| IpAddr::V4((0x0b00_0000 + vip * 16 + backend).into());
        let backends = (0..10).map(|backend| active((host(backend), 80))).collect();
        super::vip(IpProtocol::TCP, (IpAddr::V4((0x0a60_0000 + vip).into()), 80), backends)
    };
    (0..10_000).for_each(|number| balancer.set(&number.to_string(), Some(many(number))));
    let changed = balancer.publish();
    assert_eq!((changed.vips.len(), changed.revisit), (10_000, true));
    let each = balancer.bytes() / 10_000;
    assert!(each < 4096, "{each} bytes for a VIP of ten backends");
    let mut config = many(77);
    config.backends[3].weight = 2;
    balancer.set("77", Some(config));
    let changed = balancer.publish();
    assert_eq!((changed.vips.len(), changed.revisit), (1, false));
    let thousand = (0..1000).map(|host| active((IpAddr::V4((0x0c00_0000 + host).into()), 80))).collect();
    balancer.set("large", Some(vip(IpProtocol::TCP, at("10.97.0.1", 80), thousand)));
    balancer.publish();
    let large = balancer.placed("large").unwrap().bytes();
    assert!(large < 512 * 1024, "{large} bytes");
}
