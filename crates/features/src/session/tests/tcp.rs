//! `tcp-check`: conversations made by scapy, packet by packet.

use super::*;

pub(super) const TCP4: &str = include_str!("../../../tests/vectors/tcp4.txt");
const TCP6: &str = include_str!("../../../tests/vectors/tcp6.txt");

fn checked() -> Tenant {
    Tenant { chain: [order().chain(["tcp-check", "l4-lifecycle"]).unwrap(); 2], ..tenant() }
}

pub(super) fn of_both(test: impl Fn(Tier, &'static str)) {
    for tier in Tier::available() {
        test(tier, TCP4);
        test(tier, TCP6);
    }
}

/// The packets of a conversation, each with where the two hosts stand then.
pub(super) fn conversation(text: &'static str, name: &str) -> Vec<(Row, &'static str)> {
    let packets = rows(text).into_iter().filter_map(|row| {
        let (at, states) = row.name.split_once(": ")?;
        (at.rsplit_once(", ")?.0 == name).then_some((row, states))
    });
    let packets: Vec<_> = packets.collect();
    assert!(!packets.is_empty(), "no conversation {name:?}");
    packets
}

/// Sends a packet and sees that what becomes of it is what the row says.
pub(super) fn send(bench: &mut Bench, row: &Row) {
    let outcome = bench.run(row.rx_if, std::slice::from_ref(&row.frame), 1);
    match &row.verdict {
        Verdict::Sent(expected) => {
            for (interface, frame) in expected {
                assert_eq!(
                    outcome.sent.get(interface),
                    Some(&vec![frame.clone()]),
                    "{}: {outcome:?}",
                    row.name
                );
            }
        }
        Verdict::Dropped(reason) => {
            assert_eq!(outcome.drops, [((*reason).to_string(), 1)].into(), "{}", row.name);
        }
        other => panic!("{}: {other:?}", row.name),
    }
}

/// Where A, the host of the lower address, and B stand.
fn hosts(bench: &mut Bench) -> String {
    let seen = one(bench);
    let Some([initiator, responder]) = seen.tcp else { return "nobody knows".into() };
    let (initiator_at, responder_at) = seen.endpoints();
    let a_began = initiator_at.0 <= responder_at.0;
    let (a, b) = if a_began { (initiator, responder) } else { (responder, initiator) };
    format!("{a:?} {b:?}")
}

fn play(bench: &mut Bench, text: &'static str, name: &str) {
    for (row, states) in conversation(text, name) {
        send(bench, &row);
        assert_eq!(hosts(bench), turned(row.name, states), "after {}", row.name);
    }
}

/// In the one conversation that B begins again, B is named first.
fn turned(name: &str, states: &str) -> String {
    let states: Vec<&str> = states.split(' ').collect();
    let number = name
        .split_once(", begun by the other side, ")
        .and_then(|(_, rest)| rest.split(':').next()?.parse().ok());
    match number {
        Some(7..=9) => format!("{} {}", states[1], states[0]),
        _ => states.join(" "),
    }
}

/// SFDP's weakness 10: no sequence number is looked at, and everybody can end a connection.
#[test]
fn conversations_are_followed_packet_by_packet() {
    let names = [
        "whole life",
        "half-close",
        "fin with data",
        "both close at once",
        "simultaneous open",
        "syn again",
        "refused",
        "rst out of window",
        "an earlier connection is still known",
        "data out of window",
        "zero window",
        "sequence wrap",
        "scaled windows",
        "scaled by one side only",
        "time-wait reuse",
        "time-wait, begun by the other side",
        "time-wait reuse by timestamps",
        "flags",
        "header",
        "midstream",
        "midstream by a retransmission",
        "much in flight",
        "one direction only",
        "an answer that comes another way at first",
        "in fragments",
        "rst in flight",
        "a fin of long ago",
        "behind options of ip",
        "land",
        "ports 0",
    ];
    let all: std::collections::BTreeSet<&str> = rows(TCP4)
        .iter()
        .map(|row| row.name.split_once(": ").unwrap().0.rsplit_once(", ").unwrap().0)
        .collect();
    let here = names.into_iter().chain(["later"]).collect();
    assert_eq!(all, here, "every conversation is played, one of them below");
    of_both(|tier, text| {
        for name in names {
            play(&mut bench(tier, &[checked()]), text, name);
        }
    });
}

#[test]
fn a_session_is_where_its_connection_is() {
    of_both(|tier, text| {
        let mut bench = bench(tier, &[checked()]);
        let states: Vec<State> = conversation(text, "whole life")
            .into_iter()
            .map(|(row, _)| {
                send(&mut bench, &row);
                one(&mut bench).session.state
            })
            .collect();
        use State::*;
        let opens = [Embryonic, Embryonic, Established, Established, Established];
        let closes = [Closing, Closing, Closing, TimeWait, TimeWait, TimeWait];
        assert_eq!(states, [&opens[..], &closes[..]].concat());
        for (counter, expected) in [("established", 1), ("closed", 1), ("reset", 0), ("adopted", 0)] {
            assert_eq!(count(&bench, "tcp-check", counter), expected, "{counter}");
        }
        wait(&mut bench, 31);
        assert!(seen(&mut bench).is_empty(), "time-wait ends");
    });
}

#[test]
fn what_is_let_pass_unbelieved_is_counted() {
    of_both(|tier, text| {
        for (name, counters) in [
            ("syn again", [("doubtful-syn", 2), ("doubtful-rst", 0), ("reopened", 0)]),
            ("rst out of window", [("doubtful-rst", 1), ("reset", 1), ("reopened", 0)]),
            (
                "an earlier connection is still known",
                [("doubtful-ack", 1), ("doubtful-rst", 1), ("reset", 0)],
            ),
            ("time-wait reuse", [("reopened", 1), ("doubtful-syn", 1), ("closed", 1)]),
        ] {
            let mut bench = bench(tier, &[checked()]);
            play(&mut bench, text, name);
            for (counter, expected) in counters {
                assert_eq!(count(&bench, "tcp-check", counter), expected, "{name}: {counter}");
            }
        }
    });
}

/// The whole conversation in one vector: what a packet does is known to the next one.
#[test]
fn packets_of_a_vector_follow_each_other() {
    of_both(|tier, text| {
        let mut bench = bench(tier, &[checked()]);
        let of_a: Vec<_> =
            conversation(text, "midstream").into_iter().filter(|(row, _)| row.rx_if == 2).collect();
        let frames: Vec<_> = of_a.iter().map(|(row, _)| row.frame.clone()).collect();
        let outcome = bench.run(2, &frames, frames.len());
        let passed = of_a.iter().filter(|(row, _)| matches!(row.verdict, Verdict::Sent(_))).count();
        assert_eq!(outcome.sent.get(&3).map(Vec::len), Some(passed));
        assert_eq!(hosts(&mut bench), "Closed Closed");
    });
}

#[test]
fn connections_found_midway_are_followed_ended_or_blocked() {
    of_both(|tier, text| {
        let packets = conversation(text, "midstream");
        let first = &packets[0].0;
        let drop = |bench: &mut Bench, row: &Row, reason: &'static str| {
            send(bench, &Row { verdict: Verdict::Dropped(reason), ..row.clone() });
        };

        let mut removing = bench(tier, &[Tenant { midstream: Midstream::Remove, ..checked() }]);
        drop(&mut removing, first, "tcp-check midstream");
        drop(&mut removing, first, "tcp-check midstream");
        wait(&mut removing, 1);
        assert!(seen(&mut removing).is_empty(), "it doesn't wait for a timeout");
        play(&mut removing, text, "whole life");

        let mut security = bench(tier, &[Tenant { midstream: Midstream::Security, ..checked() }]);
        drop(&mut security, first, "tcp-check blocked");
        wait(&mut security, 15);
        // The answer and a SYN, too: nothing passes.
        drop(&mut security, &packets[1].0, "tcp-check blocked");
        drop(&mut security, &conversation(text, "whole life")[0].0, "tcp-check blocked");
        assert!(one(&mut security).session.is_blocked());
        wait(&mut security, 4);
        assert_eq!(seen(&mut security).len(), 1);
        wait(&mut security, 2);
        assert!(seen(&mut security).is_empty(), "it doesn't last longer for what is dropped");
        play(&mut security, text, "whole life");
    });
}

