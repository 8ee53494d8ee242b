//! Who is denied keeps nobody else from using the same ports.

use super::*;

/// A network in which sessions begin on both sides, and the tenant asks the list "all".
fn both(tier: Tier, rules: Vec<RuleConfig>) -> (Bench, Filters) {
    let (mut bench, filters) = network(tier, rules);
    let key = bench.key::<Tenants>();
    bench.publish(|draft| draft.change(key, |all| all.set_place(3, Place { tenant: 1, ..Place::default() })));
    (bench, filters)
}

/// What host B may begin.
fn of_b(text: &'static str) -> RuleConfig {
    let length = if text == V6 { 128 } else { 32 };
    RuleConfig { sources: from(&[&format!("{}/{length}", hosts(text == V6)[1])]), ..rule(Action::Reflect) }
}

fn begins() -> RuleConfig {
    let (mask, value) = (TcpFlags::SYN.union(TcpFlags::ACK), TcpFlags::SYN);
    let flags = Flags { mask: mask.bits(), value: value.bits() };
    RuleConfig { flags, ..to_port(Action::Reflect, IpProtocol::TCP, 80) }
}

/// NTP or IKE: both use the same ports, and one of them may ask.
#[test]
fn who_is_denied_doesn_t_keep_its_other_side_from_asking() {
    everywhere(|tier, text, _| {
        let (mut bench, _filters) = both(tier, vec![of_b(text)]);
        (0..3).for_each(|_| dropped(&mut bench, text, "udp", "acl denied"));
        assert_eq!(count(&bench, "acl", "denied"), 1);
        // It is the initiator now, and whoever was denied answers it.
        pass(&mut bench, text, "udp answer");
        let session = one(&mut bench);
        assert_eq!(session.endpoints().0.1, 53);
        for name in ["udp", "udp answer", "udp"] {
            pass(&mut bench, text, name);
        }
        assert_eq!((one(&mut bench).session.packets(), count(&bench, "acl", "denied")), ([2, 2], 1));
    });
}

#[test]
fn where_both_are_denied_nothing_passes() {
    everywhere(|tier, text, _| {
        let (mut bench, _filters) = both(tier, Vec::new());
        for name in ["udp", "udp answer", "udp", "udp", "udp answer"] {
            dropped(&mut bench, text, name, "acl denied");
        }
        assert!(one(&mut bench).session.is_blocked());
    });
}

/// What has passed once was somebody's: a rule that cuts it cuts it for both.
#[test]
fn a_session_that_is_cut_stays_cut() {
    everywhere(|tier, text, _| {
        let to_dns = to_port(Action::Reflect, IpProtocol::UDP, 53);
        let (mut bench, mut filters) = both(tier, vec![to_dns.clone(), of_b(text)]);
        pass(&mut bench, text, "udp");
        for answered in [false, true] {
            if answered {
                pass(&mut bench, text, "udp answer");
            }
            set_acl(&mut filters, "all", vec![of_b(text)]);
            publish(&mut bench, &mut filters, &["all"]);
            for name in ["udp", "udp answer", "udp"] {
                dropped(&mut bench, text, name, "acl denied");
            }
            set_acl(&mut filters, "all", vec![to_dns.clone(), of_b(text)]);
            publish(&mut bench, &mut filters, &["all"]);
            pass(&mut bench, text, "udp");
        }
    });
}

/// What comes first may be what is left of a connection that Quiver hasn't seen begin.
#[test]
fn a_connection_begins_where_what_came_before_was_denied() {
    everywhere(|tier, text, _| {
        for stray in ["tcp ack", "tcp ack answer", "tcp syn-ack answer"] {
            let (mut bench, _filters) = both(tier, vec![begins()]);
            (0..2).for_each(|_| dropped(&mut bench, text, stray, "acl denied"));
            assert_eq!(count(&bench, "acl", "denied"), 1, "{stray}");
            for name in ["tcp syn", "tcp syn-ack answer", "tcp ack", "tcp ack answer"] {
                pass(&mut bench, text, name);
            }
            assert_eq!(one(&mut bench).session.state, State::Established);
        }
        // From outside, nothing begins.
        let (mut bench, _filters) = network(tier, vec![begins()]);
        dropped(&mut bench, text, "tcp ack", "acl denied");
        dropped(&mut bench, text, "tcp ack answer", "acl denied");
        pass(&mut bench, text, "tcp syn");
    });
}

