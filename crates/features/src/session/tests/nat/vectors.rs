//! What becomes of single packets.

use super::*;

/// Each of these, alone: what begins it comes first.
fn each(test: impl Fn(&mut Bench, &Tenant)) {
    for tier in Tier::available() {
        let tenant = translating(pool(50000..=50000));
        let mut bench = bench(tier, std::slice::from_ref(&tenant));
        test(&mut bench, &tenant);
    }
}

#[test]
fn both_directions_are_translated() {
    for name in ["udp", "udp without checksum", "tcp syn", "udp behind options", "echo"] {
        each(|bench, tenant| {
            pass(bench, NAT, name);
            assert_eq!(outside(bench), "192.0.2.1:50000");
            pass(bench, NAT, &format!("{name} answer"));
            pass(bench, NAT, name);
            let seen = one(bench);
            assert_eq!((seen.session.packets(), seen.session.initiator_is_high()), ([2, 1], false));
            assert_eq!(translations(tenant), 1);
            assert_eq!((count(bench, "nat", "out"), count(bench, "nat", "in")), (2, 1));
        });
    }
}

/// Vectors of one packet and of 256.
#[test]
fn a_vector_is_translated_as_its_packets_are() {
    for tier in Tier::available() {
        for burst in [1, 256] {
            let mut bench = bench(tier, &[translating(pool(50000..=50000))]);
            for name in ["udp", "udp answer", "udp without checksum", "udp without checksum answer"] {
                let row = packet(NAT, name);
                let Verdict::Sent(expected) = row.verdict else { panic!("{name}") };
                let outcome = bench.run(row.rx_if, &vec![row.frame; 256], burst);
                let (interface, frame) = &expected[0];
                assert_eq!(
                    outcome.sent.get(interface),
                    Some(&vec![frame.clone(); 256]),
                    "{name}: {:?}",
                    outcome.drops
                );
            }
            assert_eq!(one(&mut bench).session.packets(), [512, 512]);
        }
    }
}

#[test]
fn a_connection_from_its_first_segment_to_its_last() {
    each(|bench, tenant| {
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
            pass(bench, NAT, name);
        }
        assert_eq!(one(bench).session.state, State::TimeWait);
        pass(bench, NAT, "tcp ack answer");
        assert_eq!(translations(tenant), 1, "what is late is translated, too");
        wait(bench, 31);
        assert!(seen(bench).is_empty());
        assert_eq!(translations(tenant), 0);
        assert_eq!(count(bench, "nat", "translated"), 1);
    });
}

#[test]
fn all_fragments_of_a_datagram_are_translated() {
    each(|bench, _| {
        for name in ["part 1", "part 2", "part 3", "answer's part 1", "answer's part 2", "answer's part 3"] {
            pass(bench, NAT, name);
        }
        assert_eq!(one(bench).session.packets(), [3, 3]);
        assert_eq!((count(bench, "nat", "out"), count(bench, "nat", "in")), (3, 3));
    });
}

#[test]
fn checksums_that_become_zero_or_were() {
    each(|bench, _| {
        pass(bench, NAT, "checksum that becomes zero");
        pass(bench, NAT, "checksum that was zero");
        pass(bench, NAT, "first fragment");
    });
}

#[test]
fn ports_are_kept_where_they_can_be() {
    for tier in Tier::available() {
        for name in ["udp with its own port", "sctp"] {
            let mut bench = bench(tier, &[translating(pool(1024..=65535))]);
            pass(&mut bench, NAT, name);
            pass(&mut bench, NAT, &format!("{name} answer"));
            assert_eq!(outside(&mut bench), "192.0.2.1:40000");
        }
        let mut bench = bench(tier, &[translating(pool(50000..=50000))]);
        dropped(&mut bench, NAT, "sctp", "nat pool-exhausted");
    }
}

/// RFC 5508 section 4: itself and the packet that it quotes.
#[test]
fn errors_are_translated_with_what_they_quote() {
    for (begins, quoted) in
        [("udp", "udp"), ("udp", "long udp"), ("tcp ack", "tcp"), ("tcp ack", "short tcp"), ("echo", "echo")]
    {
        each(|bench, _| {
            pass(bench, NAT, begins);
            pass(bench, NAT, &format!("{begins} answer"));
            for who in ["a router", "the other host", "the host", "an inside router"] {
                pass(bench, NAT, &format!("{quoted} error of {who}"));
            }
            assert_eq!(count(bench, "nat", "errors"), 4);
            assert_eq!(one(bench).session.packets(), [3, 3]);
        });
    }
}

#[test]
fn errors_that_are_made_here_speak_of_what_was_sent() {
    each(|bench, _| {
        pass(bench, NAT, "expires on its way out");
        pass(bench, NAT, "udp");
        pass(bench, NAT, "expires on its way in");
    });
}
