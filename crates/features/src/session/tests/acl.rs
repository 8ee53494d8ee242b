//! Rules: conversations made by scapy, and what lists say of them.

mod backends;
mod changes;
mod oracle;
mod places;
mod sides;

use super::*;
use crate::session::acl::control::{AclConfig, EndpointConfig, Filters, RuleConfig, Side};
use crate::session::acl::{Action, Explained, Question};
use core::net::IpAddr;
use tables::classifier::{Flags, Prefix};
use wire::{IpProtocol, TcpFlags};

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn prefix(text: &str) -> Prefix {
    let (network, length) = text.split_once('/').unwrap();
    (address(network), length.parse().unwrap())
}

/// Hosts A and B of the conversations.
pub(super) fn hosts(v6: bool) -> [&'static str; 2] {
    if v6 { ["2001:db8:2::2", "2001:db8:1002::9"] } else { ["10.0.2.2", "10.2.0.9"] }
}

/// A rule that everybody meets.
pub(super) fn rule(action: impl Into<Option<Action>>) -> RuleConfig {
    RuleConfig {
        name: "".into(),
        remark: "".into(),
        action: action.into(),
        sources: Side::default(),
        destinations: Side::default(),
        protocol: None,
        source_ports: Vec::new(),
        destination_ports: Vec::new(),
        flags: Flags::default(),
        icmp: None,
    }
}

pub(super) fn from(prefixes: &[&str]) -> Side {
    let mut prefixes: Vec<Prefix> = prefixes.iter().map(|text| prefix(text)).collect();
    prefixes.sort_unstable();
    Side { prefixes, ..Side::default() }
}

fn of_set(name: &str) -> Side {
    Side { sets: vec![name.into()], ..Side::default() }
}

pub(super) fn to_port(action: impl Into<Option<Action>>, protocol: IpProtocol, port: u16) -> RuleConfig {
    RuleConfig { protocol: Some(protocol.0), destination_ports: vec![(port, port)], ..rule(action) }
}

pub(super) fn set_acl(filters: &mut Filters, name: &str, rules: Vec<RuleConfig>) {
    filters.set_acl(&name.into(), Some(AclConfig { rules, otherwise: None }.into()));
}

fn set_members(filters: &mut Filters, name: &str, members: &[&str]) {
    let mut members: Vec<Prefix> = members.iter().map(|text| prefix(text)).collect();
    members.sort_unstable();
    filters.set_address_set(&name.into(), Some(members.into()));
}

fn set_endpoint(filters: &mut Filters, name: &str, ingress: &[&str], egress: &[&str]) {
    let lists = |names: &[&str]| names.iter().map(|name| (*name).into()).collect();
    let addresses = [false, true].map(|v6| hosts(v6)[usize::from(name == "b")]).map(address).to_vec();
    let config = EndpointConfig { context: 0, addresses, ingress: lists(ingress), egress: lists(egress) };
    filters.set_endpoint(&name.into(), Some(config.into()));
}

/// Has workers see what was changed; the tenant asks these lists.
pub(super) fn publish(bench: &mut Bench, filters: &mut Filters, lists: &[&str]) {
    filters.publish();
    let numbers = filters.numbers(lists.iter().copied());
    let key = bench.key::<Tenants>();
    bench.publish(|draft| {
        draft.change(key, |all| {
            all.generation += 1;
            all.acls = filters.acls().clone();
            let mut tenant = all.get(1).unwrap().clone();
            tenant.acls.clone_from(&numbers);
            all.set(1, Some(tenant));
        });
    });
}

fn filtering() -> Tenant {
    // As the tenant's default is where rules are asked.
    let slow_path = SlowPath::default().with(Case::TooShort, SlowAction::Drop);
    Tenant { chain: [order().chain(["l4-lifecycle", "acl"]).unwrap(); 2], slow_path, ..tenant() }
}

/// A network whose tenant asks the list "all".
pub(super) fn network(tier: Tier, rules: Vec<RuleConfig>) -> (Bench, Filters) {
    let (mut bench, mut filters) = (bench(tier, &[filtering()]), Filters::default());
    set_acl(&mut filters, "all", rules);
    publish(&mut bench, &mut filters, &["all"]);
    (bench, filters)
}

/// Packets that came to the service.
fn visits(bench: &Bench) -> u64 {
    let id = bench.plan.node("acl").unwrap();
    bench.graph.counters().runtime[usize::from(id)].packets.get()
}

