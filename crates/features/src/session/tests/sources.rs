//! What one source may have of a tenant's sessions.

use super::explain::meets;
use super::shared_room::workers;
use super::*;
use crate::session::explain::Outcome;
use wire::{Header, Ipv4Header, U16};

/// A tenant whose sources have so many sessions at most.
fn limited(sessions: u32) -> Tenant {
    Tenant { source_limit: limit(sessions), ..tenant() }
}

fn limit(sessions: u32) -> Option<SourceLimit> {
    Some(SourceLimit { sessions, ipv6_prefix_length: 64 })
}

/// The row's packet as another host sends it, which differs from A in that byte of its address.
fn sent_by(text: &'static str, name: &str, byte: usize, host: u8) -> Vec<u8> {
    let mut frame = packet(text, name).frame;
    let source = 14 + if text == V4 { 12 } else { 8 };
    frame[source + byte] = host;
    if text == V4 {
        let (header, _) = Ipv4Header::parse_mut(&mut frame[14..]).unwrap();
        header.checksum = U16::new(header.compute_checksum(&[]));
    }
    frame
}

/// As a host of another IPv4 address, or of another IPv6 link, sends it; why it is dropped, if it is.
fn from_host(bench: &mut Bench, text: &'static str, name: &str, host: u8) -> Option<String> {
    let byte = if text == V4 { 3 } else { 7 };
    let outcome = bench.run(2, &[sent_by(text, name, byte, host)], 1);
    outcome.drops.into_keys().next()
}

/// Those of A that have been answered.
fn answered(bench: &mut Bench, text: &'static str, names: &[&str]) {
    for name in names {
        pass(bench, text, name);
        pass(bench, text, &format!("{name} answer"));
    }
}

/// Sessions that count at A.
fn of_a(bench: &Bench, tenant: &Tenant, text: &'static str) -> u32 {
    of(bench, tenant, text, "udp")
}

/// Sessions that count at who sends that row.
fn of(bench: &Bench, tenant: &Tenant, text: &'static str, name: &str) -> u32 {
    let tenants = bench.publisher.current().share(bench.key::<Tenants>());
    let row = packet(text, name);
    // B's interface is one of IP packets.
    let ip = if row.rx_if == 2 { &row.frame[14..] } else { &row.frame };
    let source = if text == V4 {
        std::net::Ipv4Addr::from(<[u8; 4]>::try_from(&ip[12..16]).unwrap()).into()
    } else {
        std::net::Ipv6Addr::from(<[u8; 16]>::try_from(&ip[8..24]).unwrap()).into()
    };
    let key = tables::session::Key::of_endpoint(0, 17, (source, 0));
    let limit = tenants.get(1).and_then(|tenant| tenant.source_limit).or(limit(1)).unwrap();
    let sources = &tenant.occupancy.sources;
    sources.sessions(sources.of(&key, false, &limit))
}

/// SFDP's weakness 7: nothing but the quota of all. Who keeps it full with what was answered keeps everybody else out; with a limit of his own he doesn't.
#[test]
fn who_has_as_many_as_one_may_keeps_nobody_else_out() {
    everywhere(|tier, text, node| {
        let mut without = bench(tier, &[Tenant { max_sessions: 2, ..tenant() }]);
        answered(&mut without, text, &["udp", "echo"]);
        assert_eq!(from_host(&mut without, text, "another udp", 77), Some(format!("{node} quota")));

        let shared = Tenant { max_sessions: 3, max_new_per_second: 40, ..limited(2) };
        let mut bench = bench(tier, std::slice::from_ref(&shared));
        answered(&mut bench, text, &["udp", "echo"]);
        // Nor does it use up the rate: four at once.
        for _ in 0..10 {
            dropped(&mut bench, text, "another udp", &format!("{node} source-quota"));
        }
        assert_eq!(from_host(&mut bench, text, "another udp", 77), None);
        answered(&mut bench, text, &["udp", "echo"]);
        assert_eq!((seen(&mut bench).len(), of_a(&bench, &shared, text)), (3, 2));
        assert_eq!(shared.occupancy.refused.load(Ordering::Relaxed), 10);
        let drops = shared.occupancy.dropped();
        assert_eq!(drops.into_values().collect::<Vec<_>>(), [10], "the tenant has them, too");
    });
}

