//! Conversations from beginning to end.

use super::*;

#[test]
fn a_question_and_its_answer_are_one_session() {
    everywhere(|tier, text, node| {
        for (name, protocol) in [("udp", 17), ("echo", if text == V4 { 1 } else { 58 })] {
            let mut bench = bench(tier, &[tenant()]);
            pass(&mut bench, text, name);
            let begun = one(&mut bench);
            assert_eq!((begun.session.state, begun.key.protocol()), (State::Embryonic, protocol));
            pass(&mut bench, text, &format!("{name} answer"));
            pass(&mut bench, text, name);
            let seen = one(&mut bench);
            assert_eq!(seen.handle, begun.handle);
            assert_eq!((seen.session.state, seen.session.packets()), (State::Established, [2, 1]));
            let row = packet(text, name);
            let bytes = row.frame.len() as u64 - 14;
            assert_eq!(seen.session.bytes(), [2 * bytes, bytes], "from the IP header on");
            let (initiator, other) = seen.endpoints();
            let addresses =
                if text == V4 { ["10.0.2.2", "10.2.0.9"] } else { ["2001:db8:2::2", "2001:db8:1002::9"] };
            assert_eq!([initiator.0, other.0].map(|address| address.to_string()), addresses);
            let ports = if name == "udp" { (40000, 53) } else { (0x1234, 0x1234) };
            assert_eq!((initiator.1, other.1), ports, "all 16 bits of an echo's identifier");
            assert_eq!(count(&bench, node, "created"), 1);
        }
    });
}

#[test]
fn tcp_is_followed_from_its_first_packet_to_its_last() {
    everywhere(|tier, text, node| {
        let mut bench = bench(tier, &[tenant()]);
        let steps = [
            ("tcp syn", State::Embryonic),
            ("tcp syn-ack answer", State::Embryonic),
            ("tcp ack", State::Established),
            ("tcp ack answer", State::Established),
            ("tcp fin", State::Closing),
            ("tcp ack answer", State::Closing),
            ("tcp fin answer", State::TimeWait),
            ("tcp ack", State::TimeWait),
            ("tcp fin", State::TimeWait),
        ];
        for (name, state) in steps {
            pass(&mut bench, text, name);
            assert_eq!(one(&mut bench).session.state, state, "after {name}");
        }
        assert_eq!(one(&mut bench).session.packets(), [5, 4]);
        pass(&mut bench, text, "tcp syn");
        let again = one(&mut bench).session;
        assert_eq!(
            (again.state, again.packets()),
            (State::Embryonic, [1, 0]),
            "counted from its own beginning"
        );
        assert_eq!(count(&bench, node, "created"), 1);
    });
}

/// SFDP's weakness 4: without TIME_WAIT a late FIN makes a new, reversed session.
#[test]
fn what_is_late_belongs_to_the_session_that_is_over() {
    everywhere(|tier, text, _| {
        let mut bench = bench(tier, &[tenant()]);
        for name in
            ["tcp syn", "tcp syn-ack answer", "tcp ack", "tcp rst answer", "tcp ack", "tcp fin answer"]
        {
            pass(&mut bench, text, name);
        }
        let seen = one(&mut bench);
        assert_eq!((seen.session.state, seen.session.packets()), (State::TimeWait, [3, 3]));
        assert_eq!(seen.endpoints().0.1, 40000, "the initiator is still the initiator");
        wait(&mut bench, 31);
        assert!(seen_none(&mut bench), "it doesn't last as long as an open one");
    });
}

fn seen_none(bench: &mut Bench) -> bool {
    seen(bench).is_empty()
}

#[test]
fn sessions_end_when_nothing_is_heard_of_them() {
    everywhere(|tier, text, _| {
        let mut bench = bench(tier, &[tenant()]);
        pass(&mut bench, text, "udp");
        wait(&mut bench, 4);
        pass(&mut bench, text, "udp");
        wait(&mut bench, 4);
        assert_eq!(seen(&mut bench).len(), 1, "it has been heard of");
        wait(&mut bench, 2);
        assert!(seen_none(&mut bench), "5 seconds without an answer");
        pass(&mut bench, text, "udp");
        pass(&mut bench, text, "udp answer");
        wait(&mut bench, 119);
        assert_eq!(seen(&mut bench).len(), 1);
        wait(&mut bench, 2);
        assert!(seen_none(&mut bench), "120 seconds of silence");
        ["tcp syn", "tcp syn-ack answer", "tcp ack"]
            .into_iter()
            .for_each(|name| pass(&mut bench, text, name));
        wait(&mut bench, 3590);
        assert_eq!(seen(&mut bench).len(), 1);
        pass(&mut bench, text, "tcp fin");
        wait(&mut bench, 239);
        assert_eq!(seen(&mut bench).len(), 1);
        wait(&mut bench, 2);
        assert!(seen_none(&mut bench));
        assert_eq!(count(&bench, "session-expire", "expired"), 3);
        assert_eq!(bench_occupancy(&bench), 0);
    });
}

