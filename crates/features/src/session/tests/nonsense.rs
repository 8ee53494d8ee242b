//! Packets that nobody should send, and what can't be told apart by looking too shortly.

use super::tcp::{conversation, of_both, send};
use super::*;

/// Rows whose name begins so.
fn named(text: &'static str, prefix: &str) -> Vec<Row> {
    rows(text).into_iter().filter(|row| row.name.starts_with(prefix)).collect()
}

#[test]
fn port_0_is_a_port() {
    everywhere(|tier, text, _| {
        for services in [&["l4-lifecycle"][..], &["tcp-check", "l4-lifecycle"]] {
            let chain = [order().chain(services.iter().copied()).unwrap(); 2];
            let mut bench = bench(tier, &[Tenant { chain, ..tenant() }]);
            for name in ["udp from port 0", "udp to port 0", "tcp between ports 0", "udp"] {
                pass(&mut bench, text, name);
            }
            pass(&mut bench, text, "udp answer");
            let all = seen(&mut bench);
            assert_eq!(all.len(), 4, "{all:?}");
            let answered = all.iter().filter(|seen| seen.session.packets()[1] > 0);
            assert_eq!(answered.count(), 1, "an answer to port 40000 is none to port 0");
        }
    });
}

/// A host that seems to send to itself, by the same port ("LAND") or another: one session, whose packets are its initiator's as nothing else is known.
#[test]
fn the_same_source_and_destination_are_one_session() {
    everywhere(|tier, text, _| {
        let mut bench = bench(tier, &[tenant()]);
        for _ in 0..3 {
            pass(&mut bench, text, "land");
        }
        let session = one(&mut bench).session;
        assert_eq!((session.packets(), session.state), ([3, 0], State::Embryonic));
        pass(&mut bench, text, "land from another port");
        assert_eq!(seen(&mut bench).len(), 2);
    });
}

/// SFDP's weakness 16: of an echo in fragments half the identifier is looked at.
#[test]
fn an_echo_in_fragments_is_the_session_of_its_whole_identifier() {
    everywhere(|tier, text, _| {
        let mut bench = bench(tier, &[tenant()]);
        pass(&mut bench, text, "echo");
        pass(&mut bench, text, "echo of which the lower half is the same");
        assert_eq!(seen(&mut bench).len(), 2);
        pass(&mut bench, text, "first fragment of an echo");
        pass(&mut bench, text, "later fragment of an echo");
        let all: Vec<_> =
            seen(&mut bench).iter().map(|seen| (seen.endpoints().0.1, seen.session.packets())).collect();
        assert_eq!(all, [(0x1234, [1, 0]), (0x5634, [3, 0])]);
    });
}

/// SFDP's weakness 17: the type is what a one is shifted by, whatever it is.
#[test]
fn icmp_of_any_type_is_an_echo_or_none() {
    everywhere(|tier, text, node| {
        let unknown = named(text, "icmp of type ");
        assert!(unknown.len() >= 5);
        let mut bench = bench(tier, &[tenant()]);
        for row in &unknown {
            pass(&mut bench, text, row.name);
        }
        assert!(seen(&mut bench).is_empty());
        let mut strict =
            self::bench(tier, &[Tenant { slow_path: SlowPath::untracked(SlowAction::Drop), ..tenant() }]);
        for row in &unknown {
            dropped(&mut strict, text, row.name, &format!("{node} protocol"));
        }
        pass(&mut strict, text, "echo");
        assert_eq!(seen(&mut strict).len(), 1);
    });
}

