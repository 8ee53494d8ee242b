//! What becomes of sessions when rules change.

use super::*;

#[test]
fn a_member_that_goes_takes_its_sessions_along_and_no_others() {
    everywhere(|tier, text, _| {
        let inside = hosts(text == V6)[0];
        let all = if text == V6 { 128 } else { 32 };
        let (mut bench, mut filters) = (bench(tier, &[filtering()]), Filters::default());
        set_members(&mut filters, "pods", &[&format!("{inside}/{all}"), "192.0.2.0/24"]);
        let of_pods = |port, protocol| RuleConfig {
            sources: of_set("pods"),
            ..to_port(Action::Reflect, protocol, port)
        };
        let web = to_port(Action::Reflect, IpProtocol::TCP, 80);
        set_acl(&mut filters, "all", vec![of_pods(53, IpProtocol::UDP), web]);
        publish(&mut bench, &mut filters, &["all"]);
        for name in ["udp", "udp answer", "tcp syn", "tcp syn-ack answer", "tcp ack"] {
            pass(&mut bench, text, name);
        }
        set_members(&mut filters, "pods", &["192.0.2.0/24"]);
        publish(&mut bench, &mut filters, &["all"]);
        // No round in between: the next packet is asked about, whoever has sent it.
        dropped(&mut bench, text, "udp answer", "acl denied");
        dropped(&mut bench, text, "udp", "acl denied");
        for name in ["tcp ack answer", "tcp ack"] {
            pass(&mut bench, text, name);
        }
        set_members(&mut filters, "pods", &[&format!("{inside}/{all}")]);
        publish(&mut bench, &mut filters, &["all"]);
        pass(&mut bench, text, "udp");
        pass(&mut bench, text, "udp answer");
    });
}

/// An ICMP error isn't asked about: it belongs to a session of which that is known.
#[test]
fn an_error_waits_for_what_becomes_of_its_session() {
    everywhere(|tier, text, node| {
        let rules = |action| vec![to_port(action, IpProtocol::UDP, 53)];
        let undecided = format!("{node} undecided-error");
        let (mut bench, mut filters) = network(tier, rules(Action::Reflect));
        pass(&mut bench, text, "udp");
        pass(&mut bench, text, "error of a router");
        for denied in [false, true] {
            set_acl(&mut filters, "all", if denied { Vec::new() } else { rules(Action::Reflect) });
            publish(&mut bench, &mut filters, &["all"]);
            // Before anybody has looked at the session, and behind that.
            dropped(&mut bench, text, "error of a router", &undecided);
            (0..4).for_each(|_| bench.round());
            dropped(&mut bench, text, "error of a router", &undecided);
            if denied {
                dropped(&mut bench, text, "udp", "acl denied");
            } else {
                pass(&mut bench, text, "udp");
                pass(&mut bench, text, "error of a router");
            }
        }
        // One that was denied, too.
        set_acl(&mut filters, "all", rules(Action::Permit));
        publish(&mut bench, &mut filters, &["all"]);
        dropped(&mut bench, text, "error of a router", &undecided);
        pass(&mut bench, text, "udp");
        dropped(&mut bench, text, "error of a router", &undecided);
        dropped(&mut bench, text, "udp answer", "acl answers-denied");
    });
}

#[test]
fn a_tenant_may_keep_what_was_let_pass() {
    everywhere(|tier, text, _| {
        let (mut bench, mut filters) = (bench(tier, &[filtering()]), Filters::default());
        set_tenants(&mut bench, &[Tenant { keep_sessions: true, ..filtering() }]);
        set_acl(&mut filters, "all", vec![to_port(Action::Reflect, IpProtocol::UDP, 53)]);
        publish(&mut bench, &mut filters, &["all"]);
        pass(&mut bench, text, "udp");
        dropped(&mut bench, text, "tcp syn", "acl denied");
        set_acl(&mut filters, "all", Vec::new());
        publish(&mut bench, &mut filters, &["all"]);
        pass(&mut bench, text, "udp answer");
        pass(&mut bench, text, "udp");
        dropped(&mut bench, text, "another udp", "acl denied");
        dropped(&mut bench, text, "tcp syn", "acl denied");
        assert_eq!((count(&bench, "acl", "kept"), count(&bench, "acl", "admitted")), (1, 1));
    });
}

