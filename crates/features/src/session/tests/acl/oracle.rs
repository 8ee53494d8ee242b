//! Tables of packets beside one who reads rule by rule: in vectors of one and of 256, on every tier.

use super::*;
use crate::session::acl::control::covers;
use core::net::Ipv4Addr;
use proptest::collection::vec;
use proptest::prelude::*;

/// A datagram from a client to a port of host B.
fn question(client: u32, port: u16) -> Vec<u8> {
    let (mut frame, ip) = (packet(V4, "udp").frame, 14);
    frame[ip + 12..ip + 16].copy_from_slice(&client.to_be_bytes());
    frame[ip + 22..ip + 24].copy_from_slice(&port.to_be_bytes());
    frame[ip + 26..ip + 28].fill(0);
    frame[ip + 10..ip + 12].fill(0);
    let sum = wire::checksum::Partial::of(&frame[ip..ip + 20]).checksum();
    frame[ip + 10..ip + 12].copy_from_slice(&sum.to_be_bytes());
    frame
}

const CLIENT: u32 = 0x0a00_0200;

fn side() -> impl Strategy<Value = Side> {
    let one = || {
        (0..16_u32, 28..=32_u8).prop_map(|(low, length)| {
            let mask = u32::MAX << (32 - length);
            (IpAddr::V4(Ipv4Addr::from_bits((CLIENT | low) & mask)), length)
        })
    };
    let some = |prefixes: Vec<Prefix>| {
        let mut prefixes = prefixes;
        prefixes.sort_unstable();
        prefixes.dedup();
        prefixes
    };
    let set = prop_oneof![2 => Just(None), 1 => (0..3_u8).prop_map(Some)];
    (vec(one(), 0..5), vec(one(), 0..5), set).prop_map(move |(prefixes, except, set)| Side {
        except: if prefixes.is_empty() { Vec::new() } else { some(except) },
        prefixes: some(prefixes),
        sets: set.iter().map(|number| format!("set-{number}").into()).collect(),
    })
}

fn any_rule() -> impl Strategy<Value = RuleConfig> {
    let ports = vec((0..12_u16, 0..4_u16).prop_map(|(first, more)| (first, first + more)), 0..3);
    let action =
        prop_oneof![2 => Just(Some(Action::Reflect)), 2 => Just(Some(Action::Deny)), 1 => Just(None)];
    (action, side(), ports, any::<bool>()).prop_map(|(action, sources, ports, said)| RuleConfig {
        sources,
        protocol: (said || !ports.is_empty()).then_some(IpProtocol::UDP.0),
        destination_ports: ports,
        ..rule(action)
    })
}

/// Rule by rule; behind the only list, what it leaves to the next one is denied.
fn linear(rules: &[RuleConfig], sets: &[Vec<Prefix>], client: u32, port: u16) -> Action {
    let host = (IpAddr::V4(Ipv4Addr::from_bits(client)), 32);
    let any = |of: &[Prefix]| of.iter().any(|prefix| covers(*prefix, host));
    let meets = |rule: &&RuleConfig| {
        let side = &rule.sources;
        let of_sets = || {
            let number = |name: &str| name.trim_start_matches("set-").parse::<usize>().unwrap();
            side.sets.iter().any(|name| any(&sets[number(name)]))
        };
        let all = side.prefixes.is_empty() && side.sets.is_empty();
        (all || any(&side.prefixes) && !any(&side.except) || of_sets())
            && (rule.destination_ports.is_empty()
                || rule.destination_ports.iter().any(|(first, last)| (*first..=*last).contains(&port)))
    };
    rules.iter().find(meets).and_then(|rule| rule.action).unwrap_or(Action::Deny)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn packets_pass_or_not_as_rules_say(
        rules in vec(any_rule(), 0..12),
        sets in vec(vec(0..16_u32, 0..4), 3),
    ) {
        let members: Vec<Vec<Prefix>> = sets
            .iter()
            .map(|hosts| hosts.iter().map(|low| (IpAddr::V4(Ipv4Addr::from_bits(CLIENT | low)), 32)).collect())
            .collect();
        let asked: Vec<(u32, u16)> =
            (0..16).flat_map(|low| (0..16).map(move |port| (CLIENT | low, port))).collect();
        let frames: Vec<Vec<u8>> = asked.iter().map(|(client, port)| question(*client, *port)).collect();
        let pass = asked.iter().filter(|(client, port)| linear(&rules, &members, *client, *port) == Action::Reflect);
        let mut expected: Vec<(u32, u16)> = pass.copied().collect();
        expected.sort_unstable();
        for tier in Tier::available() {
            for burst in [1, 256] {
                let (mut bench, mut filters) = (bench(tier, &[filtering()]), Filters::default());
                for (number, hosts) in members.iter().enumerate() {
                    let mut hosts = hosts.clone();
                    hosts.sort_unstable();
                    hosts.dedup();
                    filters.set_address_set(&format!("set-{number}").into(), Some(hosts.into()));
                }
                set_acl(&mut filters, "all", rules.clone());
                publish(&mut bench, &mut filters, &["all"]);
                let outcome = bench.run(2, &frames, burst);
                let word = |frame: &[u8], at: usize| u32::from_be_bytes(*frame[at..].first_chunk().unwrap());
                let mut sent: Vec<(u32, u16)> = outcome.sent.get(&3).into_iter().flatten()
                    .map(|frame| (word(frame, 12), word(frame, 20) as u16))
                    .collect();
                sent.sort_unstable();
                prop_assert_eq!(&sent, &expected, "bursts of {}", burst);
                let dropped = outcome.drops.get("acl denied").copied().unwrap_or_default();
                prop_assert_eq!(dropped, 256 - expected.len() as u64);
            }
        }
    }
}
