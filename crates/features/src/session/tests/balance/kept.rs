//! Sessions of another process go on.

use super::*;
use crate::session::Kept;

/// The network in another process, with the sessions that this one has.
fn successor(bench: &mut Bench, tier: Tier) -> Bench {
    let mut balancer = simple();
    let mut next = network(tier, &mut balancer);
    let accounts = balancer.accounts();
    let kept = |seen: &Seen| {
        let (initiator, responder) = seen.endpoints();
        let (context, protocol, beyond) = (seen.key.context(), seen.key.protocol(), seen.translated.unwrap());
        let vip = Key::of_endpoint(context, protocol, responder);
        let (account, direct) = accounts[&(vip, beyond[1])];
        let Session { state, tcp_flags, .. } = seen.session;
        let (endpoints, interface) = ([initiator, responder], seen.begun);
        Kept { tenant: 1, interface, context, protocol, endpoints, beyond, account, direct, state, tcp_flags }
    };
    let kept: Vec<_> = seen(bench).iter().filter(|seen| seen.is_kept()).map(kept).collect();
    sessions(&mut next).keep(&kept);
    next
}

#[test]
fn an_answer_that_comes_first_has_the_vips_address() {
    for tier in Tier::available() {
        for text in [BALANCE4, BALANCE6] {
            for name in ["udp", "tcp data", "sctp"] {
                let mut bench = network(tier, &mut simple());
                pass(&mut bench, text, name);
                pass(&mut bench, text, &format!("{name} answer"));
                let mut next = successor(&mut bench, tier);
                pass(&mut next, text, &format!("{name} answer"));
                pass(&mut next, text, name);
                let (before, seen) = (one(&mut bench), one(&mut next));
                assert_eq!((seen.endpoints(), seen.translated), (before.endpoints(), before.translated));
                assert_eq!(seen.session.state, before.session.state);
                assert_eq!(count(&next, "balance", "balanced"), 0, "it was given its backend before");
                assert_eq!(count(&next, "balance", "exempt"), 0);
                // It ends as any other.
                wait(&mut next, 4000);
                assert!(sessions(&mut next).is_empty());
            }
        }
    }
}

#[test]
fn whose_backend_is_gone_begins_anew() {
    let tier = Tier::available()[0];
    let mut bench = network(tier, &mut simple());
    pass(&mut bench, BALANCE4, "udp");
    pass(&mut bench, BALANCE4, "udp answer");
    let mut next = successor(&mut bench, tier);
    let kept: Vec<_> =
        sessions(&mut next).kept.iter().map(|kept| Kept { account: 1 << 20, ..*kept }).collect();
    sessions(&mut next).kept = kept.into();
    pass(&mut next, BALANCE4, "udp");
    assert_eq!(count(&next, "balance", "balanced"), 1);
    pass(&mut next, BALANCE4, "udp answer");
}

/// The interface, or its address space, is another tenant's by then: the session isn't this one's any more.
#[test]
fn whose_interface_is_anothers_by_then_does_not_go_on() {
    let tier = Tier::available()[0];
    let mut bench = network(tier, &mut simple());
    pass(&mut bench, BALANCE4, "udp");
    pass(&mut bench, BALANCE4, "udp answer");
    for place in
        [Place { tenant: 2, ..Place::default() }, Place { tenant: 1, context: 7, ..Place::default() }]
    {
        let mut next = successor(&mut bench, tier);
        let interface = one(&mut bench).begun;
        let key = next.key::<Tenants>();
        next.publish(|draft| draft.change(key, |all| all.set_place(interface, place)));
        next.now += 1_000_000_000;
        next.settle();
        let row = packet(BALANCE4, "udp answer");
        let _ = next.run(row.rx_if, &[row.frame], 1);
        let there = seen(&mut next);
        assert!(there.iter().all(|seen| !seen.balanced), "{place:?}: {there:?}");
    }
}

#[test]
fn one_that_was_not_answered_is_not_kept() {
    let tier = Tier::available()[0];
    let mut bench = network(tier, &mut simple());
    pass(&mut bench, BALANCE4, "udp");
    assert!(!one(&mut bench).is_kept());
    let mut next = successor(&mut bench, tier);
    let row = packet(BALANCE4, "udp answer");
    let outcome = next.run(row.rx_if, &[row.frame], 1);
    let Verdict::Sent(expected) = row.verdict else { panic!() };
    assert_ne!(outcome.sent.get(&2), Some(&vec![expected[0].1.clone()]), "who asked is unknown");
}

/// They count at their clients, beyond what these may have.
#[test]
fn who_has_them_has_fewer_others() {
    let tier = Tier::available()[0];
    for text in [BALANCE4, BALANCE6] {
        let mut bench = network(tier, &mut simple());
        for name in ["udp", "sctp"] {
            pass(&mut bench, text, name);
            pass(&mut bench, text, &format!("{name} answer"));
        }
        let mut next = successor(&mut bench, tier);
        let source_limit = Some(SourceLimit { sessions: 1, ipv6_prefix_length: 64 });
        set_tenants(&mut next, &[Tenant { source_limit, ..balancing() }]);
        let node = if text == BALANCE4 { "ip4-session-input" } else { "ip6-session-input" };
        dropped(&mut next, text, "tcp syn", &format!("{node} source-quota"));
        assert_eq!(seen(&mut next).len(), 2);
        ["udp answer", "sctp answer"].into_iter().for_each(|name| pass(&mut next, text, name));
    }
}