/// A tenant is given the check while its connections are open: they aren't taken for forgeries.
#[test]
fn connections_that_are_there_already_are_adopted() {
    of_both(|tier, text| {
        let lax = Tenant { midstream: Midstream::Remove, ..tenant() };
        let mut bench = bench(tier, std::slice::from_ref(&lax));
        let packets = conversation(text, "whole life");
        packets[..4].iter().for_each(|(row, _)| send(&mut bench, row));
        assert_eq!((one(&mut bench).tcp, one(&mut bench).session.state), (None, State::Established));
        set_tenants(&mut bench, &[Tenant { chain: checked().chain, ..lax }]);
        packets[4..].iter().for_each(|(row, _)| send(&mut bench, row));
        assert_eq!(
            (count(&bench, "tcp-check", "adopted"), hosts(&mut bench)),
            (1, "TimeWait TimeWait".into())
        );
    });
}

fn lax(services: &[&str]) -> Tenant {
    let chain = [order().chain(services.iter().copied()).unwrap(); 2];
    Tenant { chain, midstream: Midstream::Security, ..tenant() }
}

fn strict() -> Tenant {
    Tenant { midstream: Midstream::Security, ..checked() }
}

/// What a host has under way when its tenant is given the check is acknowledged afterwards.
#[test]
fn what_is_under_way_when_the_check_begins_is_acknowledged() {
    of_both(|tier, text| {
        for services in [&["l4-lifecycle"][..], &[]] {
            let mut bench = bench(tier, &[lax(services)]);
            let packets = conversation(text, "much in flight");
            packets[..4].iter().for_each(|(row, _)| send(&mut bench, row));
            set_tenants(&mut bench, &[strict()]);
            packets[4..].iter().for_each(|(row, _)| send(&mut bench, row));
            assert_eq!(one(&mut bench).session.state, State::Established);
        }
    });
}

