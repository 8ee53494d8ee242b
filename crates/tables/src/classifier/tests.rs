//! The classifier beside one that reads rule by rule.

use super::*;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use proptest::collection::vec;
use proptest::prelude::*;

/// Few addresses, so that prefixes are nested and met.
fn address() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        (0..32_u32).prop_map(|low| IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 | low))),
        (0..32_u128).prop_map(|low| IpAddr::V6(Ipv6Addr::from_bits(0xfd00 << 112 | low))),
    ]
}

fn prefix() -> impl Strategy<Value = Prefix> {
    (address(), prop_oneof![Just(0_u8), Just(8), 24..=32_u8]).prop_map(|(address, length)| match address {
        IpAddr::V4(_) => (address, length),
        IpAddr::V6(_) => (address, if length == 0 { 0 } else { length + 96 }),
    })
}

fn covers((network, length): Prefix, address: IpAddr) -> bool {
    match (network, address) {
        (IpAddr::V4(a), IpAddr::V4(b)) => {
            (0..u32::from(length)).all(|bit| (a.to_bits() ^ b.to_bits()) >> (31 - bit) & 1 == 0)
        }
        (IpAddr::V6(a), IpAddr::V6(b)) => {
            (0..u32::from(length)).all(|bit| (a.to_bits() ^ b.to_bits()) >> (127 - bit) & 1 == 0)
        }
        _ => false,
    }
}

/// Members of each term but [`ANY`], and prefixes that are none of it although shorter ones are.
type Sets = Vec<Vec<(Prefix, bool)>>;

fn table(sets: &Sets) -> Prefixes {
    let mut prefixes = Prefixes::default();
    for (term, members) in (1..).zip(sets) {
        members.iter().for_each(|(member, inside)| prefixes.add(*member, term, *inside));
    }
    prefixes
}

fn sets() -> impl Strategy<Value = Sets> {
    vec(vec((prefix(), prop_oneof![3 => Just(true), 1 => Just(false)]), 0..6), SETS)
}

/// The terms that an address meets, ascending.
fn terms(prefixes: &Prefixes, address: IpAddr) -> Vec<Term> {
    let known = (0..100_u32).map(|term| (term, term)).collect();
    let (mut spoken, mut met) = Default::default();
    prefixes.behind(address).among(&known, &mut spoken, &mut met);
    met.into_iter().map(|(_, term)| term).collect()
}

fn ranges() -> impl Strategy<Value = Vec<PortRange>> {
    let range = prop_oneof![
        (0..24_u16, 0..24_u16).prop_map(|(a, b)| (a.min(b), a.max(b))),
        Just((0, u16::MAX)),
        Just((3, u16::MAX)),
    ];
    prop_oneof![2 => Just(Vec::new()), 3 => vec(range, 1..4)]
}

fn rule(terms: u32) -> impl Strategy<Value = Rule> {
    let side = || prop_oneof![Just(vec![ANY]), vec(1..=terms, 1..3)];
    let flags = prop_oneof![4 => Just((0, 0)), 1 => (0..4_u8, 0..4_u8)];
    let protocol = prop_oneof![Just(None), Just(Some(6)), Just(Some(17))];
    (side(), side(), protocol, ranges(), ranges(), flags).prop_map(
        |(sources, destinations, protocol, source_ports, ports, (mask, value))| Rule {
            sources,
            destinations,
            protocol,
            source_ports: if protocol.is_some() { source_ports } else { Vec::new() },
            ports: if protocol.is_some() { ports } else { Vec::new() },
            flags: Flags { mask, value: value & mask },
        },
    )
}

#[derive(Clone, Copy, Debug)]
struct Packet {
    source: IpAddr,
    destination: IpAddr,
    protocol: u8,
    ports: (u16, u16),
    flags: u8,
}

fn packet() -> impl Strategy<Value = Packet> {
    let port = || prop_oneof![0..26_u16, Just(u16::MAX)];
    let protocol = prop_oneof![Just(6_u8), Just(17), Just(1)];
    (address(), address(), protocol, port(), port(), 0..4_u8).prop_map(
        |(source, destination, protocol, from, to, flags)| Packet {
            source,
            destination,
            protocol,
            ports: (from, to),
            flags,
        },
    )
}

/// Rule by rule, member by member.
fn linear(rules: &[Rule], sets: &Sets, packet: &Packet) -> Option<u32> {
    let of = |terms: &[Term], address| {
        let member = |term: &Term| {
            let covering = |members: &[(Prefix, bool)]| {
                let covering = members.iter().filter(|(member, _)| covers(*member, address));
                covering.map(|((_, length), inside)| (*length, *inside)).max()
            };
            *term == ANY || covering(&sets[*term as usize - 1]).is_some_and(|(_, inside)| inside)
        };
        terms.iter().any(member)
    };
    let within = |ranges: &[PortRange], port: u16| {
        ranges.is_empty() || ranges.iter().any(|(first, last)| (*first..=*last).contains(&port))
    };
    let meets = |rule: &Rule| {
        of(&rule.sources, packet.source)
            && of(&rule.destinations, packet.destination)
            && rule.protocol.is_none_or(|protocol| protocol == packet.protocol)
            && within(&rule.source_ports, packet.ports.0)
            && within(&rule.ports, packet.ports.1)
            && packet.flags & rule.flags.mask == rule.flags.value
    };
    rules.iter().position(meets).map(|at| at as u32)
}