#[test]
fn a_session_that_is_over_ends_in_time_though_its_timer_was_set_for_an_open_one() {
    everywhere(|tier, text, _| {
        let mut bench = bench(tier, &[tenant()]);
        ["tcp syn", "tcp syn-ack answer", "tcp ack"]
            .into_iter()
            .for_each(|name| pass(&mut bench, text, name));
        // The timer of an embryonic session has been due: it stands at an hour now.
        wait(&mut bench, 20);
        pass(&mut bench, text, "tcp rst answer");
        wait(&mut bench, 29);
        assert_eq!(seen(&mut bench).len(), 1);
        wait(&mut bench, 2);
        assert!(seen_none(&mut bench), "30 seconds of time-wait");
        // Begun anew within time-wait, with the timer at its end: it is embryonic for 5 seconds, not for 30.
        ["tcp syn", "tcp syn-ack answer", "tcp ack"]
            .into_iter()
            .for_each(|name| pass(&mut bench, text, name));
        wait(&mut bench, 20);
        ["tcp rst answer", "tcp syn"].into_iter().for_each(|name| pass(&mut bench, text, name));
        wait(&mut bench, 4);
        assert_eq!(seen(&mut bench).len(), 1);
        wait(&mut bench, 2);
        assert!(seen_none(&mut bench), "5 seconds without an answer");
    });
}

fn bench_occupancy(bench: &Bench) -> u64 {
    let tenants = bench.publisher.current().get(bench.key::<Tenants>());
    tenants.get(1).unwrap().occupancy.sessions.load(Ordering::Relaxed)
}

#[test]
fn an_icmp_error_belongs_to_the_session_that_it_quotes() {
    everywhere(|tier, text, node| {
        let mut bench = bench(tier, &[tenant()]);
        pass(&mut bench, text, "udp");
        pass(&mut bench, text, "error of the other host");
        pass(&mut bench, text, "error of a router");
        let session = one(&mut bench).session;
        assert_eq!((session.packets(), session.state), ([1, 2], State::Embryonic), "an error is no answer");
        pass(&mut bench, text, "error about the answer");
        assert_eq!(one(&mut bench).session.packets(), [2, 2]);
        assert_eq!(count(&bench, node, "related-errors"), 3);
        pass(&mut bench, text, "unrelated error");
        assert_eq!((seen(&mut bench).len(), count(&bench, node, "passed-errors")), (1, 1));
        pass(&mut bench, text, "tcp syn");
        pass(&mut bench, text, "error about a segment");
        assert_eq!(count(&bench, node, "related-errors"), 4, "ports are in the eight bytes quoted");
    });
}

/// SFDP's weaknesses 1 and 14: positions behind options and extension headers, packet by packet.
#[test]
fn ports_are_found_behind_options_in_a_mixed_vector() {
    everywhere(|tier, text, _| {
        let mut bench = bench(tier, &[tenant()]);
        let names =
            ["udp", "udp behind options", "tcp syn", "udp behind options", "echo", "udp", "first fragment"];
        let frames: Vec<_> = names.iter().map(|name| packet(text, name).frame).collect();
        bench.run(2, &frames, frames.len());
        let all: Vec<_> =
            seen(&mut bench).iter().map(|seen| (seen.key.protocol(), seen.session.packets()[0])).collect();
        let icmp = if text == V4 { 1 } else { 58 };
        assert_eq!(all.len(), 3, "{all:?}");
        for expected in [(17, 5), (6, 1), (icmp, 1)] {
            assert!(all.contains(&expected), "{expected:?} in {all:?}");
        }
        // SFDP's weakness 2: flags are those of the segment.
        let tcp = seen(&mut bench).into_iter().find(|seen| seen.key.protocol() == 6);
        assert_eq!(tcp.unwrap().session.tcp_flags, [wire::TcpFlags::SYN.bits(), 0]);
    });
}

#[test]
fn the_packets_of_a_vector_that_begins_a_session_are_all_of_it() {
    everywhere(|tier, text, node| {
        for count_of in [1, 256] {
            let mut bench = bench(tier, &[tenant()]);
            let frame = packet(text, "udp").frame;
            let outcome = bench.run(2, &vec![frame; count_of], count_of);
            assert_eq!(outcome.sent.get(&3).map(Vec::len), Some(count_of));
            assert_eq!(one(&mut bench).session.packets(), [count_of as u64, 0]);
            assert_eq!(count(&bench, node, "created"), 1);
        }
    });
}

#[test]
fn what_comes_from_outside_begins_nothing() {
    everywhere(|tier, text, node| {
        let mut bench = bench(tier, &[tenant()]);
        pass(&mut bench, text, "udp answer");
        assert!(seen_none(&mut bench));
        assert_eq!(count(&bench, node, "outside"), 1);
    });
}

#[test]
fn a_tenant_without_services_has_sessions_that_stay_as_they_began() {
    everywhere(|tier, text, _| {
        let mut bench = bench(tier, &[Tenant { chain: [Chain::default(); 2], ..tenant() }]);
        pass(&mut bench, text, "udp");
        pass(&mut bench, text, "udp answer");
        let session = one(&mut bench).session;
        assert_eq!((session.state, session.packets()), (State::Embryonic, [1, 1]));
    });
}

/// Of datagrams `l4-lifecycle` has to know of one each way; that there are more keeps the session, whoever has heard them.
#[test]
fn datagrams_after_the_first_each_way_do_not_come_to_l4_lifecycle() {
    everywhere(|tier, text, _| {
        let mut bench = bench(tier, &[tenant()]);
        let came = |bench: &Bench| {
            let id = bench.plan.node("l4-lifecycle").unwrap();
            bench.graph.counters().runtime[usize::from(id)].packets.get()
        };
        for _ in 0..3 {
            pass(&mut bench, text, "udp");
            wait(&mut bench, 3);
        }
        assert_eq!((came(&bench), one(&mut bench).session.state), (1, State::Embryonic));
        for _ in 0..3 {
            pass(&mut bench, text, "udp answer");
            pass(&mut bench, text, "udp");
        }
        assert_eq!((came(&bench), one(&mut bench).session.state), (2, State::Established));
        assert_eq!(one(&mut bench).session.packets(), [6, 3]);
    });
}
