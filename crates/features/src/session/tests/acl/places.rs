//! Whose lists are asked.

use super::*;

/// A and B have endpoints with these lists, both in a place of the tenant's.
fn between(tier: Tier, ingress: &[&str], egress: &[&str]) -> (Bench, Filters) {
    let mut bench = bench(tier, &[filtering()]);
    let key = bench.key::<Tenants>();
    bench.publish(|draft| draft.change(key, |all| all.set_place(3, Place { tenant: 1, ..Place::default() })));
    let mut filters = Filters::default();
    set_acl(&mut filters, "none", Vec::new());
    set_acl(&mut filters, "dns", vec![to_port(Action::Reflect, IpProtocol::UDP, 53)]);
    set_acl(&mut filters, "dns-only-there", vec![to_port(Action::Permit, IpProtocol::UDP, 53)]);
    set_acl(&mut filters, "web", vec![to_port(Action::Reflect, IpProtocol::TCP, 80)]);
    set_endpoint(&mut filters, "a", &[], egress);
    set_endpoint(&mut filters, "b", ingress, &[]);
    publish(&mut bench, &mut filters, &[]);
    (bench, filters)
}

#[test]
fn a_session_between_two_endpoints_is_asked_about_for_both() {
    everywhere(|tier, text, _| {
        for (ingress, egress, verdict) in [
            (&[][..], &[][..], None),
            (&["dns"], &["dns"], None),
            (&["web", "dns"], &["none", "dns"], None),
            (&["dns"], &[], None),
            (&["none"], &["dns"], Some("acl ingress-denied")),
            (&["dns"], &["none"], Some("acl egress-denied")),
            (&["web"], &["web"], Some("acl egress-denied")),
            (&["web"], &[], Some("acl ingress-denied")),
        ] {
            let (mut bench, _) = between(tier, ingress, egress);
            match verdict {
                None => {
                    pass(&mut bench, text, "udp");
                    pass(&mut bench, text, "udp answer");
                    assert_eq!(visits(&bench), 1, "{ingress:?} {egress:?}");
                }
                Some(reason) => dropped(&mut bench, text, "udp", reason),
            }
        }
    });
}

/// Who is permitted and not reflected needs lists of its own for answers: those for the other direction, at the same endpoint.
#[test]
fn answers_are_asked_about_where_the_session_was_permitted() {
    everywhere(|tier, text, _| {
        let (mut bench, mut filters) = between(tier, &["dns-only-there"], &["dns"]);
        pass(&mut bench, text, "udp");
        pass(&mut bench, text, "udp answer");
        set_endpoint(&mut filters, "b", &["dns-only-there"], &["web"]);
        set_endpoint(&mut filters, "a", &["none"], &["dns"]);
        publish(&mut bench, &mut filters, &[]);
        dropped(&mut bench, text, "udp answer", "acl answers-denied");
        pass(&mut bench, text, "udp");
        let question = Question {
            context: 0,
            protocol: IpProtocol::UDP.0,
            source: (address(hosts(text == V6)[0]), 40000),
            destination: (address(hosts(text == V6)[1]), 53),
            flags: 0,
            icmp: (0, 0),
        };
        let mut asked = Vec::new();
        let explained = filters
            .acls()
            .explain(&[], &question, |_, met, back| asked.push((met.acl.name.to_string(), met.rule, back)));
        assert!(matches!(explained, Explained::AnswersDenied(_)), "{explained:?}");
        let names = [("dns", Some(0), false), ("dns-only-there", Some(0), false), ("web", None, true)];
        assert_eq!(asked, names.map(|(name, rule, back)| (name.to_string(), rule, back)));
    });
}

#[test]
fn an_address_that_moves_to_another_endpoint_is_that_one_s() {
    for tier in Tier::available() {
        let (mut bench, mut filters) = between(tier, &["none"], &[]);
        dropped(&mut bench, V4, "udp", "acl ingress-denied");
        let config = EndpointConfig {
            addresses: vec![address(hosts(false)[1])],
            ingress: vec!["dns".into()],
            ..EndpointConfig::default()
        };
        // In the order in which a batch may have it: who takes it first, then who gives it up.
        filters.set_endpoint(&"c".into(), Some(config.into()));
        filters.set_endpoint(&"b".into(), None);
        publish(&mut bench, &mut filters, &[]);
        pass(&mut bench, V4, "udp");
        filters.set_endpoint(&"c".into(), None);
        set_acl(&mut filters, "none", vec![rule(Action::Deny)]);
        publish(&mut bench, &mut filters, &[]);
        pass(&mut bench, V4, "udp");
    }
}