fn classified(rules: &Rules, prefixes: &Prefixes, packet: &Packet, scratch: &mut Scratch) -> Option<u32> {
    let flow = Flow {
        sources: &prefixes.behind(packet.source),
        destinations: &prefixes.behind(packet.destination),
        protocol: packet.protocol,
        source_port: packet.ports.0,
        port: packet.ports.1,
        flags: packet.flags,
    };
    rules.first(&flow, scratch)
}

const SETS: usize = 6;

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn the_first_rule_is_found_as_if_they_were_read_in_order(
        sets in sets(),
        rules in vec(rule(SETS as u32), 0..40),
        packets in vec(packet(), 60),
    ) {
        let (prefixes, list) = (table(&sets), Rules::new(&rules));
        let mut scratch = Scratch::default();
        for packet in &packets {
            prop_assert_eq!(
                classified(&list, &prefixes, packet, &mut scratch),
                linear(&rules, &sets, packet),
                "{:?}", packet
            );
        }
    }

    #[test]
    fn members_come_and_go_one_by_one(
        before in sets(),
        after in sets(),
        addresses in vec(address(), 30),
    ) {
        let mut changed = table(&before);
        let kept = changed.clone();
        for (term, members) in (1..).zip(&before) {
            members.iter().for_each(|(member, inside)| changed.remove(*member, term, *inside));
        }
        prop_assert!(changed.is_empty());
        for (term, members) in (1..).zip(&after) {
            members.iter().for_each(|(member, inside)| changed.add(*member, term, *inside));
        }
        for address in addresses {
            prop_assert_eq!(terms(&changed, address), terms(&table(&after), address));
            prop_assert_eq!(terms(&kept, address), terms(&table(&before), address), "a clone stays as it was");
        }
    }
}

#[test]
fn a_longer_prefix_may_take_addresses_out_again() {
    let at = |text: &str| text.parse::<IpAddr>().unwrap();
    let mut prefixes = Prefixes::default();
    prefixes.add((at("10.0.0.0"), 8), 1, true);
    prefixes.add((at("10.1.0.0"), 16), 1, false);
    prefixes.add((at("10.1.0.0"), 16), 2, true);
    for (address, expected) in [("10.2.0.1", vec![0, 1]), ("10.1.0.1", vec![0, 2]), ("11.0.0.1", vec![0])] {
        assert_eq!(terms(&prefixes, at(address)), expected, "{address}");
    }
    prefixes.remove((at("10.1.0.0"), 16), 1, false);
    assert_eq!(terms(&prefixes, at("10.1.0.1")), [0, 1, 2]);
}

/// A hundred thousand rules that except the same: what takes the square of that long, building it or asking, isn't over before the tests are given up.
#[test]
fn as_many_exceptions_as_rules() {
    const MANY: u32 = 100_000;
    let at = |text: &str| text.parse::<IpAddr>().unwrap();
    let mut prefixes = Prefixes::default();
    for term in 1..=MANY {
        prefixes.add((at("0.0.0.0"), 0), term, true);
        prefixes.add((at("10.0.0.0"), 8), term, false);
    }
    // One of a tenant of its own.
    prefixes.add((at("10.1.0.0"), 16), MANY + 1, true);
    let rule = |term| Rule { sources: vec![term], destinations: vec![ANY], ..Rule::default() };
    let all = Rules::new(&(1..=MANY).map(rule).collect::<Vec<_>>());
    let own = Rules::new(&[rule(1), rule(MANY + 1)]);
    let mut scratch = Scratch::default();
    for (source, of_all, of_own) in
        [("192.0.2.1", Some(0), Some(0)), ("10.0.0.1", None, None), ("10.1.0.1", None, Some(1))]
    {
        let packet =
            Packet { source: at(source), destination: at("192.0.2.9"), protocol: 6, ports: (1, 2), flags: 2 };
        assert_eq!(classified(&all, &prefixes, &packet, &mut scratch), of_all, "{source}");
        assert_eq!(classified(&own, &prefixes, &packet, &mut scratch), of_own, "{source}");
    }
    for term in 1..=MANY {
        prefixes.remove((at("0.0.0.0"), 0), term, true);
        prefixes.remove((at("10.0.0.0"), 8), term, false);
    }
    assert_eq!(prefixes.len(), 1);
}

/// As many rules as a large site has: each is found, and so is nothing where none is met.
#[test]
fn a_hundred_thousand_rules() {
    let host = |n: u32| IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + n));
    let mut prefixes = Prefixes::default();
    let rules: Vec<Rule> = (0..100_000)
        .map(|n| {
            prefixes.add((host(n), 32), n + 1, true);
            Rule {
                sources: vec![n + 1],
                destinations: vec![ANY],
                protocol: Some(6),
                ports: vec![(n as u16, (n as u16).saturating_add(9))],
                ..Rule::default()
            }
        })
        .collect();
    let list = Rules::new(&rules);
    let mut scratch = Scratch::default();
    for n in (0..100_000).step_by(997) {
        let packet =
            |port| Packet { source: host(n), destination: host(7), protocol: 6, ports: (1, port), flags: 2 };
        let port = n as u16;
        assert_eq!(classified(&list, &prefixes, &packet(port), &mut scratch), Some(n));
        assert_eq!(classified(&list, &prefixes, &packet(port.wrapping_sub(1)), &mut scratch), None);
    }
}
