//! What is said of a packet that isn't there, beside what becomes of the one of scapy's that is sent then.

use super::acl::{from, hosts, network as asking, publish as publish_lists, rule, set_acl, to_port};
use super::redirect::{PATIENCE, SIDES, comes_back, judge, redirected, visits, with_engine};
use super::*;
use crate::ip::{Fibs, Followed, LinkLocals, NextHopKind, NextHops, follow};
use crate::session::acl::Action;
use crate::session::explain::{Explained, Imagined, Known, Object, Outcome, Payload};
use crate::session::redirect::{Judgment, OnFailure};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use graph::IfIndex;
use wire::IpProtocol;

/// A packet of a frame, as its headers say. Interface 3 has no Ethernet; no other header stands between IP's and the transport's.
fn imagined(interface: IfIndex, frame: &[u8]) -> Imagined {
    let ip = if interface == 3 { frame } else { &frame[14..] };
    // There are some that end early.
    let ip = &[ip, &[0; 64]].concat()[..];
    let word = |at: usize| u16::from_be_bytes([ip[at], ip[at + 1]]);
    let v4 = |at: usize| IpAddr::from(Ipv4Addr::from(<[u8; 4]>::try_from(&ip[at..at + 4]).unwrap()));
    let v6 = |at: usize| IpAddr::from(Ipv6Addr::from(<[u8; 16]>::try_from(&ip[at..at + 16]).unwrap()));
    let (protocol, source, destination, l4) = match ip[0] >> 4 {
        4 => (ip[9], v4(12), v4(16), 4 * usize::from(ip[0] & 15)),
        _ => (ip[6], v6(8), v6(24), 40),
    };
    let protocol = IpProtocol(protocol);
    let is_icmp = matches!(protocol, IpProtocol::ICMP | IpProtocol::ICMPV6);
    let ports = match is_icmp {
        true => [word(l4 + 4); 2],
        false => [word(l4), word(l4 + 2)],
    };
    Imagined {
        interface,
        vrf: u16::from(interface == 4),
        protocol,
        source: (source, ports[0]),
        destination: (destination, ports[1]),
        flags: if protocol == IpProtocol::TCP { ip[l4 + 13] } else { 0 },
        icmp: if is_icmp { (ip[l4], ip[l4 + 1]) } else { (0, 0) },
        payload: Payload::default(),
    }
}

fn shared<T: Send + Sync + 'static>(bench: &Bench) -> Arc<T> {
    bench.publisher.current().share(bench.key())
}

fn explained(bench: &mut Bench, packet: &Imagined) -> Explained {
    let (tenants, fibs, hops) = (shared(bench), shared(bench), shared(bench));
    let known = Known { tenants, fibs, hops, plan: Arc::clone(&bench.plan), now: bench.now };
    sessions(bench).explain(&known, 0, packet)
}

/// Says what the row's packet would meet, sends it, and sees that it meets that. What is said first changes nothing: it is said twice.
pub(super) fn meets(bench: &mut Bench, text: &'static str, name: &str) -> Explained {
    let row = packet(text, name);
    let asked = imagined(row.rx_if, &row.frame);
    let said = explained(bench, &asked);
    assert_eq!(explained(bench, &asked).steps, said.steps, "{name}");
    let outcome = bench.run(row.rx_if, &[row.frame], 1);
    match said.outcome {
        Outcome::Dropped { node, reason } => {
            assert_eq!(outcome.drops, [(format!("{node} {reason}"), 1)].into(), "{name}: {said:?}");
        }
        Outcome::Passes => {
            let sent: Vec<_> =
                outcome.sent.iter().flat_map(|(at, all)| all.iter().map(|one| (*at, one))).collect();
            let [(interface, frame)] = sent[..] else { panic!("{name}: {outcome:?} and not {said:?}") };
            let left = imagined(interface, frame);
            assert_eq!([left.source, left.destination], said.ends, "{name}: {said:?}");
        }
    }
    said
}

fn of_node<'e>(said: &'e Explained, node: &str) -> Vec<&'e crate::session::explain::Step> {
    said.steps.iter().filter(|step| step.node == node).collect()
}

#[test]
fn of_a_conversation() {
    everywhere(|tier, text, node| {
        let mut bench = bench(tier, &[tenant()]);
        let first = meets(&mut bench, text, "udp");
        assert!(first.session.is_none() && first.tenant == Some(1));
        assert_eq!(of_node(&first, node)[0].found, "begins a session, with 0 of 1000 there");
        let answer = meets(&mut bench, text, "udp answer");
        assert!(answer.session.is_some());
        assert_eq!(of_node(&answer, node)[0].found, "of a session, to the initiator, embryonic");
        let second = meets(&mut bench, text, "udp");
        assert_eq!(of_node(&second, node)[0].found, "of a session, from the initiator, established");
        // An answer to nothing comes from outside.
        let outside = meets(&mut bench, text, "tcp syn-ack answer");
        assert_eq!((outside.tenant, seen(&mut bench).len()), (None, 1));
    });
}