/// The check is taken off and put on again: what it knows is of then.
#[test]
fn connections_outlive_the_check_s_absence() {
    of_both(|tier, text| {
        let mut bench = bench(tier, &[strict()]);
        let packets = conversation(text, "later");
        packets[..3].iter().for_each(|(row, _)| send(&mut bench, row));
        set_tenants(&mut bench, &[lax(&["l4-lifecycle"])]);
        send(&mut bench, &packets[3].0);
        set_tenants(&mut bench, &[strict()]);
        packets[4..].iter().for_each(|(row, _)| send(&mut bench, row));
        assert_eq!(
            (hosts(&mut bench), count(&bench, "tcp-check", "adopted")),
            ("Established Established".into(), 1)
        );
        // A change of something else leaves what is known as it is.
        set_tenants(&mut bench, &[strict()]);
        send(&mut bench, &packets[5].0);
        assert_eq!(count(&bench, "tcp-check", "adopted"), 1);
    });
}

/// The first packet that the check sees of a session may be the SYN of another connection, from the other side.
#[test]
fn a_session_that_is_over_begins_anew_under_the_check() {
    of_both(|tier, text| {
        let mut bench = bench(tier, &[lax(&["l4-lifecycle"])]);
        let packets = conversation(text, "time-wait, begun by the other side");
        packets[..6].iter().for_each(|(row, _)| send(&mut bench, row));
        let before = one(&mut bench);
        assert_eq!(before.session.state, State::TimeWait);
        set_tenants(&mut bench, &[strict()]);
        send(&mut bench, &packets[6].0);
        let seen = one(&mut bench);
        assert_eq!((seen.session.state, seen.session.packets()), (State::Embryonic, [1, 0]));
        assert_eq!(seen.endpoints().0, before.endpoints().1, "B is the initiator");
        packets[7..].iter().for_each(|(row, _)| send(&mut bench, row));
        assert_eq!(one(&mut bench).session.state, State::Established);
        assert_eq!(count(&bench, "tcp-check", "reopened"), 1);
    });
}

#[test]
fn packets_that_are_refused_or_doubted_keep_no_session_alive() {
    of_both(|tier, text| {
        // An embryonic one lasts five seconds.
        for (name, number) in [("refused", 1), ("an earlier connection is still known", 1)] {
            let mut bench = bench(tier, &[checked()]);
            let packets = conversation(text, name);
            send(&mut bench, &packets[0].0);
            wait(&mut bench, 3);
            send(&mut bench, &packets[number].0);
            assert_eq!(seen(&mut bench).len(), 1, "{name}");
            wait(&mut bench, 3);
            assert!(seen(&mut bench).is_empty(), "{name}");
        }
    });
}

#[test]
fn what_is_not_tcp_is_let_alone() {
    everywhere(|tier, text, _| {
        let mut bench = bench(tier, &[checked()]);
        ["udp", "udp answer", "udp", "echo", "echo answer"]
            .into_iter()
            .for_each(|name| pass(&mut bench, text, name));
        let all = seen(&mut bench);
        assert_eq!(all.len(), 2);
        assert!(all.iter().all(|seen| seen.session.state == State::Established && seen.tcp.is_none()));
        let none = all.iter().filter(|seen| seen.session.chain == [Chain::default(); 2]);
        assert_eq!(none.count(), 2, "established, they pass no service any more");
    });
}
