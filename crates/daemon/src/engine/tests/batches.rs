//! What workers see while a batch is under way.

use std::net::IpAddr;
use std::sync::Arc;

use api::v1::{Acl, AclAction, AclRule, Backend, Endpoint, Tenant, Vip};
use features::session::Tenants;
use features::session::acl::Question;
use features::session::tenants::TIMERS;
use wire::IpProtocol;

use super::*;
use crate::dataplane::{Change, Dataplane, Operation};
use crate::model::Name;
use crate::model::spec::{AclSpec, AddressSetSpec, EndpointSpec, TenantSpec, VipSpec};

/// The engine's thread has its turn now, as far as it publishes; what workers see then.
fn turn(look: &EngineHandle) -> Arc<Tenants> {
    let mut core = look.shared.core();
    core.settle();
    let key = core.keys.tenants;
    core.publisher.current().share(key)
}

fn question() -> Question {
    let at = |address: &str, port| (address.parse::<IpAddr>().unwrap(), port);
    Question {
        context: 0,
        protocol: IpProtocol::UDP.0,
        source: at("192.0.2.1", 1024),
        destination: at("10.0.0.1", 53),
        flags: 0,
        icmp: (0, 0),
    }
}

fn rule(action: AclAction, set: &str) -> AclRule {
    AclRule { action: action.into(), source_sets: vec![set.into()], ..AclRule::default() }
}

fn set(member: &str) -> AddressSetSpec {
    let (address, length) = member.split_once('/').unwrap();
    let members = [(address.parse().unwrap(), length.parse().unwrap())].into();
    AddressSetSpec { name: Name::new("office").unwrap(), members }
}

fn list(name: &str, rules: Vec<AclRule>) -> AclSpec {
    AclSpec::parse(&Acl { name: name.into(), rules, ..Acl::default() }).unwrap()
}

/// What refers comes before what is referred to, and in between the engine's thread publishes.
#[test]
fn workers_see_all_of_a_batch_or_nothing() {
    let mut engine = engine();
    let look = engine.handle();
    let services = vec!["l4-lifecycle".to_string(), "balance".into(), "acl".into()];
    let tenant = TenantSpec::parse(&Tenant {
        name: "red".into(),
        forward_services: services.clone(),
        reverse_services: services,
        acls: vec!["web".into()],
        ..Tenant::default()
    })
    .unwrap();
    let endpoint = Endpoint {
        name: "server".into(),
        addresses: vec!["10.0.0.1".into()],
        ingress_acls: vec!["web".into()],
        ..Endpoint::default()
    };
    let backend = Backend { address: "10.0.0.1".into(), port: 53, weight: Some(1), ..Backend::default() };
    let vip = Vip {
        name: "dns".into(),
        address: "10.96.0.1".into(),
        port: 53,
        protocol: api::v1::VipProtocol::Udp.into(),
        backends: vec![backend],
        ..Vip::default()
    };
    let operations = [
        Operation::Vip(Change::added(&Arc::new(VipSpec::parse(&vip).unwrap()))),
        Operation::Acl(Change::added(&Arc::new(list("web", vec![rule(AclAction::Reflect, "office")])))),
        Operation::AddressSet(Change::added(&Arc::new(set("192.0.2.0/24")))),
        Operation::Endpoint(Change::added(&Arc::new(EndpointSpec::parse(&endpoint).unwrap()))),
        Operation::Tenant(Change::added(&Arc::new(tenant))),
    ];
    let before = turn(&look);
    for operation in &operations {
        engine.execute(operation).unwrap();
        // Neighbours have interfaces published in between.
        look.shared.core().publish_interfaces();
        let seen = turn(&look);
        assert!(Arc::ptr_eq(&seen, &before), "{operation} is seen");
    }
    engine.publish().unwrap();
    let seen = turn(&look);
    let red = seen.get(1).unwrap();
    let mut met = Vec::new();
    seen.acls.explain(&red.acls, &question(), |_, list, _| met.push((list.acl.name.to_string(), list.rule)));
    assert_eq!(met, [("web".into(), Some(0)), ("web".into(), Some(0))], "the tenant's, and the endpoint's");
    let key =
        tables::session::Key::of(0, IpProtocol::UDP.0, question().source, ("10.96.0.1".parse().unwrap(), 53));
    assert!(seen.vips.client(&key.unwrap().0).is_some());

    // A list that goes, and another that is given its number.
    let gone = Arc::new(list("web", vec![rule(AclAction::Reflect, "office")]));
    let without = TenantSpec { acls: Vec::new(), ..(*tenant_of(&operations)).clone() };
    let steps = [
        Operation::Endpoint(Change::removed(&Arc::new(EndpointSpec::parse(&endpoint).unwrap()))),
        Operation::Acl(Change::removed(&gone)),
        Operation::Acl(Change::added(&Arc::new(list("deny", vec![rule(AclAction::Deny, "office")])))),
        Operation::Tenant(Change { before: Some(tenant_of(&operations)), after: Some(Arc::new(without)) }),
    ];
    for operation in &steps {
        engine.execute(operation).unwrap();
        assert!(Arc::ptr_eq(&turn(&look), &seen), "{operation} is seen");
    }
    engine.publish().unwrap();
    assert!(turn(&look).get(1).unwrap().acls.is_empty());
    // What comes by itself isn't held back afterwards.
    look.shared.core().interfaces_changed = true;
    assert!(!Arc::ptr_eq(&turn(&look), &seen));
}