/// A connection that begins anew in its time-wait is a new one.
#[test]
fn a_connection_that_begins_anew_is_asked_about_anew() {
    everywhere(|tier, text, _| {
        let (mut bench, mut filters) = (bench(tier, &[filtering()]), Filters::default());
        set_tenants(&mut bench, &[Tenant { keep_sessions: true, ..filtering() }]);
        set_acl(&mut filters, "all", vec![to_port(Action::Reflect, IpProtocol::TCP, 80)]);
        publish(&mut bench, &mut filters, &["all"]);
        for name in ["tcp syn", "tcp syn-ack answer", "tcp ack", "tcp fin", "tcp fin answer"] {
            pass(&mut bench, text, name);
        }
        set_acl(&mut filters, "all", Vec::new());
        publish(&mut bench, &mut filters, &["all"]);
        pass(&mut bench, text, "tcp ack");
        dropped(&mut bench, text, "tcp syn", "acl denied");
    });
}

/// What was decided with its first packet isn't forgotten with the next one of the same vector.
#[test]
fn a_connection_that_begins_anew_in_a_vector_is_asked_about_once() {
    everywhere(|tier, text, _| {
        let (mut bench, mut filters) = network(tier, vec![to_port(Action::Reflect, IpProtocol::TCP, 80)]);
        for name in ["tcp syn", "tcp syn-ack answer", "tcp ack", "tcp fin", "tcp fin answer"] {
            pass(&mut bench, text, name);
        }
        set_acl(&mut filters, "all", vec![to_port(Action::Permit, IpProtocol::TCP, 80)]);
        publish(&mut bench, &mut filters, &["all"]);
        let frames = ["tcp syn", "tcp ack"].map(|name| packet(text, name).frame);
        assert_eq!(bench.run(2, &frames, 2).sent.get(&3).map(Vec::len), Some(2));
        dropped(&mut bench, text, "tcp syn-ack answer", "acl answers-denied");
    });
}

#[test]
fn a_rule_keeps_its_hits_wherever_it_moves() {
    let (mut bench, mut filters) =
        network(Tier::available()[0], vec![to_port(Action::Reflect, IpProtocol::UDP, 53)]);
    pass(&mut bench, V4, "udp");
    pass(&mut bench, V4, "another udp");
    let web = to_port(Action::Reflect, IpProtocol::TCP, 80);
    set_acl(&mut filters, "all", vec![web.clone(), to_port(Action::Reflect, IpProtocol::UDP, 53)]);
    let hits = |filters: &Filters| {
        let acl = filters.placed("all").unwrap().acl;
        (acl.hits(0), acl.hits(1))
    };
    assert_eq!(hits(&filters), (0, 2));
    // A batch that is taken back.
    filters.set_acl(&"all".into(), None);
    set_acl(&mut filters, "all", vec![to_port(Action::Reflect, IpProtocol::UDP, 53), web]);
    assert_eq!(hits(&filters), (2, 0));
    // What sessions met is counted for the list, too: that never becomes less, whatever rules go.
    set_acl(&mut filters, "all", vec![rule(Action::Deny)]);
    publish(&mut bench, &mut filters, &["all"]);
    dropped(&mut bench, V4, "udp", "acl denied");
    let acl = filters.placed("all").unwrap().acl;
    assert_eq!((acl.hits(0), acl.met(Action::Reflect), acl.met(Action::Deny)), (1, 2, 1));
}

/// What nobody refers to any more leaves nothing behind.
#[test]
fn what_goes_leaves_nothing() {
    let mut filters = Filters::default();
    for _ in 0..3 {
        set_members(&mut filters, "pods", &["10.0.0.0/24", "fd00::/64"]);
        let sources =
            Side { except: from(&["10.1.2.0/24"]).prefixes, ..from(&["10.1.0.0/16", "10.1.2.3/32"]) };
        let rules = vec![
            RuleConfig { sources: sources.clone(), ..rule(Action::Permit) },
            RuleConfig { sources, destinations: of_set("pods"), ..rule(Action::Permit) },
        ];
        set_acl(&mut filters, "all", rules);
        set_endpoint(&mut filters, "a", &["all"], &["later"]);
        assert_eq!((filters.acls().prefixes(), filters.numbers(["all", "later"]).len()), (4, 2));
        filters.set_acl(&"all".into(), None);
        assert_eq!(filters.numbers(["all"]).len(), 1, "the endpoint refers to it");
        filters.set_endpoint(&"a".into(), None);
        filters.set_address_set(&"pods".into(), None);
        assert_eq!((filters.acls().prefixes(), filters.numbers(["all", "later"]).len()), (0, 0));
    }
}
