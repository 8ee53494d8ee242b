//! What becomes of single packets, of both IP versions.

use super::*;

/// Each of these, alone: what begins it comes first.
fn each(test: impl Fn(&mut Bench, &'static str)) {
    for tier in Tier::available() {
        for text in [BALANCE4, BALANCE6] {
            test(&mut network(tier, &mut simple()), text);
        }
    }
}

#[test]
fn both_directions_are_translated() {
    for name in ["udp", "tcp syn", "tcp data", "sctp", "long sctp", "udp behind options"] {
        each(|bench, text| {
            pass(bench, text, name);
            pass(bench, text, &format!("{name} answer"));
            pass(bench, text, name);
            let seen = one(bench);
            let (vip, backend) = places(!seen.key.is_v4());
            assert_eq!((seen.session.packets(), seen.endpoints().1), ([2, 1], vip));
            assert_eq!(seen.translated, Some([seen.endpoints().0, backend]));
            assert_eq!(
                (count(bench, "balance", "to-backends"), count(bench, "balance", "from-backends")),
                (2, 1)
            );
            assert_eq!(count(bench, "balance", "balanced"), 1);
        });
    }
    let mut bench = network(Tier::available()[0], &mut simple());
    pass(&mut bench, BALANCE4, "udp without checksum");
    pass(&mut bench, BALANCE4, "udp without checksum answer");
}

#[test]
fn all_fragments_of_a_datagram_go_to_the_backend() {
    each(|bench, text| {
        for name in ["part 1", "part 3", "part 2", "answer's part 1", "answer's part 2", "answer's part 3"] {
            pass(bench, text, name);
        }
        assert_eq!(one(bench).session.packets(), [3, 3]);
        assert_eq!(
            (count(bench, "balance", "to-backends"), count(bench, "balance", "from-backends")),
            (3, 3)
        );
    });
}

/// Vectors of one packet and of 256.
#[test]
fn a_vector_is_translated_as_its_packets_are() {
    for tier in Tier::available() {
        for (burst, text) in [(1, BALANCE4), (256, BALANCE4), (1, BALANCE6), (256, BALANCE6)] {
            let mut bench = network(tier, &mut simple());
            for name in ["udp", "udp answer"] {
                let row = packet(text, name);
                let Verdict::Sent(expected) = row.verdict else { panic!("{name}") };
                let outcome = bench.run(row.rx_if, &vec![row.frame; 256], burst);
                let (interface, frame) = &expected[0];
                let sent = outcome.sent.get(interface);
                assert_eq!(sent, Some(&vec![frame.clone(); 256]), "{name}: {:?}", outcome.drops);
            }
            assert_eq!(one(&mut bench).session.packets(), [256, 256]);
        }
    }
}

#[test]
fn a_connection_from_its_first_segment_to_its_last() {
    each(|bench, text| {
        for name in [
            "tcp syn",
            "tcp syn answer",
            "tcp ack",
            "tcp data",
            "tcp data answer",
            "tcp fin",
            "tcp fin answer",
            "tcp ack",
        ] {
            pass(bench, text, name);
        }
        assert_eq!(one(bench).session.state, State::TimeWait);
        pass(bench, text, "tcp ack answer");
        wait(bench, 31);
        assert!(seen(bench).is_empty());
        pass(bench, text, "tcp syn");
        assert_eq!(count(bench, "balance", "balanced"), 2);
    });
}

/// RFC 5508 section 4, and the same for IPv6: itself and the packet that it quotes.
#[test]
fn errors_are_translated_with_what_they_quote() {
    for (begins, quoted) in
        [("udp", "udp"), ("udp", "long udp"), ("tcp ack", "tcp"), ("tcp ack", "short tcp"), ("sctp", "sctp")]
    {
        each(|bench, text| {
            pass(bench, text, begins);
            pass(bench, text, &format!("{begins} answer"));
            for who in ["a router", "the backend", "the client", "a near router"] {
                pass(bench, text, &format!("{quoted} error of {who}"));
            }
            assert_eq!(count(bench, "balance", "errors"), 4);
            assert_eq!(one(bench).session.packets(), [3, 3]);
        });
    }
}

#[test]
fn errors_that_are_made_here_speak_of_what_was_sent() {
    each(|bench, text| {
        pass(bench, text, "expires on its way there");
        pass(bench, text, "udp");
        pass(bench, text, "expires on its way back");
    });
}

#[test]
fn a_backend_that_asks_the_vip_is_seen_with_the_vip_s_address() {
    each(|bench, text| {
        let key = bench.key::<Tenants>();
        bench.publish(|draft| {
            draft.change(key, |all| all.set_place(3, Place { tenant: 1, ..Place::default() }))
        });
        pass(bench, text, "a backend asks itself");
        pass(bench, text, "a backend asks itself answer");
        assert_eq!(one(bench).session.packets(), [1, 1]);
    });
}

#[test]
fn clients_are_told_where_nobody_takes_their_session() {
    each(|bench, text| {
        let mut nobody = Balancer::new(1);
        for v6 in [false, true] {
            for protocol in PROTOCOLS {
                let config = vip(protocol, places(v6).0, Vec::new());
                nobody.set(&format!("{}-{v6}", protocol.0), Some(VipConfig { reject: true, ..config }));
            }
        }
        publish(bench, &mut nobody);
        let told: Vec<Row> = rows(text).into_iter().filter(|row| row.name.starts_with("refused")).collect();
        assert_eq!(told.len(), 8);
        for row in told {
            // Each begins a session of its own: the one before has ended.
            wait(bench, 1);
            assert!(seen(bench).is_empty());
            let outcome = bench.run(row.rx_if, &[row.frame], 1);
            assert_eq!(outcome.drops, [("balance rejected".to_string(), 1)].into(), "{}", row.name);
            match row.verdict {
                Verdict::SentAndDropped(expected, _) => {
                    for (interface, frame) in expected {
                        assert_eq!(outcome.sent.get(&interface), Some(&vec![frame]), "{}", row.name);
                    }
                }
                _ => assert!(outcome.sent.is_empty(), "{}", row.name),
            }
        }
        assert_eq!((count(bench, "tcp-reset", "resets"), count(bench, "tcp-reset", "about-reset")), (5, 1));
        let refused =
            nobody.placed("6-false").unwrap().refused() + nobody.placed("6-true").unwrap().refused();
        assert_eq!(refused, 6);
        // All of a vector are told; those behind it find the session blocked.
        wait(bench, 1);
        let syn = packet(text, "refused syn").frame;
        let outcome = bench.run(2, &vec![syn; 512], 256);
        assert_eq!(outcome.sent.get(&2).map_or(0, Vec::len), 256);
        assert_eq!(outcome.drops, [("balance rejected".to_string(), 512)].into());
    });
}

/// A datagram from the backend past its session: it isn't the session's.
#[test]
fn what_is_not_meant_for_a_vip_passes_as_it_is() {
    for tier in Tier::available() {
        let mut bench = network(tier, &mut simple());
        pass(&mut bench, V4, "udp");
        pass(&mut bench, V4, "udp answer");
        assert_eq!(one(&mut bench).translated, None);
        assert_eq!((count(&bench, "balance", "exempt"), count(&bench, "balance", "balanced")), (1, 0));
        pass(&mut bench, V4, "udp");
        assert_eq!(count(&bench, "balance", "exempt"), 1, "it doesn't come here any more");
    }
}
