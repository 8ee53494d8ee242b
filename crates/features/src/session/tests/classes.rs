//! Whose sessions are that begin at an interface whose tenant has classes.

use super::acl::{rule, set_acl, to_port};
use super::explain::meets;
use super::*;
use crate::session::acl::Action;
use crate::session::acl::control::{Filters, RuleConfig};
use wire::IpProtocol;

/// Red has the interface; DNS is of the second tenant, HTTP of the third one, and of red what neither list lets pass.
fn classified(tier: Tier) -> (Bench, Filters) {
    let tenants = ["red", "voice", "web"].map(|name| Tenant { name: name.into(), ..tenant() });
    let (mut bench, mut filters) = (bench(tier, &tenants), Filters::default());
    set_acl(&mut filters, "dns", vec![to_port(Action::Permit, IpProtocol::UDP, 53)]);
    set_acl(&mut filters, "http", vec![to_port(Action::Reflect, IpProtocol::TCP, 80)]);
    publish(&mut bench, &mut filters, &[("dns", 2), ("http", 3)]);
    (bench, filters)
}

/// Has workers see lists, and red's classes.
fn publish(bench: &mut Bench, filters: &mut Filters, classes: &[(&str, u16)]) {
    filters.publish();
    let class = |(list, tenant): &(&str, u16)| Class { acl: filters.numbers([*list])[0], tenant: *tenant };
    let classes: Vec<Class> = classes.iter().map(class).collect();
    let key = bench.key::<Tenants>();
    bench.publish(|draft| {
        draft.change(key, |all| {
            all.generation += 1;
            all.acls = filters.acls().clone();
            let red = all.get(1).unwrap().clone();
            all.set(1, Some(Tenant { classes, ..red }));
        });
    });
}

fn change(bench: &mut Bench, number: u16, change: impl FnOnce(Tenant) -> Option<Tenant>) {
    let key = bench.key::<Tenants>();
    bench.publish(|draft| {
        draft.change(key, |all| {
            all.generation += 1;
            let tenant = all.get(number).unwrap().clone();
            all.set(number, change(tenant));
        });
    });
}

/// Tenants of all sessions, by protocol: UDP behind TCP.
fn owners(bench: &mut Bench) -> Vec<u16> {
    let mut all = seen(bench);
    all.sort_by_key(|seen| (seen.key.protocol(), seen.endpoints()));
    all.iter().map(|seen| seen.session.tenant).collect()
}

#[test]
fn a_session_is_of_the_first_class_whose_list_lets_it_pass_or_else_of_the_interface_s_tenant() {
    everywhere(|tier, text, _| {
        let (mut bench, mut filters) = classified(tier);
        for name in ["tcp syn", "tcp syn-ack answer", "udp", "udp answer", "udp", "echo", "echo answer"] {
            pass(&mut bench, text, name);
        }
        let echo = if text == V4 { [1, 3, 2] } else { [3, 2, 1] };
        assert_eq!(owners(&mut bench), echo);
        let hits = |list: &str| filters.placed(list).unwrap().acl.hits(0);
        assert_eq!((hits("dns"), hits("http")), (1, 1), "asked about first packets alone");
        // Both lists would have it: the first one counts.
        let (mut bench, _) = classified(tier);
        set_acl(&mut filters, "any", vec![rule(Action::Redirect)]);
        publish(&mut bench, &mut filters, &[("any", 3), ("dns", 2)]);
        pass(&mut bench, text, "udp");
        assert_eq!(owners(&mut bench), [3]);
    });
}

#[test]
fn a_class_s_sessions_have_its_tenant_s_chain_and_quota() {
    everywhere(|tier, text, node| {
        let (mut bench, filters) = classified(tier);
        let chain = [order().chain(["l4-lifecycle", "acl"]).unwrap(); 2];
        change(&mut bench, 2, |voice| Some(Tenant { chain, acls: filters.numbers(["http"]), ..voice }));
        dropped(&mut bench, text, "udp", "acl denied");
        change(&mut bench, 3, |web| Some(Tenant { max_sessions: 0, ..web }));
        dropped(&mut bench, text, "tcp syn", &format!("{node} quota"));
        pass(&mut bench, text, "echo");
    });
}

#[test]
fn flags_are_those_of_the_first_packet() {
    everywhere(|tier, text, _| {
        let (mut bench, mut filters) = classified(tier);
        let flags = RuleConfig {
            flags: tables::classifier::Flags { mask: wire::TcpFlags::ACK.bits(), value: 0 },
            ..to_port(Action::Permit, IpProtocol::TCP, 80)
        };
        set_acl(&mut filters, "http", vec![flags]);
        publish(&mut bench, &mut filters, &[("http", 3)]);
        pass(&mut bench, text, "tcp ack");
        assert_eq!(owners(&mut bench), [1]);
        let (mut bench, _) = classified(tier);
        publish(&mut bench, &mut filters, &[("http", 3)]);
        pass(&mut bench, text, "tcp syn");
        assert_eq!(owners(&mut bench), [3]);
    });
}

#[test]
fn sessions_stay_when_lists_change_and_end_when_they_are_of_no_class_any_more() {
    everywhere(|tier, text, _| {
        let (mut bench, mut filters) = classified(tier);
        pass(&mut bench, text, "udp");
        set_acl(&mut filters, "dns", vec![rule(Action::Deny)]);
        publish(&mut bench, &mut filters, &[("dns", 2), ("http", 3)]);
        pass(&mut bench, text, "udp answer");
        assert_eq!(owners(&mut bench), [2], "it keeps whose it was");
        pass(&mut bench, text, "another udp");
        assert_eq!(owners(&mut bench), [2, 1], "others are asked about as rules are now");
        publish(&mut bench, &mut filters, &[("http", 3)]);
        wait(&mut bench, 0);
        assert_eq!(owners(&mut bench), [1]);
        pass(&mut bench, text, "udp");
        assert_eq!(owners(&mut bench), [1, 1]);
    });
}

#[test]
fn a_class_whose_tenant_is_not_there_has_no_sessions() {
    everywhere(|tier, text, _| {
        let (mut bench, _) = classified(tier);
        change(&mut bench, 2, |_| None);
        pass(&mut bench, text, "udp");
        assert_eq!(owners(&mut bench), [1]);
    });
}

#[test]
fn who_explains_asks_the_same_lists_and_counts_nothing() {
    everywhere(|tier, text, node| {
        let (mut bench, filters) = classified(tier);
        for (name, tenant, lists) in [("udp", 2, 1), ("tcp syn", 3, 2), ("echo", 1, 2), ("udp", 2, 0)] {
            let said = meets(&mut bench, text, name);
            let asked = said.steps.iter().filter(|step| step.found.starts_with("whose it is: "));
            assert_eq!((said.tenant, asked.count()), (Some(tenant), lists), "{name}: {said:?}");
            assert!(
                said.steps.iter().all(|step| step.node == node || step.node == "l4-lifecycle"),
                "{said:?}"
            );
        }
        assert_eq!(filters.placed("dns").unwrap().acl.hits(0), 1, "of the packet that was there");
    });
}