/// Whose interface it is now says what becomes of what has begun there.
#[test]
fn what_began_at_an_interface_goes_with_it() {
    everywhere(|tier, text, _| {
        let rules = vec![to_port(Action::Reflect, IpProtocol::UDP, 53)];
        for answer_first in [false, true] {
            let (mut bench, mut filters) = network(tier, rules.clone());
            let key = bench.key::<Tenants>();
            set_acl(&mut filters, "none", Vec::new());
            publish(&mut bench, &mut filters, &["all"]);
            for name in ["udp", "udp answer", "udp"] {
                pass(&mut bench, text, name);
            }
            let red = bench.publisher.current().share(key);
            let blue = Tenant {
                name: "blue".into(),
                acls: filters.numbers(["none"]),
                occupancy: Arc::default(),
                ..filtering()
            };
            // It belongs to nobody for a while: what is there goes on.
            for place in [0, 2] {
                bench.publish(|draft| {
                    draft.change(key, |all| {
                        all.generation += 1;
                        all.set(2, Some(blue.clone()));
                        all.set_place(2, Place { tenant: place, ..Place::default() });
                    });
                });
                if place == 0 {
                    pass(&mut bench, text, "udp");
                }
            }
            if answer_first {
                // Nobody has sessions where it comes from.
                pass(&mut bench, text, "udp answer");
                assert!(seen(&mut bench).is_empty());
            }
            dropped(&mut bench, text, "udp", "acl denied");
            assert_eq!(one(&mut bench).session.tenant, 2);
            let red = &red.get(1).unwrap().occupancy;
            assert_eq!(red.sessions.load(Ordering::Relaxed), 0);
        }
    });
}

/// A connection that is over may begin anew from the other side, which may be another tenant's.
#[test]
fn a_connection_begins_anew_with_its_initiator_s_tenant() {
    everywhere(|tier, text, _| {
        let (mut bench, filters) =
            both(tier, vec![to_port(Action::Reflect, IpProtocol::TCP, 80), of_b(text)]);
        let key = bench.key::<Tenants>();
        let blue = Tenant { name: "blue".into(), acls: filters.numbers(["all"]), ..filtering() };
        bench.publish(|draft| {
            draft.change(key, |all| {
                all.set(2, Some(blue));
                all.set_place(3, Place { tenant: 2, ..Place::default() });
            });
        });
        for name in ["tcp syn", "tcp syn-ack answer", "tcp ack", "tcp fin", "tcp fin answer"] {
            pass(&mut bench, text, name);
        }
        let mut row = packet(text, "tcp syn-ack answer");
        let at = if text == V6 { 40 + 13 } else { 20 + 13 };
        // Interface 3 brings packets without Ethernet. A SYN: without the ACK, and so with another checksum.
        row.frame[at] = TcpFlags::SYN.bits();
        let sum = u16::from_be_bytes([row.frame[at + 3], row.frame[at + 4]]);
        let (sum, carry) = sum.overflowing_add(u16::from(TcpFlags::ACK.bits()));
        row.frame[at + 3..at + 5].copy_from_slice(&(sum + u16::from(carry)).to_be_bytes());
        let outcome = bench.run(3, &[row.frame.clone()], 1);
        assert_eq!(outcome.drops, [("ip4-session-input session-gone".to_string(), 1)].into());
        let outcome = bench.run(3, &[row.frame], 1);
        assert_eq!(outcome.sent.get(&2).map(Vec::len), Some(1), "{:?}", outcome.drops);
        assert_eq!(one(&mut bench).session.tenant, 2);
    });
}

/// Who is denied costs nobody else the room for his session.
#[test]
fn denied_sessions_make_room_first() {
    everywhere(|tier, text, node| {
        let rules = vec![to_port(Action::Deny, IpProtocol::TCP, 80), rule(Action::Reflect)];
        let (mut bench, mut filters) = network(tier, rules);
        let key = bench.key::<Tenants>();
        bench.publish(|draft| {
            draft.change(key, |all| {
                let tenant = Tenant { max_sessions: 3, ..all.get(1).unwrap().clone() };
                all.set(1, Some(tenant));
            });
        });
        // Two are embryonic and older.
        for name in ["udp", "another udp"] {
            pass(&mut bench, text, name);
        }
        dropped(&mut bench, text, "tcp syn", "acl denied");
        pass(&mut bench, text, "a third udp");
        let protocols =
            |bench: &mut Bench| seen(bench).iter().map(|seen| seen.key.protocol()).collect::<Vec<_>>();
        assert_eq!(protocols(&mut bench), [17; 3]);
        assert_eq!(count(&bench, node, "evicted-for-quota"), 1);
        // One that is let pass again is like others: it has its turn as the youngest.
        dropped(&mut bench, text, "tcp syn", "acl denied");
        set_acl(&mut filters, "all", vec![rule(Action::Reflect)]);
        publish(&mut bench, &mut filters, &["all"]);
        pass(&mut bench, text, "tcp syn");
        pass(&mut bench, text, "echo");
        assert_eq!(protocols(&mut bench).iter().filter(|protocol| **protocol == 6).count(), 1);
    });
}

/// A flood of its packets doesn't keep a denied session.
#[test]
fn what_is_dropped_keeps_no_session() {
    everywhere(|tier, text, _| {
        let (mut bench, _filters) = both(tier, Vec::new());
        for _ in 0..7 {
            dropped(&mut bench, text, "udp", "acl denied");
            wait(&mut bench, 3);
        }
        assert!(seen(&mut bench).is_empty());
        dropped(&mut bench, text, "udp", "acl denied");
        assert_eq!(count(&bench, "acl", "denied"), 2);
    });
}