/// By its time, for want of room, and by who clears it.
#[test]
fn a_session_that_ends_gives_its_source_a_place() {
    everywhere(|tier, text, node| {
        let shared = Tenant { max_sessions: 2, ..limited(2) };
        let mut bench = bench(tier, std::slice::from_ref(&shared));
        answered(&mut bench, text, &["udp"]);
        pass(&mut bench, text, "another udp");
        dropped(&mut bench, text, "echo", &format!("{node} source-quota"));
        assert_eq!(
            from_host(&mut bench, text, "a third udp", 77),
            None,
            "in the place of the one unanswered"
        );
        assert_eq!(of_a(&bench, &shared, text), 1);
        pass(&mut bench, text, "echo");
        wait(&mut bench, 6);
        assert_eq!(of_a(&bench, &shared, text), 1);
        pass(&mut bench, text, "echo");
        assert_eq!(of_a(&bench, &shared, text), 2);
        sessions(&mut bench).clear(&Filter::default(), 0, u32::MAX, 0);
        assert_eq!(of_a(&bench, &shared, text), 0);
        answered(&mut bench, text, &["udp", "echo"]);
        wait(&mut bench, 121);
        assert_eq!((of_a(&bench, &shared, text), seen(&mut bench).len()), (0, 0));
    });
}

/// They make room for whoever comes: a client isn't held up by connections that it has closed.
#[test]
fn what_is_over_or_blocked_counts_at_nobody() {
    everywhere(|tier, text, node| {
        let mut bench = bench(tier, &[limited(1)]);
        let close = |bench: &mut Bench| {
            for name in ["tcp syn", "tcp syn-ack answer", "tcp ack", "tcp rst answer"] {
                pass(bench, text, name);
            }
        };
        close(&mut bench);
        // In its time-wait the connection begins anew, as any other would.
        close(&mut bench);
        pass(&mut bench, text, "udp");
        assert_eq!(seen(&mut bench).len(), 2);
        dropped(&mut bench, text, "tcp syn", "ip4-session-input source-quota");
        assert_eq!(seen(&mut bench).len(), 1, "what was over has gone for it");
        dropped(&mut bench, text, "tcp syn", &format!("{node} source-quota"));
        wait(&mut bench, 6);
        pass(&mut bench, text, "tcp syn");
        dropped(&mut bench, text, "udp", &format!("{node} source-quota"));

        let chain = [order().chain(["tcp-check", "l4-lifecycle"]).unwrap(); 2];
        set_tenants(&mut bench, &[Tenant { midstream: Midstream::Security, chain, ..limited(1) }]);
        sessions(&mut bench).clear(&Filter::default(), 0, u32::MAX, 0);
        dropped(&mut bench, text, "tcp ack", "tcp-check blocked");
        assert!(one(&mut bench).session.is_blocked());
        pass(&mut bench, text, "udp");
    });
}

#[test]
fn a_connection_that_begins_anew_from_the_other_side_is_that_one_s() {
    for (tier, text) in Tier::available().into_iter().flat_map(|tier| [(tier, V4), (tier, V6)]) {
        let shared = limited(1);
        let mut bench = bench(tier, std::slice::from_ref(&shared));
        for name in ["tcp syn", "tcp syn-ack answer", "tcp ack", "tcp rst answer", "tcp syn answer"] {
            pass(&mut bench, text, name);
        }
        assert_eq!(one(&mut bench).session.state, State::Embryonic);
        assert_eq!(of_a(&bench, &shared, text), 0);
        pass(&mut bench, text, "udp");
    }
}

