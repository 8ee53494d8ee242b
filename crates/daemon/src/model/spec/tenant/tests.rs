use super::services::DEFAULT_SERVICES;
use super::*;

fn by_rules(services: &[&str]) -> Tenant {
    let mut tenant = redirected(services, &["ids"]);
    tenant.redirect = tenant.redirect.map(|said| api::v1::Redirect { only_by_rules: true, ..said });
    tenant
}

fn redirected(services: &[&str], interfaces: &[&str]) -> Tenant {
    let text = |names: &[&str]| names.iter().map(ToString::to_string).collect();
    let redirect = api::v1::Redirect { interfaces: text(interfaces), ..api::v1::Redirect::default() };
    Tenant {
        forward_services: text(services),
        reverse_services: text(services),
        redirect: Some(redirect),
        ..tenant()
    }
}

fn class(acl: &str, tenant: &str) -> TenantClass {
    TenantClass { acl: acl.into(), tenant: tenant.into() }
}

const PASS: i32 = api::v1::SlowPathAction::Pass as i32;
const DROP: i32 = api::v1::SlowPathAction::Drop as i32;
const HANDLE: i32 = api::v1::SlowPathAction::Handle as i32;

fn slow_path<T>(change: impl FnOnce(&mut api::v1::SlowPath) -> T) -> Option<api::v1::SlowPath> {
    let mut path = api::v1::SlowPath::default();
    change(&mut path);
    Some(path)
}

/// A tenant whose sessions pass a service that nothing is to pass by.
fn guarded(service: &str) -> Tenant {
    let services = vec![service.to_string()];
    Tenant { forward_services: services.clone(), reverse_services: services, ..tenant() }
}

fn tenant() -> Tenant {
    Tenant { name: "red".into(), interfaces: vec!["a".into()], ..Tenant::default() }
}

#[test]
fn the_canonical_form_is_what_differs_from_the_defaults() {
    for api in [
        tenant(),
        Tenant {
            context: 7,
            outside_interfaces: vec!["b".into(), "c".into()],
            forward_services: vec!["none".into()],
            timeouts: Some(SessionTimeouts { icmp_seconds: 3, ..SessionTimeouts::default() }),
            max_sessions: 10,
            untracked: UntrackedAction::Drop.into(),
            ..tenant()
        },
        Tenant {
            forward_services: vec!["tcp-check".into(), "l4-lifecycle".into()],
            reverse_services: vec!["tcp-check".into()],
            midstream: MidstreamAction::Security.into(),
            max_new_sessions_per_second: 5000,
            early_syn_drop: true,
            max_sessions_per_source: 100,
            ..tenant()
        },
        Tenant { max_sessions_per_source: 16_777_215, source_ipv6_prefix_length: 128, ..tenant() },
        Tenant {
            outside_interfaces: vec!["b".into()],
            max_sessions_per_source: 7,
            source_exempt_interfaces: vec!["a".into(), "b".into()],
            ..tenant()
        },
        Tenant {
            source_exempt_interfaces: vec!["a".into()],
            classes: vec![class("voice", "blue")],
            ..tenant()
        },
        Tenant {
            forward_services: vec!["l4-lifecycle".into(), "nat".into()],
            reverse_services: vec!["l4-lifecycle".into(), "nat".into()],
            nat_pool: "out".into(),
            ..tenant()
        },
        Tenant {
            reverse_services: vec!["l4-lifecycle".into(), "policer".into()],
            reverse_policer: "gold".into(),
            ..tenant()
        },
        Tenant {
            forward_services: vec!["nat".into()],
            reverse_services: vec!["nat".into()],
            nat_pool: "out".into(),
            untracked: UntrackedAction::Pass.into(),
            ..tenant()
        },
        Tenant { slow_path: slow_path(|path| path.fragments = DROP), ..tenant() },
        Tenant {
            slow_path: slow_path(|path| (path.overflow, path.related_errors) = (PASS, DROP)),
            untracked: UntrackedAction::Drop.into(),
            ..tenant()
        },
        Tenant { slow_path: slow_path(|path| path.unknown_protocol = PASS), ..guarded("acl") },
        Tenant { slow_path: slow_path(|path| path.overflow = PASS), ..guarded("tcp-check") },
        Tenant { classes: vec![class("voice", "blue"), class("web", "blue")], ..tenant() },
        redirected(&["redirect"], &["ids-b", "ids-a"]),
        redirected(&["l4-lifecycle", "redirect"], &["ids"]),
        by_rules(&["acl", "redirect"]),
        {
            let mut other = redirected(&["redirect"], &["ids"]);
            other.redirect = other.redirect.map(|redirect| api::v1::Redirect {
                on_failure: api::v1::FailureAction::Pass.into(),
                away_after_milliseconds: 300,
                inspect_packets: 7,
                reassemble: true,
                ..redirect
            });
            other
        },
    ] {
        assert_eq!(TenantSpec::parse(&api).unwrap().to_api(), api);
    }
    let spec = TenantSpec::parse(&tenant()).unwrap();
    assert_eq!((spec.timeouts, spec.max_sessions), (DEFAULT_TIMEOUTS, DEFAULT_MAX_SESSIONS));
    // Where rules are asked, what hides its ports is shown as it is done with.
    let acl = TenantSpec::parse(&Tenant { untracked: UntrackedAction::Pass.into(), ..guarded("acl") });
    let shown = slow_path::in_force(acl.unwrap().slow_path);
    assert_eq!((shown.too_short, shown.unknown_protocol), (DROP, PASS));
    // What is said though it is the default is left out.
    let all = slow_path::in_force(SlowPath::default());
    assert_eq!(TenantSpec::parse(&Tenant { slow_path: Some(all), ..tenant() }).unwrap().to_api(), tenant());
    let said =
        Tenant { forward_services: vec![DEFAULT_SERVICES.into()], max_sessions: 1_000_000, ..tenant() };
    assert_eq!(TenantSpec::parse(&said).unwrap().to_api(), tenant());
}

