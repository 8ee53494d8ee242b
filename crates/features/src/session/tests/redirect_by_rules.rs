//! Rules say which sessions an engine looks into.

use super::acl::{publish, rule, set_acl, to_port};
use super::redirect::{redirected, sent, through, with_engine};
use super::*;
use crate::session::acl::Action;
use crate::session::acl::control::{Filters, RuleConfig};
use crate::session::redirect::{OnFailure, Redirect};
use wire::IpProtocol;

/// A tenant whose rules are asked, and an engine that is there for some sessions, or for all.
fn filtering(only_by_rules: bool) -> Tenant {
    let tenant = redirected(0, OnFailure::Drop);
    Tenant {
        chain: [order().chain(["l4-lifecycle", "acl", "redirect"]).unwrap(); 2],
        redirect: tenant.redirect.map(|redirect| Redirect { only_by_rules, ..redirect }),
        ..tenant
    }
}

fn network(tier: Tier, tenant: &Tenant, rules: Vec<RuleConfig>) -> (Bench, Filters) {
    let (mut bench, mut filters) = (with_engine(tier, tenant), Filters::default());
    set_acl(&mut filters, "all", rules);
    publish(&mut bench, &mut filters, &["all"]);
    (bench, filters)
}

/// UDP to port 53 is looked into, and all else passes.
fn rules() -> Vec<RuleConfig> {
    vec![to_port(Action::Redirect, IpProtocol::UDP, 53), rule(Action::Reflect)]
}

#[test]
fn sessions_visit_the_engine_where_a_rule_says_so() {
    everywhere(|tier, text, _| {
        let (mut bench, filters) = network(tier, &filtering(true), rules());
        for name in ["udp", "udp answer", "udp"] {
            through(&mut bench, text, name);
        }
        assert_eq!(sent(&bench), 3);
        for name in ["tcp syn", "tcp syn-ack answer", "tcp ack"] {
            pass(&mut bench, text, name);
        }
        assert_eq!(sent(&bench), 3);
        let list = filters.placed("all").unwrap().acl;
        assert_eq!((list.met(Action::Redirect), list.met(Action::Reflect)), (1, 1));
    });
}

#[test]
fn without_only_by_rules_all_of_them_do() {
    everywhere(|tier, text, _| {
        let (mut bench, _) = network(tier, &filtering(false), rules());
        ["udp", "tcp syn"].iter().for_each(|name| through(&mut bench, text, name));
        assert_eq!(sent(&bench), 2);
    });
}

/// Rules that change have sessions visit it from then on, or no more; where sessions are kept, these go on as they were.
#[test]
fn what_was_decided_is_decided_anew_when_rules_change() {
    everywhere(|tier, text, _| {
        let (mut bench, mut filters) = network(tier, &filtering(true), vec![rule(Action::Reflect)]);
        pass(&mut bench, text, "udp");
        set_acl(&mut filters, "all", rules());
        publish(&mut bench, &mut filters, &["all"]);
        through(&mut bench, text, "udp");
        set_acl(&mut filters, "all", vec![rule(Action::Permit)]);
        publish(&mut bench, &mut filters, &["all"]);
        pass(&mut bench, text, "udp");
        assert_eq!(sent(&bench), 1);
    });
    everywhere(|tier, text, _| {
        let tenant = Tenant { keep_sessions: true, ..filtering(true) };
        let (mut bench, mut filters) = network(tier, &tenant, rules());
        through(&mut bench, text, "udp");
        pass(&mut bench, text, "tcp syn");
        set_acl(&mut filters, "all", vec![rule(Action::Deny)]);
        publish(&mut bench, &mut filters, &["all"]);
        through(&mut bench, text, "udp");
        pass(&mut bench, text, "tcp ack");
        assert_eq!((sent(&bench), count(&bench, "acl", "kept")), (2, 2));
    });
}

/// Where there is no engine, `redirect` is `reflect`.
#[test]
fn without_an_engine_they_pass() {
    everywhere(|tier, text, _| {
        let (mut bench, mut filters) = (bench(tier, &[tenant()]), Filters::default());
        let chain = [order().chain(["l4-lifecycle", "acl"]).unwrap(); 2];
        set_tenants(&mut bench, &[Tenant { chain, ..tenant() }]);
        set_acl(&mut filters, "all", rules());
        publish(&mut bench, &mut filters, &["all"]);
        ["udp", "udp answer"].iter().for_each(|name| pass(&mut bench, text, name));
    });
}