/// Where it begins anew says whether it counts, not where it had begun before.
#[test]
fn a_connection_that_begins_anew_counts_as_what_begins_there_does() {
    everywhere(|tier, text, _| {
        for uncounted in [vec![], vec![2], vec![3], vec![2, 3]] {
            let shared = Tenant { uncounted, ..limited(1) };
            let mut bench = bench(tier, std::slice::from_ref(&shared));
            for name in ["tcp syn", "tcp syn-ack answer", "tcp ack", "tcp rst answer"] {
                pass(&mut bench, text, name);
            }
            pass(&mut bench, text, "tcp syn answer");
            let counts = u32::from(!shared.uncounted.contains(&3));
            assert_eq!((seen(&mut bench).len(), of(&bench, &shared, text, "tcp syn answer")), (1, counts));
        }
    });
}

/// It holds from the next session on; those that are there count, and stay.
#[test]
fn a_limit_that_changes_holds_for_what_begins_from_then_on() {
    everywhere(|tier, text, node| {
        let shared = tenant();
        let mut bench = bench(tier, std::slice::from_ref(&shared));
        let change = |bench: &mut Bench, source_limit| {
            set_tenants(bench, &[Tenant { source_limit, ..shared.clone() }]);
            bench.round();
        };
        answered(&mut bench, text, &["udp"]);
        pass(&mut bench, text, "another udp");
        assert_eq!((of_a(&bench, &shared, text), sessions(&mut bench).sources.bytes()), (0, 0), "no limit");
        change(&mut bench, limit(2));
        assert_eq!(of_a(&bench, &shared, text), 2);
        dropped(&mut bench, text, "a third udp", &format!("{node} source-quota"));
        change(&mut bench, limit(3));
        pass(&mut bench, text, "a third udp");
        change(&mut bench, limit(1));
        assert_eq!((seen(&mut bench).len(), of_a(&bench, &shared, text)), (3, 3));
        dropped(&mut bench, text, "echo", &format!("{node} source-quota"));
        ["udp", "another udp"].into_iter().for_each(|name| pass(&mut bench, text, name));
        change(&mut bench, None);
        pass(&mut bench, text, "echo");
        // Others by the same name: nothing that counted before is forgotten or counted twice.
        change(&mut bench, Some(SourceLimit { sessions: 4, ipv6_prefix_length: 128 }));
        assert_eq!(of_a(&bench, &shared, text), 4);
        dropped(&mut bench, text, "tcp syn", &format!("{node} source-quota"));
        wait(&mut bench, 121);
        assert_eq!((seen(&mut bench).len(), of_a(&bench, &shared, text)), (0, 0));
    });
}

/// Where many are behind one address, nobody's sessions count, of classes neither; those that are there follow what is said.
#[test]
fn what_begins_where_many_are_behind_one_address_counts_at_none() {
    everywhere(|tier, text, node| {
        let shared = limited(1);
        let mut bench = bench(tier, std::slice::from_ref(&shared));
        let uncounted = |bench: &mut Bench, uncounted: bool| {
            let uncounted = if uncounted { vec![2, 5] } else { vec![5] };
            set_tenants(bench, &[Tenant { uncounted, ..shared.clone() }]);
            bench.round();
        };
        answered(&mut bench, text, &["udp"]);
        uncounted(&mut bench, true);
        assert_eq!(of_a(&bench, &shared, text), 0);
        let said = meets(&mut bench, text, "another udp").steps;
        assert!(said.iter().any(|step| step.found.contains("isn't counted")), "{said:?}");
        pass(&mut bench, text, "another udp");
        answered(&mut bench, text, &["echo"]);
        assert_eq!((seen(&mut bench).len(), of_a(&bench, &shared, text)), (3, 0));
        uncounted(&mut bench, false);
        assert_eq!(of_a(&bench, &shared, text), 3);
        dropped(&mut bench, text, "a third udp", &format!("{node} source-quota"));
        uncounted(&mut bench, true);
        wait(&mut bench, 121);
        assert_eq!((seen(&mut bench).len(), of_a(&bench, &shared, text)), (0, 0));
    });
}