/// A rule is named by its list and its place; a decision that was made before is said as such.
#[test]
fn of_rules() {
    everywhere(|tier, text, _| {
        let rules =
            vec![to_port(Action::Deny, IpProtocol::TCP, 80), to_port(Action::Permit, IpProtocol::UDP, 53)];
        let (mut bench, mut filters) = asking(tier, rules);
        let met = |said: &Explained| -> Vec<Object> {
            of_node(said, "acl").iter().filter_map(|step| step.object.clone()).collect()
        };
        let rule_of = |at| Object::Acl("all".into(), Some(at));
        let denied = meets(&mut bench, text, "tcp syn");
        assert_eq!(denied.outcome, Outcome::Dropped { node: "acl", reason: "denied" });
        assert_eq!(met(&denied), [rule_of(0)]);
        let again = meets(&mut bench, text, "tcp syn");
        assert_eq!((again.outcome, met(&again)), (denied.outcome, vec![rule_of(0)]));
        assert!(of_node(&again, "acl")[0].found.starts_with("asked at an earlier packet"), "{again:?}");
        let hits =
            |filters: &crate::session::acl::control::Filters| filters.placed("all").unwrap().acl.hits(0);
        assert_eq!(hits(&filters), 1, "who asks isn't counted");
        // Permitted, and its answers aren't.
        let permitted = meets(&mut bench, text, "udp");
        assert_eq!(met(&permitted), [rule_of(1), Object::Acl("all".into(), None)]);
        let answer = meets(&mut bench, text, "udp answer");
        assert_eq!(answer.outcome, Outcome::Dropped { node: "acl", reason: "answers-denied" });
        // What has changed since is asked again.
        let mine = format!("{}/{}", hosts(text == V6)[0], if text == V6 { 128 } else { 32 });
        let mut all = rule(Action::Reflect);
        all.sources = from(&[&mine]);
        set_acl(&mut filters, "all", vec![all]);
        publish_lists(&mut bench, &mut filters, &["all"]);
        for name in ["udp", "udp answer", "tcp syn", "tcp syn-ack answer"] {
            assert_eq!(meets(&mut bench, text, name).outcome, Outcome::Passes, "{name}");
        }
    });
}

#[test]
fn of_backends() {
    for tier in Tier::available() {
        for text in [balance::BALANCE4, balance::BALANCE6] {
            let mut bench = balance::network(tier, &mut balance::simple());
            for name in ["udp", "udp answer", "udp", "tcp syn", "tcp syn answer", "sctp", "sctp answer"] {
                let said = meets(&mut bench, text, name);
                let [step] = of_node(&said, "balance")[..] else { panic!("{said:?}") };
                assert!(matches!(step.object, Some(Object::Vip(0, _, (_, 80)))), "{step:?}");
            }
            assert_eq!(count(&bench, "balance", "balanced"), 3);
        }
    }
}

#[test]
fn of_pools() {
    for tier in Tier::available() {
        let chain = [order().chain(["l4-lifecycle", "balance", "nat"]).unwrap(); 2];
        let translating = Tenant { chain, ..nat::translating(nat::pool(50000..=50000)) };
        let mut bench = bench(tier, std::slice::from_ref(&translating));
        let of_pool = |said: &Explained| {
            let [step] = of_node(said, "nat")[..] else { panic!("{said:?}") };
            assert_eq!(step.object, Some(Object::NatPool("out".into())), "{step:?}");
        };
        for name in ["udp", "udp answer", "udp", "tcp syn", "tcp syn answer", "echo", "echo answer"] {
            of_pool(&meets(&mut bench, nat::NAT, name));
        }
        assert_eq!(nat::translations(&translating), 3);
        // Its sessions come to all services again: no pool's endpoint is taken for a backend.
        set_tenants(&mut bench, &[Tenant { max_sessions: 7, ..translating }]);
        for name in ["udp answer", "udp"] {
            let said = meets(&mut bench, nat::NAT, name);
            of_pool(&said);
            assert_eq!(of_node(&said, "balance")[0].found, "`nat` translates its session", "{name}");
        }
    }
}