#[test]
fn flaws_name_their_field() {
    let long = SessionTimeouts { time_wait_seconds: MAX_SECONDS + 1, ..SessionTimeouts::default() };
    for (api, field) in [
        (Tenant { name: "a b".into(), ..tenant() }, "name"),
        (Tenant { classes: vec![class("", "blue")], ..tenant() }, "classes[0].acl"),
        (Tenant { classes: vec![class("web", "red")], ..tenant() }, "classes[0].tenant"),
        (Tenant { classes: vec![class("web", "blue"), class("web", "green")], ..tenant() }, "classes[1].acl"),
        (Tenant { context: 65_536, ..tenant() }, "context"),
        (Tenant { interfaces: vec!["a".into(), "b/".into()], ..tenant() }, "interfaces[1]"),
        (Tenant { interfaces: vec!["a".into(), "a".into()], ..tenant() }, "interfaces"),
        (Tenant { outside_interfaces: vec!["a".into()], ..tenant() }, "outside_interfaces"),
        (Tenant { forward_services: vec!["ips".into()], ..tenant() }, "forward_services"),
        (Tenant { nat_pool: "out".into(), ..tenant() }, "nat_pool"),
        (Tenant { forward_policer: "gold".into(), ..tenant() }, "forward_policer"),
        (Tenant { reverse_services: vec!["policer".into()], ..tenant() }, "reverse_policer"),
        (
            Tenant { forward_services: vec!["policer".into()], forward_policer: "a b".into(), ..tenant() },
            "forward_policer",
        ),
        (
            Tenant { forward_services: vec!["nat".into()], reverse_services: vec!["nat".into()], ..tenant() },
            "nat_pool",
        ),
        (Tenant { reverse_services: vec![DEFAULT_SERVICES.into(); 2], ..tenant() }, "reverse_services"),
        (Tenant { timeouts: Some(long), ..tenant() }, "timeouts.time_wait_seconds"),
        (Tenant { max_sessions: MAX_SESSIONS + 1, ..tenant() }, "max_sessions"),
        (Tenant { max_sessions_per_source: 1 << 24, ..tenant() }, "max_sessions_per_source"),
        (Tenant { source_ipv6_prefix_length: 56, ..tenant() }, "source_ipv6_prefix_length"),
        (
            Tenant { max_sessions_per_source: 9, source_ipv6_prefix_length: 129, ..tenant() },
            "source_ipv6_prefix_length",
        ),
        (Tenant { source_exempt_interfaces: vec!["a".into()], ..tenant() }, "source_exempt_interfaces"),
        (
            Tenant { max_sessions_per_source: 9, source_exempt_interfaces: vec!["z".into()], ..tenant() },
            "source_exempt_interfaces",
        ),
        (Tenant { untracked: 9, ..tenant() }, "untracked"),
        (Tenant { slow_path: slow_path(|path| path.overflow = 9), ..tenant() }, "slow_path.overflow"),
        (Tenant { slow_path: slow_path(|path| path.overflow = HANDLE), ..tenant() }, "slow_path.overflow"),
        (
            Tenant { slow_path: slow_path(|path| path.related_errors = PASS), ..tenant() },
            "slow_path.related_errors",
        ),
        (
            Tenant { slow_path: slow_path(|path| path.overflow = PASS), ..guarded("acl") },
            "slow_path.overflow",
        ),
        (
            Tenant { slow_path: slow_path(|path| path.fragments = PASS), ..guarded("acl") },
            "slow_path.fragments",
        ),
        (
            Tenant { slow_path: slow_path(|path| path.too_short = PASS), ..guarded("acl") },
            "slow_path.too_short",
        ),
        (
            Tenant {
                reverse_services: vec!["policer".into()],
                reverse_policer: "gold".into(),
                slow_path: slow_path(|path| path.overflow = PASS),
                ..tenant()
            },
            "slow_path.overflow",
        ),
        (
            Tenant {
                midstream: MidstreamAction::Remove.into(),
                slow_path: slow_path(|path| path.fragments = PASS),
                ..guarded("tcp-check")
            },
            "slow_path.fragments",
        ),
        (
            Tenant {
                slow_path: slow_path(|path| path.fragments = PASS),
                classes: vec![class("web", "blue")],
                ..tenant()
            },
            "slow_path.fragments",
        ),
        (
            Tenant { early_syn_drop: true, slow_path: slow_path(|path| path.overflow = PASS), ..tenant() },
            "early_syn_drop",
        ),
        (Tenant { midstream: 9, ..tenant() }, "midstream"),
        (Tenant { forward_services: vec!["tcp-check".into()], ..tenant() }, "reverse_services"),
        (redirected(&["l4-lifecycle"], &["ids"]), "redirect"),
        (Tenant { redirect: None, ..redirected(&["redirect"], &[]) }, "redirect"),
        (redirected(&["redirect"], &[]), "redirect.interfaces"),
        (redirected(&["redirect"], &["a", "a"]), "redirect.interfaces"),
        (redirected(&["redirect"], &["a", "b", "c"]), "redirect.interfaces"),
        (redirected(&["redirect"], &["a", "b/"]), "redirect.interfaces[1]"),
        (by_rules(&["redirect"]), "redirect.only_by_rules"),
    ] {
        assert_eq!(TenantSpec::parse(&api).unwrap_err().field, field);
    }
    let refused = Tenant { slow_path: slow_path(|path| path.unknown_protocol = HANDLE), ..tenant() };
    assert_eq!(
        TenantSpec::parse(&refused).unwrap_err().to_string(),
        "slow_path.unknown_protocol: nothing can handle them; take one of: pass, drop"
    );
    let unknown = TenantSpec::parse(&Tenant { forward_services: vec!["ips".into()], ..tenant() });
    let told = unknown.unwrap_err().to_string();
    let known = told.strip_prefix("forward_services: there is no service \"ips\"; take some of: ");
    let known = known.and_then(|rest| rest.strip_suffix("; or none alone")).expect(&told);
    for service in ["tcp-check", "l4-lifecycle", "nat"] {
        assert!(known.split(", ").any(|name| name == service), "{told}");
    }
}