/// SFDP's weakness 11: rules are asked about each packet.
#[test]
fn a_reflected_session_passes_and_its_packets_never_come_again() {
    everywhere(|tier, text, _| {
        let (mut bench, _) = network(tier, vec![to_port(Action::Reflect, IpProtocol::UDP, 53)]);
        for name in ["udp", "udp answer", "udp", "udp answer", "error of a router"] {
            pass(&mut bench, text, name);
        }
        assert_eq!((visits(&bench), count(&bench, "acl", "admitted")), (1, 1));
    });
}

#[test]
fn a_denied_session_is_asked_about_once_and_nothing_of_it_passes() {
    everywhere(|tier, text, _| {
        let rules = vec![to_port(Action::Deny, IpProtocol::UDP, 53), rule(Action::Reflect)];
        let (mut bench, filters) = network(tier, rules);
        let frame = packet(text, "udp").frame;
        let outcome = bench.run(2, &vec![frame; 256], 256);
        assert_eq!(outcome.drops, [("acl denied".to_string(), 256)].into());
        let before = visits(&bench);
        // Outside, where the answer comes from, no session begins: there is nobody else whose it could be.
        for name in ["udp", "udp answer", "error of a router"] {
            dropped(&mut bench, text, name, "acl denied");
        }
        assert_eq!((visits(&bench), count(&bench, "acl", "denied")), (before, 1));
        assert!(one(&mut bench).session.is_blocked());
        pass(&mut bench, text, "tcp syn");
        pass(&mut bench, text, "tcp syn-ack answer");
        let hits = filters.placed("all").unwrap();
        assert_eq!((hits.acl.hits(0), hits.acl.hits(1), hits.acl.unmatched()), (1, 1, 0));
        wait(&mut bench, 21);
        assert!(seen(&mut bench).iter().all(|seen| seen.key.protocol() == 6), "it ends as blocked ones do");
    });
}

#[test]
fn what_no_rule_permits_is_denied_and_a_list_may_say_otherwise() {
    everywhere(|tier, text, _| {
        let (mut bench, mut filters) = network(tier, Vec::new());
        dropped(&mut bench, text, "udp", "acl denied");
        set_acl(&mut filters, "more", vec![to_port(Action::Reflect, IpProtocol::UDP, 53)]);
        publish(&mut bench, &mut filters, &["all", "more"]);
        pass(&mut bench, text, "udp");
        dropped(&mut bench, text, "tcp syn", "acl denied");
        let config = AclConfig { rules: Vec::new(), otherwise: Some(Action::Deny) };
        filters.set_acl(&"all".into(), Some(config.into()));
        publish(&mut bench, &mut filters, &["all", "more"]);
        dropped(&mut bench, text, "udp", "acl denied");
        let config = AclConfig { rules: Vec::new(), otherwise: Some(Action::Reflect) };
        filters.set_acl(&"all".into(), Some(config.into()));
        publish(&mut bench, &mut filters, &["all", "more"]);
        pass(&mut bench, text, "udp");
        pass(&mut bench, text, "tcp syn");
        assert_eq!(filters.placed("all").unwrap().acl.unmatched(), 6, "through all of its versions");
    });
}

#[test]
fn a_rule_may_leave_a_session_to_the_next_list() {
    everywhere(|tier, text, _| {
        let dns = to_port(None::<Action>, IpProtocol::UDP, 53);
        let (mut bench, mut filters) = network(tier, vec![dns, rule(Action::Deny)]);
        // Behind the last list it is denied.
        dropped(&mut bench, text, "udp", "acl denied");
        set_acl(&mut filters, "more", vec![rule(Action::Reflect)]);
        publish(&mut bench, &mut filters, &["all", "more"]);
        for name in ["udp", "udp answer"] {
            pass(&mut bench, text, name);
        }
        dropped(&mut bench, text, "tcp syn", "acl denied");
        let acl = filters.placed("all").unwrap().acl;
        let met = (acl.passed_on(), acl.met(Action::Deny), acl.unmatched());
        assert_eq!((met, acl.hits(0), acl.hits(1)), ((2, 1, 0), 2, 1));
    });
}