/// What UDP says of its own length is its receiver's to check (RFC 768; 0 is a jumbogram's, RFC 2675): where a packet ends is what IP says.
#[test]
fn udp_of_a_wrong_length_is_its_session_s_as_ip_counts_it() {
    everywhere(|tier, text, node| {
        for services in [&["l4-lifecycle"][..], &["tcp-check", "l4-lifecycle", "session-stats"]] {
            let chain = [order().chain(services.iter().copied()).unwrap(); 2];
            let mut bench = bench(tier, &[Tenant { chain, ..tenant() }]);
            let wrong = named(text, "udp of length ");
            assert_eq!(wrong.len(), 5);
            for row in &wrong {
                pass(&mut bench, text, row.name);
            }
            let session = one(&mut bench).session;
            let bytes = wrong.iter().map(|row| row.frame.len() as u64 - 14).sum::<u64>();
            assert_eq!((session.packets(), session.bytes()), ([5, 0], [bytes, 0]));
            pass(&mut bench, text, "udp answer");
            assert_eq!(one(&mut bench).session.state, State::Established, "it is one as any other");
            // One that ends before its ports do is none's.
            pass(&mut bench, text, "udp without a whole header");
            assert_eq!((one(&mut bench).session.packets(), count(&bench, node, "passed-short")), ([5, 1], 1));
        }
        let slow_path = SlowPath::default().with(Case::TooShort, SlowAction::Drop);
        let mut strict = bench(tier, &[Tenant { slow_path, ..tenant() }]);
        dropped(&mut strict, text, "udp without a whole header", &format!("{node} too-short"));
    });
}

/// RSTs with numbers from everywhere: none but that which is expected ends the connection.
#[test]
fn a_storm_of_rsts_ends_nothing() {
    of_both(|tier, text| {
        let mut bench = bench(
            tier,
            &[Tenant { chain: [order().chain(["tcp-check", "l4-lifecycle"]).unwrap(); 2], ..tenant() }],
        );
        let packets = conversation(text, "rst out of window");
        packets[..4].iter().for_each(|(row, _)| send(&mut bench, row));
        let (rst, _) = packets
            .iter()
            .find(|(row, _)| {
                row.rx_if == 2 && matches!(&row.verdict, Verdict::Dropped(why) if why.contains("rst"))
            })
            .unwrap();
        let transport = if rst.frame[12..14] == [0x86, 0xdd] { 14 + 40 } else { 14 + 20 };
        let before = one(&mut bench);
        let storm: Vec<_> = (0..4096u32)
            .map(|at| {
                let mut frame = rst.frame.clone();
                // Never within the window of a thousand bytes behind 201.
                frame[transport + 4..transport + 8].copy_from_slice(&(at << 20 | 0x8000).to_be_bytes());
                frame
            })
            .collect();
        let outcome = bench.run(2, &storm, 256);
        assert_eq!(outcome.drops, [("tcp-check rst-out-of-window".to_string(), 4096)].into());
        assert_eq!(one(&mut bench).session.state, State::Established);
        // Those of who has never been there begin sessions that make room for others, and nothing else.
        let strangers: Vec<_> = (0..256_u16)
            .map(|client| {
                let mut frame = rst.frame.clone();
                frame[transport..transport + 2].copy_from_slice(&(1000 + client).to_be_bytes());
                frame
            })
            .collect();
        bench.run(2, &strangers, 256);
        let open = |bench: &mut Bench| -> Vec<_> {
            let all = seen(bench).into_iter();
            all.filter(|seen| seen.session.state == State::Established)
                .map(|seen| (seen.handle, seen.session.packets()))
                .collect()
        };
        // They were the session's by their ports, and are counted at it.
        let [mut from_it, mut to_it] = before.session.packets();
        from_it += storm.len() as u64;
        assert_eq!(open(&mut bench), [(before.handle, [from_it, to_it])], "none of them opens anything");
        // It still takes what is its own: the conversation's last packet once more.
        let (last, _) = &packets[3];
        assert_eq!(bench.run(last.rx_if, std::slice::from_ref(&last.frame), 1).drops, [].into());
        *(if last.rx_if == 2 { &mut from_it } else { &mut to_it }) += 1;
        assert_eq!(open(&mut bench), [(before.handle, [from_it, to_it])]);
    });
}

/// SFDP's weakness 6: 4 KiB of buckets for each session there may be, whether or not it is there.
#[test]
fn a_session_takes_192_bytes_at_most() {
    everywhere(|tier, text, _| {
        let mut bench = bench(tier, &[Tenant { max_sessions: 100_000, ..tenant() }]);
        let none = sessions(&mut bench).bytes();
        for from in (0..60_000).step_by(256) {
            bench.run(2, &limits::flood(text, from..from + 256), 256);
        }
        let all = sessions(&mut bench);
        let (count, bytes) = (all.len(), all.bytes() - none);
        assert!(count >= 60_000);
        assert!(bytes <= 192 * count, "{bytes} bytes of {count} sessions");
    });
}