/// Of two tenants with an interface in common, each says what counts of its own.
#[test]
fn what_begins_there_is_its_tenant_s_and_its_classes_matter_alone() {
    let mut all = Tenants::default();
    let class = Class { acl: 0, tenant: 2 };
    all.set(1, Some(Tenant { uncounted: vec![4], classes: vec![class], ..limited(7) }));
    (2..=3).for_each(|number| all.set(number, Some(limited(7))));
    all.set_place(4, Place { tenant: 1, ..Place::default() });
    all.set_place(5, Place { tenant: 1, ..Place::default() });
    let key = tables::session::Key::v4(0, 17, (1, 7), (2, 9)).0;
    for (number, interface, counts) in
        [(1, 4, false), (1, 5, true), (2, 4, false), (2, 5, true), (3, 4, true)]
    {
        assert_eq!(all.source_limit(number, &key, interface).is_some(), counts, "{number} at {interface}");
    }
}

/// Of two tenants, and of one that has the number of another, each has its own figures.
#[test]
fn a_source_s_sessions_are_of_each_tenant_for_itself() {
    everywhere(|tier, text, node| {
        let [red, blue] = [limited(1), limited(1)];
        let mut bench = bench(tier, &[red.clone(), blue.clone()]);
        let key = bench.key::<Tenants>();
        answered(&mut bench, text, &["udp"]);
        let place = Place { tenant: 2, ..Place::default() };
        bench.publish(|draft| draft.change(key, |all| all.set_place(2, place)));
        answered(&mut bench, text, &["echo"]);
        dropped(&mut bench, text, "another udp", &format!("{node} source-quota"));
        assert_eq!([&red, &blue].map(|tenant| of_a(&bench, tenant, text)), [1, 1]);
        // They go with the tenant.
        set_tenants(&mut bench, &[]);
        wait(&mut bench, 1);
        assert_eq!([&red, &blue].map(|tenant| of_a(&bench, tenant, text)), [0, 0]);
        let green = limited(1);
        set_tenants(&mut bench, std::slice::from_ref(&green));
        answered(&mut bench, text, &["udp"]);
        assert_eq!([&green, &red].map(|tenant| of_a(&bench, tenant, text)), [1, 0]);
    });
}

/// A host may take whichever addresses of its link's prefix it likes (RFC 4862, RFC 8981).
#[test]
fn the_addresses_of_an_ipv6_prefix_are_one_source() {
    for tier in Tier::available() {
        let on_link = |bench: &mut Bench, host| {
            let outcome = bench.run(2, &[sent_by(V6, "udp", 15, host)], 1);
            outcome.drops.into_keys().next()
        };
        let refused = Some("ip6-session-input source-quota".to_string());
        let shared = limited(2);
        let mut bench = bench(tier, std::slice::from_ref(&shared));
        assert_eq!([2, 3, 4, 2].map(|host| on_link(&mut bench, host)), [None, None, refused.clone(), None]);
        assert_eq!(from_host(&mut bench, V6, "udp", 1), None, "another link");
        let each = SourceLimit { sessions: 1, ipv6_prefix_length: 128 };
        set_tenants(&mut bench, &[Tenant { source_limit: Some(each), ..shared }]);
        bench.round();
        assert_eq!([5, 6, 7].map(|host| on_link(&mut bench, host)), [None, None, None]);
        dropped(&mut bench, V6, "another udp", "ip6-session-input source-quota");
        // Hosts of an IPv4 network are sources of their own.
        let mut bench = super::bench(tier, &[limited(1)]);
        assert_eq!([7, 8, 9].map(|host| from_host(&mut bench, V4, "udp", host)), [None, None, None]);
    }
}