/// What is decided about a tenant's sessions holds until the tenant, a list that it names, or a set of those is another one.
#[test]
fn a_tenant_is_by_another_policy_when_it_or_its_rules_change_and_not_when_others_do() {
    let mut engine = engine();
    let look = engine.handle();
    let tenant = |name: &str, list: &str| {
        let services = vec!["l4-lifecycle".to_string(), "acl".into()];
        TenantSpec::parse(&Tenant {
            name: name.into(),
            forward_services: services.clone(),
            reverse_services: services,
            acls: vec![list.into()],
            ..Tenant::default()
        })
        .unwrap()
    };
    let named = |name: &str, member: &str| AddressSetSpec { name: Name::new(name).unwrap(), ..set(member) };
    let of_set = |set: &str| vec![rule(AclAction::Reflect, set)];
    let (red, blue) = (Arc::new(tenant("red", "web")), Arc::new(tenant("blue", "mail")));
    let change = |before: &Arc<TenantSpec>, after: TenantSpec| {
        Operation::Tenant(Change { before: Some(Arc::clone(before)), after: Some(Arc::new(after)) })
    };
    let mut policies = |operations: Vec<Operation>| {
        operations.iter().for_each(|operation| engine.execute(operation).unwrap());
        engine.publish().unwrap();
        let seen = turn(&look);
        let number = |name: &str| (1..3).find(|at| seen.get(*at).is_some_and(|it| *it.name == *name));
        let policy = |name| seen.get(number(name).unwrap()).unwrap().policy;
        assert!(policy("red").max(policy("blue")) <= seen.generation);
        (policy("red"), policy("blue"), seen.generation)
    };
    let mut before = policies(vec![
        Operation::AddressSet(Change::added(&Arc::new(named("office", "192.0.2.0/24")))),
        Operation::AddressSet(Change::added(&Arc::new(named("others", "192.0.2.0/24")))),
        Operation::Acl(Change::added(&Arc::new(list("web", of_set("office"))))),
        Operation::Acl(Change::added(&Arc::new(list("mail", of_set("others"))))),
        Operation::Tenant(Change::added(&red)),
        Operation::Tenant(Change::added(&blue)),
    ]);
    assert!(before.0 > 0 && before.1 > 0);
    let keeps = TenantSpec { keep_sessions: true, ..(*red).clone() };
    let longer = TenantSpec {
        max_sessions: 7,
        max_per_source: 3,
        source_prefix: 56,
        timeouts: [9; TIMERS],
        ..keeps.clone()
    };
    let members =
        |name: &str, member: &str| Operation::AddressSet(Change::added(&Arc::new(named(name, member))));
    for (what, operations, changed) in [
        ("another's set", vec![members("others", "192.0.2.0/25")], (false, true)),
        ("its set", vec![members("office", "192.0.2.0/25")], (true, false)),
        ("a set of nobody's", vec![members("home", "192.0.2.0/25")], (false, false)),
        ("its list", vec![Operation::Acl(Change::added(&Arc::new(list("web", vec![]))))], (true, false)),
        ("a set of its list before", vec![members("office", "192.0.2.0/26")], (false, false)),
        ("the tenant", vec![change(&red, keeps.clone())], (true, false)),
        ("how many, and how long", vec![change(&red, longer.clone())], (false, false)),
        ("there and back", vec![change(&red, (*red).clone()), change(&red, longer.clone())], (false, false)),
        ("another tenant", vec![change(&blue, tenant("blue", "web"))], (false, true)),
        (
            "a list of both",
            vec![Operation::Acl(Change::added(&Arc::new(list("web", of_set("home")))))],
            (true, true),
        ),
    ] {
        let after = policies(operations);
        assert_eq!((after.0 > before.0, after.1 > before.1), changed, "{what}");
        assert!(after.2 > before.2, "{what}: workers look through their sessions");
        before = after;
    }
}

/// The tenant that these bring.
fn tenant_of(operations: &[Operation]) -> Arc<TenantSpec> {
    match operations.last() {
        Some(Operation::Tenant(change)) => change.after.clone().unwrap(),
        _ => panic!("no tenant"),
    }
}
