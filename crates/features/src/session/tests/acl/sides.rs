//! Who is denied keeps nobody else from using the same ports.

use super::*;

/// A network in which sessions begin on both sides, and the tenant asks the list "all".
fn both(tier: Tier, rules: Vec<RuleConfig>) -> (Bench, Filters) {
    let (mut bench, filters) = network(tier, rules);
    let key = bench.key::<Tenants>();
    bench.publish(|draft| draft.change(key, |all| all.set_place(3, Place { tenant: 1, context: 0 })));
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
