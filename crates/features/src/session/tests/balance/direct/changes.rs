//! VIPs, backends and tenants that change under sessions with direct server return.

use super::*;

#[test]
fn an_established_one_stays_with_a_backend_that_drains_and_an_embryonic_one_does_not() {
    for v6 in [false, true] {
        let text = if v6 { DIRECT6 } else { DIRECT4 };
        let silent = ends(v6, 9).1;
        for (begun, stays) in [(&["tcp syn", "tcp ack"][..], true), (&["tcp syn"], false)] {
            let mut balancer = vips(|v6| ends(v6, 2).1);
            let mut bench = network(Tier::available()[0], &mut balancer);
            begun.iter().for_each(|name| pass(&mut bench, text, name));
            let drains = BackendConfig { state: BackendState::Draining, ..active(ends(v6, 2).1) };
            let config = to(v6, IpProtocol::TCP, vec![drains, active(silent)]);
            balancer.set(&format!("6-{v6}"), Some(config.clone()));
            publish(&mut bench, &mut balancer);
            let row = packet(text, "tcp syn");
            match stays {
                true => pass(&mut bench, text, "tcp data"),
                false => assert!(bench.run(row.rx_if, &[row.frame], 1).sent.is_empty(), "it waits"),
            }
            let has = one(&mut bench).translated.map(|[_, backend]| backend);
            assert_eq!(has, Some(if stays { ends(v6, 2).1 } else { silent }));
            // One that is down ends it, and so does the VIP's end.
            balancer.set(&format!("6-{v6}"), None);
            publish(&mut bench, &mut balancer);
            assert!(seen(&mut bench).is_empty());
        }
    }
}

/// A VIP with direct server return or without, and what is sent to it.
fn vip_of(protocol: IpProtocol, direct: bool) -> VipConfig {
    let (endpoint, backend) = if direct { ends(false, 2) } else { places(false) };
    VipConfig { direct, ..vip(protocol, endpoint, vec![active(backend)]) }
}

const fn text_of(direct: bool) -> &'static str {
    if direct { DIRECT4 } else { BALANCE4 }
}

/// A VIP that becomes one, or is one no more: sessions stay as they are.
#[test]
fn sessions_stay_as_they_have_begun() {
    for (first, then) in [(true, false), (false, true)] {
        let mut balancer = Balancer::new(1);
        balancer.set("web", Some(vip_of(IpProtocol::UDP, first)));
        let mut bench = network(Tier::available()[0], &mut balancer);
        (0..9).for_each(|_| pass(&mut bench, text_of(first), "udp"));
        balancer.set("web", Some(vip_of(IpProtocol::UDP, then)));
        publish(&mut bench, &mut balancer);
        publish_again(&mut bench);
        pass(&mut bench, text_of(first), "udp");
        sessions(&mut bench).clear(&Filter::default(), 0, u32::MAX, 0);
        pass(&mut bench, text_of(then), "udp");
    }
}

/// But those whose backend was taken away before it could have answered are followed as those of the other kind.
#[test]
fn an_embryonic_one_becomes_what_its_vip_has_become() {
    for (first, then) in [(true, false), (false, true)] {
        let mut balancer = Balancer::new(1);
        balancer.set("web", Some(vip_of(IpProtocol::TCP, first)));
        let mut bench = network(Tier::available()[0], &mut balancer);
        pass(&mut bench, text_of(first), "tcp syn");
        balancer.set("web", Some(vip_of(IpProtocol::TCP, then)));
        publish(&mut bench, &mut balancer);
        pass(&mut bench, text_of(then), "tcp syn");
        let seen = one(&mut bench);
        assert_eq!(
            (seen.direct, seen.session.state, seen.session.packets()),
            (then, State::Embryonic, [1, 0])
        );
        let rest = if then { &["tcp ack"][..] } else { &["tcp syn answer", "tcp data"] };
        rest.iter().for_each(|name| pass(&mut bench, text_of(then), name));
        assert_eq!(state(&mut bench), State::Established);
    }
}

/// An error about an answer that comes after a change, before anything else of its session and before that was looked at in its turn.
#[test]
fn an_error_goes_to_the_backend_after_a_change_too() {
    for services in [&["l4-lifecycle", "balance"][..], &["tcp-check", "l4-lifecycle", "balance"]] {
        each_with(services, |bench, text| {
            pass(bench, text, "udp");
            let index = one(bench).handle.index;
            let session = sessions(bench).table.get_mut(index).unwrap();
            // As after a change that nobody has looked at it since.
            session.epoch = session.epoch.wrapping_sub(1);
            pass(bench, text, "error about an answer");
            assert_eq!(count(bench, "direct-return", "sent"), 2);
        });
    }
}

/// `tcp-check` comes to sessions that were there before it: it takes them for what they are, too.
#[test]
fn services_that_come_later_know_that_answers_go_past() {
    for begun in [&["tcp syn"][..], &["tcp syn", "tcp ack", "tcp rst"]] {
        each_with(&["l4-lifecycle", "balance"], |bench, text| {
            begun.iter().for_each(|name| pass(bench, text, name));
            let chain = [order().chain(["tcp-check", "l4-lifecycle", "balance"]).unwrap(); 2];
            set_tenants(bench, &[Tenant { chain, ..tenant() }]);
            pass(bench, text, "tcp syn");
            assert_eq!(state(bench), State::Embryonic);
            pass(bench, text, "tcp ack");
            assert_eq!((state(bench), count(bench, "tcp-check", "established")), (State::Established, 1));
            pass(bench, text, "tcp fin");
            assert_eq!(state(bench), State::Closing);
        });
    }
}