#[test]
fn answers_of_a_permitted_session_are_asked_about_in_their_own_right() {
    everywhere(|tier, text, _| {
        let there = to_port(Action::Permit, IpProtocol::UDP, 53);
        let (mut bench, mut filters) = network(tier, vec![there.clone()]);
        pass(&mut bench, text, "udp");
        let frame = packet(text, "udp answer").frame;
        let outcome = bench.run(3, &vec![frame; 8], 8);
        assert_eq!(outcome.drops, [("acl answers-denied".to_string(), 8)].into());
        // Also after `l4-lifecycle` has left the session alone.
        (0..2).for_each(|_| pass(&mut bench, text, "udp"));
        dropped(&mut bench, text, "udp answer", "acl answers-denied");
        dropped(&mut bench, text, "error of a router", "acl answers-denied");
        assert_eq!(count(&bench, "acl", "answers-denied"), 1);
        let back = RuleConfig {
            protocol: Some(IpProtocol::UDP.0),
            source_ports: vec![(53, 53)],
            ..rule(Action::Permit)
        };
        set_acl(&mut filters, "all", vec![there, back]);
        publish(&mut bench, &mut filters, &["all"]);
        let before = visits(&bench);
        for name in ["udp answer", "udp", "udp answer", "udp", "error of a router"] {
            pass(&mut bench, text, name);
        }
        assert_eq!(visits(&bench), before + 1, "the answer has both decided");
        let hits = filters.placed("all").unwrap().acl;
        assert_eq!((hits.hits(0), hits.hits(1)), (2, 1));
    });
}

#[test]
fn rules_may_ask_for_flags_and_kinds_of_messages() {
    everywhere(|tier, text, _| {
        let flags = |flags: TcpFlags, of: TcpFlags| Flags { mask: flags.bits(), value: of.bits() };
        let begins = RuleConfig {
            protocol: Some(IpProtocol::TCP.0),
            flags: flags(TcpFlags::SYN.union(TcpFlags::ACK), TcpFlags::SYN),
            ..rule(Action::Reflect)
        };
        let echo = |protocol: IpProtocol, kind| RuleConfig {
            protocol: Some(protocol.0),
            icmp: Some((kind, Some(0))),
            ..rule(Action::Reflect)
        };
        let rules = vec![begins, echo(IpProtocol::ICMP, 8), echo(IpProtocol::ICMPV6, 128)];
        let permits = rules.clone();
        let (mut bench, mut filters) = network(tier, rules.clone());
        for name in ["tcp syn", "tcp syn-ack answer", "tcp ack", "echo", "echo answer"] {
            pass(&mut bench, text, name);
        }
        // What the session began with counts, not what comes by when rules change.
        set_acl(&mut filters, "all", rules);
        publish(&mut bench, &mut filters, &["all"]);
        for name in ["tcp ack answer", "tcp ack", "echo answer"] {
            pass(&mut bench, text, name);
        }
        // Answers of what is permitted have flags and types of their own.
        let back = |rule: RuleConfig| RuleConfig { action: Some(Action::Permit), ..rule };
        let acknowledges = RuleConfig {
            protocol: Some(IpProtocol::TCP.0),
            flags: flags(TcpFlags::ACK, TcpFlags::ACK),
            ..rule(Action::Permit)
        };
        let asked = permits.iter().cloned().map(back);
        let replies = [echo(IpProtocol::ICMP, 0), echo(IpProtocol::ICMPV6, 129)].map(back);
        let (mut bench, mut filters) =
            network(tier, asked.clone().chain([acknowledges]).chain(replies).collect());
        for name in ["tcp syn", "tcp syn-ack answer", "tcp ack", "echo", "echo answer"] {
            pass(&mut bench, text, name);
        }
        set_acl(&mut filters, "all", asked.collect());
        publish(&mut bench, &mut filters, &["all"]);
        for name in ["tcp ack", "echo"] {
            pass(&mut bench, text, name);
        }
        for name in ["tcp ack answer", "echo answer"] {
            dropped(&mut bench, text, name, "acl answers-denied");
        }
        let others = vec![RuleConfig { icmp: Some((0, None)), ..echo(IpProtocol::ICMP, 0) }];
        let (mut bench, _) = network(tier, others);
        dropped(&mut bench, text, "tcp syn", "acl denied");
        dropped(&mut bench, text, "echo", "acl denied");
        let (mut bench, _) = network(
            tier,
            vec![RuleConfig {
                protocol: Some(IpProtocol::TCP.0),
                flags: flags(TcpFlags::ACK, TcpFlags::empty()),
                ..rule(Action::Reflect)
            }],
        );
        dropped(&mut bench, text, "tcp ack", "acl denied");
    });
}
