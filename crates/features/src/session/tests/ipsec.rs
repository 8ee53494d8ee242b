//! ESP and AH, whose sessions are found by SPI and have one direction each.

use super::acl::{network, rule};
use super::*;
use crate::session::acl::Action;
use crate::session::acl::control::RuleConfig;
use wire::IpProtocol;

const ESP: u8 = IpProtocol::ESP.0;
const AH: u8 = IpProtocol::AH.0;

#[test]
fn each_direction_of_esp_and_ah_is_a_session_of_its_own() {
    everywhere(|tier, text, _| {
        for (name, protocol, spi) in
            [("esp", ESP, 0x0001_0001), ("another esp", ESP, 0xffff_0000), ("ah", AH, 0x2000)]
        {
            let mut bench = bench(tier, &[tenant()]);
            pass(&mut bench, text, name);
            let there = one(&mut bench);
            assert_eq!((there.key.protocol(), there.key.spi()), (protocol, Some(spi)), "{name}");
            assert_eq!(there.session.state, State::Embryonic, "{name}");
            pass(&mut bench, text, name);
            let again = one(&mut bench);
            assert_eq!((again.handle, again.session.packets()), (there.handle, [2, 0]), "{name}");
            assert_eq!(again.session.state, State::Established, "{name}: its initiator goes on");
            // What comes back has the same SPI by chance. Nobody's sessions begin outside: it passes, and is none of this session's.
            pass(&mut bench, text, &format!("{name} answer"));
            assert_eq!(one(&mut bench).session.packets(), [2, 0], "{name}");
        }
    });
}

/// Where both sides may begin, there are two.
#[test]
fn both_sides_begin_where_both_are_the_tenant_s() {
    everywhere(|tier, text, _| {
        let mut bench = bench(tier, &[tenant()]);
        let key = bench.key::<Tenants>();
        bench.publish(|draft| {
            draft.change(key, |all| {
                all.generation += 1;
                all.set_place(3, Place { tenant: 1, ..Place::default() });
            });
        });
        pass(&mut bench, text, "esp");
        pass(&mut bench, text, "esp answer");
        let ends = seen(&mut bench).iter().map(|seen| seen.endpoints().0.0).collect::<Vec<_>>();
        let hosts = if text == V4 { ["10.0.2.2", "10.2.0.9"] } else { ["2001:db8:2::2", "2001:db8:1002::9"] };
        let mut hosts = hosts.map(|host| host.parse::<core::net::IpAddr>().unwrap());
        hosts.sort();
        assert_eq!(ends, hosts);
    });
}

#[test]
fn errors_and_fragments_are_their_session_s() {
    everywhere(|tier, text, node| {
        let mut bench =
            bench(tier, &[Tenant { slow_path: SlowPath::untracked(SlowAction::Drop), ..tenant() }]);
        for (name, sent) in [("esp", [3, 1]), ("ah", [3, 1])] {
            pass(&mut bench, text, name);
            pass(&mut bench, text, &format!("error about {name}"));
            pass(&mut bench, text, &format!("first fragment of {name}"));
            pass(&mut bench, text, &format!("later fragment of {name}"));
            assert_eq!(one(&mut bench).session.packets(), sent, "{name}");
            let now = bench.now;
            sessions(&mut bench).clear(&Filter::default(), 0, u32::MAX, now);
            wait(&mut bench, 1);
        }
        pass(&mut bench, text, "ah");
        pass(&mut bench, text, "ah behind options");
        assert_eq!(one(&mut bench).session.packets(), [2, 0]);
        dropped(&mut bench, text, "esp without an spi", &format!("{node} protocol"));
        dropped(&mut bench, text, "short esp", &format!("{node} too-short"));
        if text == V4 {
            dropped(&mut bench, text, "short ah", &format!("{node} too-short"));
        }
    });
}

#[test]
fn esp_in_udp_is_udp() {
    everywhere(|tier, text, _| {
        let mut bench = bench(tier, &[tenant()]);
        pass(&mut bench, text, "esp in udp");
        let session = one(&mut bench);
        assert_eq!((session.key.protocol(), session.key.spi()), (17, None));
        assert_eq!((session.endpoints().0.1, session.endpoints().1.1), (4500, 4500));
    });
}

#[test]
fn they_are_found_by_spi_and_not_by_its_halves() {
    everywhere(|tier, text, _| {
        let mut bench = bench(tier, &[tenant()]);
        ["esp", "another esp", "ah"].iter().for_each(|name| pass(&mut bench, text, name));
        let mut found = |filter: Filter| sessions(&mut bench).look(&filter, 0, u32::MAX).0.len();
        assert_eq!(found(Filter { spi: Some(0xffff_0000), ..Filter::default() }), 1);
        assert_eq!(found(Filter { spi: Some(1), ..Filter::default() }), 0);
        assert_eq!(found(Filter { port: Some(1), ..Filter::default() }), 0);
        assert_eq!(found(Filter { protocol: Some(AH), ..Filter::default() }), 1);
    });
}

#[test]
fn rules_ask_by_protocol_alone() {
    everywhere(|tier, text, _| {
        let rules = vec![RuleConfig { protocol: Some(ESP), ..rule(Action::Reflect) }];
        let (mut bench, _) = network(tier, rules);
        pass(&mut bench, text, "esp");
        pass(&mut bench, text, "esp");
        assert_eq!(one(&mut bench).session.packets(), [2, 0]);
        dropped(&mut bench, text, "ah", "acl denied");
    });
}