/// An engine that is there, that is away, and sessions that were judged, before any packet has found it so.
#[test]
fn of_engines() {
    everywhere(|tier, text, _| {
        for (on_failure, away) in [
            (OnFailure::Drop, Outcome::Dropped { node: "redirect", reason: "engine-away" }),
            (OnFailure::Pass, Outcome::Passes),
        ] {
            let mut bench = with_engine(tier, &redirected(0, on_failure));
            let says = |bench: &mut Bench, name: &str, words: &str, by: Option<u16>| {
                let said = meets(bench, text, name);
                let steps = of_node(&said, "redirect");
                assert!(steps.iter().any(|step| step.found.contains(words)), "{words}: {steps:?}");
                assert_eq!(steps.last().unwrap().object, by.map(Object::Interface), "{steps:?}");
                said.outcome
            };
            for (name, by) in [("udp", SIDES[0]), ("udp answer", SIDES[1])] {
                assert_eq!(says(&mut bench, name, "goes to the engine", Some(by)), Outcome::Passes);
                comes_back(&mut bench, text, name);
            }
            visits(&mut bench, text, "tcp syn");
            assert_eq!(judge(&mut bench, 17, Judgment::AllowRest), 1);
            assert_eq!(judge(&mut bench, 6, Judgment::AllowRest), 1);
            says(&mut bench, "tcp ack", "still has some of it", Some(SIDES[0]));
            for name in ["udp", "udp", "udp answer"] {
                says(&mut bench, name, "the rest of its session passes without", None);
            }
            assert_eq!(judge(&mut bench, 6, Judgment::DropRest), 1);
            for name in ["tcp ack", "tcp syn answer"] {
                let judged = Outcome::Dropped { node: "redirect", reason: "judged" };
                assert_eq!(says(&mut bench, name, "the rest of its session is dropped", None), judged);
                change_something(&mut bench);
            }
            bench.now += PATIENCE + 1;
            says(&mut bench, "udp", "the rest of its session passes without", None);
            assert_eq!(says(&mut bench, "another udp", "the engine is away", None), away);
        }
    });
}

#[test]
fn of_connections_whose_beginning_was_not_seen() {
    for (midstream, reason) in [
        (Midstream::Adopt, None),
        (Midstream::Remove, Some("midstream")),
        (Midstream::Security, Some("blocked")),
    ] {
        let chain = [order().chain(["tcp-check", "l4-lifecycle"]).unwrap(); 2];
        let mut bench = bench(Tier::available()[0], &[Tenant { midstream, chain, ..tenant() }]);
        let said = meets(&mut bench, V4, "tcp ack");
        let expected =
            reason.map_or(Outcome::Passes, |reason| Outcome::Dropped { node: "tcp-check", reason });
        assert_eq!(said.outcome, expected);
        meets(&mut bench, V4, "tcp ack");
    }
}

#[test]
fn of_protocols_without_sessions() {
    let frame = packet(V4, "udp").frame;
    let gre = Imagined { protocol: IpProtocol(47), ..imagined(2, &frame) };
    for (untracked, expected) in [
        (SlowAction::Pass, Outcome::Passes),
        (SlowAction::Drop, Outcome::Dropped { node: "ip4-session-input", reason: "protocol" }),
    ] {
        let mut bench =
            bench(Tier::available()[0], &[Tenant { slow_path: SlowPath::untracked(untracked), ..tenant() }]);
        assert_eq!(explained(&mut bench, &gre).outcome, expected);
        assert!(seen(&mut bench).is_empty());
    }
}

/// The lookup's own way, of all of its rows: what it sends, where, and what it drops.
#[test]
fn the_next_hop_is_the_one_that_the_lookup_takes() {
    let texts = [
        (include_str!("../../../tests/vectors/ip4.txt"), "ip4-lookup ", 1500),
        (include_str!("../../../tests/vectors/ip6.txt"), "ip6-lookup ", 1280),
    ];
    for (text, node, mtu) in texts {
        let mut bench = Bench::new(Tier::available()[0]);
        topology::set_up(&mut bench, mtu);
        let mut compared = 0;
        for row in rows(text) {
            let asked = imagined(row.rx_if, &row.frame);
            let packet = Followed {
                interface: row.rx_if,
                protocol: asked.protocol,
                ends: [asked.source, asked.destination],
            };
            let tables = (shared::<Fibs>(&bench), shared::<NextHops>(&bench), shared::<LinkLocals>(&bench));
            let hop = follow((&tables.0, &tables.1, &tables.2), asked.vrf, &packet);
            let dropped = match &row.verdict {
                Verdict::Dropped(reason) | Verdict::SentAndDropped(_, reason) => reason.strip_prefix(node),
                _ => None,
            };
            match (&row.verdict, dropped) {
                (_, Some(reason)) => assert_eq!(hop.err(), Some(reason), "{}", row.name),
                (Verdict::Sent(frames), None)
                    if imagined(frames[0].0, &frames[0].1).destination == asked.destination =>
                {
                    let hop = hop.unwrap_or_else(|reason| panic!("{}: {reason}", row.name));
                    assert_eq!((hop.kind, hop.tx_if), (NextHopKind::Rewrite, frames[0].0), "{}", row.name);
                }
                _ => continue,
            }
            compared += 1;
        }
        assert!(compared > 10, "{compared} rows");
    }
}