#[test]
fn a_tenant_has_a_scope_and_names_services_of_that_one() {
    let scoped = TenantSpec::parse(&Tenant { scope: "default".into(), ..tenant() }).unwrap();
    assert_eq!((scoped.scope, scoped.to_api()), (0, tenant()));
    let flaw = TenantSpec::parse(&Tenant { scope: "mobile".into(), ..tenant() }).unwrap_err();
    assert_eq!(flaw.field, "scope");
    assert!(flaw.to_string().contains("there is no scope \"mobile\""), "{flaw}");
}

#[test]
fn a_parser_is_refused_where_a_service_needs_addresses_and_ports() {
    let parsed = |tenant: Tenant| Tenant { parser: "gtpu".into(), ..tenant };
    let spec = TenantSpec::parse(&parsed(tenant())).unwrap();
    assert_eq!((spec.parser_number(), spec.to_api()), (1, parsed(tenant())));
    for service in ["nat", "balance", "acl", "tcp-check", "redirect"] {
        let flaw = TenantSpec::parse(&parsed(guarded(service))).unwrap_err();
        assert_eq!(flaw.field, "forward_services", "{flaw}");
        assert!(flaw.to_string().contains(service) && flaw.to_string().contains("gtpu"), "{flaw}");
    }
    let metered = Tenant {
        forward_services: vec!["l4-lifecycle".into(), "session-stats".into(), "policer".into()],
        reverse_services: vec!["session-stats".into()],
        forward_policer: "gold".into(),
        ..tenant()
    };
    assert!(TenantSpec::parse(&parsed(metered)).is_ok());
    let classified = Tenant { classes: vec![class("voice", "blue")], ..tenant() };
    assert_eq!(TenantSpec::parse(&parsed(classified)).unwrap_err().field, "classes");
    let limited = Tenant { max_sessions_per_source: 9, ..tenant() };
    assert_eq!(TenantSpec::parse(&parsed(limited)).unwrap_err().field, "max_sessions_per_source");
    let flaw = TenantSpec::parse(&Tenant { parser: "gtp".into(), ..tenant() }).unwrap_err();
    assert!(flaw.to_string().contains("there is no parser \"gtp\""), "{flaw}");
}