/// Whatever a session looks like beyond, and whoever is asked: it is its initiator's.
#[test]
fn translated_and_balanced_sessions_are_their_initiator_s() {
    for tier in Tier::available() {
        let translating = Tenant { source_limit: limit(1), ..nat::translating(nat::pool(50000..=50001)) };
        let mut bench = bench(tier, std::slice::from_ref(&translating));
        for name in ["udp", "udp answer"] {
            let row = packet(nat::NAT, name);
            assert_eq!(bench.run(row.rx_if, &[row.frame], 1).drops, [].into(), "{name}");
        }
        dropped(&mut bench, nat::NAT, "tcp syn", "ip4-session-input source-quota");
        assert_eq!(of_a(&bench, &translating, V4), 1);
        // Counted anew with all that are there: the same.
        set_tenants(&mut bench, std::slice::from_ref(&translating));
        bench.round();
        assert_eq!(of_a(&bench, &translating, V4), 1);
        assert_eq!(nat::translations(&translating), 1);

        let asked = Tenant { source_limit: limit(1), ..nat::mapped::mapping() };
        let mut bench = super::bench(tier, std::slice::from_ref(&asked));
        nat::mapped::map(&mut bench, &asked);
        pass(&mut bench, nat::mapped::MAPPED, "asked");
        set_tenants(&mut bench, std::slice::from_ref(&asked));
        nat::mapped::map(&mut bench, &asked);
        bench.round();
        assert_eq!(of_a(&bench, &asked, V4), 0, "who asks A is outside");
        pass(&mut bench, nat::mapped::MAPPED, "asks");
        assert_eq!(of_a(&bench, &asked, V4), 1);

        let mut balancer = balance::simple();
        let mut bench = balance::network(tier, &mut balancer);
        let shared = Tenant { source_limit: limit(1), ..balance::balancing() };
        set_tenants(&mut bench, std::slice::from_ref(&shared));
        pass(&mut bench, balance::BALANCE4, "udp");
        pass(&mut bench, balance::BALANCE4, "udp answer");
        dropped(&mut bench, balance::BALANCE4, "tcp syn", "ip4-session-input source-quota");
        assert_eq!(seen(&mut bench).len(), 1);
    }
}

/// The limit is one of all workers together.
#[test]
fn a_source_whose_sessions_are_at_several_workers_has_no_more() {
    everywhere(|tier, text, node| {
        let shared = limited(3);
        let [mut one, mut other] = workers(tier, &shared);
        answered(&mut one, text, &["udp", "echo"]);
        pass(&mut other, text, "another udp");
        for bench in [&mut one, &mut other] {
            dropped(bench, text, "a third udp", &format!("{node} source-quota"));
            assert_eq!(from_host(bench, text, "a third udp", 77), None);
        }
        wait(&mut other, 6);
        assert_eq!(of_a(&one, &shared, text), 2);
        pass(&mut one, text, "a third udp");
        assert_eq!(of_a(&other, &shared, text), 3);
    });
}

#[test]
fn what_a_source_has_is_explained() {
    everywhere(|tier, text, node| {
        let shared = limited(2);
        let mut bench = bench(tier, std::slice::from_ref(&shared));
        let mut said = |tenant: Option<Tenant>, name| {
            tenant.iter().for_each(|tenant| set_tenants(&mut bench, std::slice::from_ref(tenant)));
            let said = meets(&mut bench, text, name);
            (said.outcome, said.steps.into_iter().map(|step| step.found).nth(1))
        };
        let found = |text: &str| Some(text.to_string());
        assert_eq!(said(None, "udp"), (Outcome::Passes, found("its source has 0 of 2")));
        assert!(said(None, "udp answer").1.is_none_or(|found| !found.contains("source")));
        assert_eq!(said(None, "echo").1, found("its source has 1 of 2"));
        assert_eq!(
            said(None, "another udp"),
            (
                Outcome::Dropped { node, reason: "source-quota" },
                found("its source has 2 of 2: it is dropped")
            )
        );
        let slow_path = SlowPath::default().with(Case::Overflow, SlowAction::Pass);
        assert_eq!(
            said(Some(Tenant { slow_path, ..shared.clone() }), "another udp"),
            (
                Outcome::Passes,
                found("its source has 2 of 2: it passes without a session (slow_path.overflow is pass)")
            )
        );
    });
}
