//! `session-stats`: what is noted of conversations made by scapy whose times the tests say.

use super::super::{SideStats, SideSums};
use super::tcp::{conversation, of_both, send};
use super::*;
use wire::TcpFlags;

const MILLISECOND: u64 = 1_000_000;

fn noted(services: &[&str]) -> Tenant {
    Tenant { chain: [order().chain(services.iter().copied()).unwrap(); 2], ..tenant() }
}

/// Sends the packets of a conversation, each so many milliseconds after the one before.
fn play(bench: &mut Bench, text: &'static str, name: &str, after: &[u64]) {
    for ((row, _), after) in conversation(text, name).iter().zip(after) {
        bench.now += after * MILLISECOND;
        send(bench, row);
    }
}

/// Of the initiator and of the other side.
fn sides(bench: &mut Bench) -> [SideStats; 2] {
    one(bench).stats.unwrap_or_else(|| panic!("nothing was noted"))
}

#[test]
fn round_trips_are_those_of_each_side() {
    of_both(|tier, text| {
        for services in
            [&["tcp-check", "session-stats"][..], &["l4-lifecycle", "session-stats"], &["session-stats"]]
        {
            let mut bench = bench(tier, &[noted(services)]);
            // The SYN is answered after 30 ms, and that after 8: the way to the server, and that to the client.
            play(&mut bench, text, "whole life", &[0, 30, 8]);
            let [client, server] = sides(&mut bench);
            assert_eq!((client.rtt, client.rtt_min), (8_000, 8_000));
            assert_eq!((server.rtt, server.rtt_min), (30_000, 30_000));
            assert_eq!([client.repeated, server.repeated], [0, 0]);
            assert_eq!([client.flags, server.flags], [0x12, 0x12], "SYN and ACK");
            assert_eq!(count(&bench, "session-stats", "round-trips"), 2);
        }
        // A hundred bytes, acknowledged after 14 ms: seven eighths of 30, an eighth of 14 (RFC 6298 section 2.3).
        let mut bench = bench(tier, &[noted(&["tcp-check", "session-stats"])]);
        play(&mut bench, text, "whole life", &[0, 30, 8, 100, 14, 50]);
        let [client, server] = sides(&mut bench);
        assert_eq!((server.rtt, server.rtt_min), (28_000, 14_000));
        // The server's fifty bytes wait for the client's FIN.
        assert_eq!((client.rtt, client.rtt_min), (8_000 - 1_000 + 50_000 / 8, 8_000));
    });
}

#[test]
fn what_is_sent_again_is_counted_and_measures_nothing() {
    of_both(|tier, text| {
        let mut bench = bench(tier, &[noted(&["tcp-check", "session-stats"])]);
        // The FIN comes twice; the server acknowledges it with its own.
        play(&mut bench, text, "fin with data", &[0, 20, 10, 1, 5, 1000, 700, 10, 10]);
        let [client, server] = sides(&mut bench);
        assert_eq!([client.repeated, server.repeated], [1, 0]);
        assert_eq!((server.rtt, server.rtt_min), (20_000, 20_000), "whichever of the two was acknowledged");
        assert_eq!(count(&bench, "session-stats", "repeated"), 1);
        assert_eq!([client.flags & TcpFlags::FIN.bits(), server.flags & TcpFlags::FIN.bits()], [1, 1]);
    });
}

#[test]
fn a_closed_window_is_counted() {
    of_both(|tier, text| {
        let mut bench = bench(tier, &[noted(&["tcp-check", "session-stats"])]);
        play(&mut bench, text, "zero window", &[0, 1, 1]);
        assert_eq!(sides(&mut bench).map(|side| side.zero_windows), [0, 1]);
        assert_eq!(count(&bench, "session-stats", "zero-window"), 1);
    });
}

#[test]
fn numbers_that_wrap_are_in_order() {
    of_both(|tier, text| {
        let mut bench = bench(tier, &[noted(&["tcp-check", "session-stats"])]);
        play(&mut bench, text, "sequence wrap", &[1; 6]);
        assert_eq!(sides(&mut bench).map(|side| side.repeated), [0, 0]);
    });
}

#[test]
fn a_connection_in_the_time_wait_of_another_is_noted_anew() {
    of_both(|tier, text| {
        let tenant = noted(&["tcp-check", "session-stats"]);
        let occupancy = Arc::clone(&tenant.occupancy);
        let mut bench = bench(tier, &[tenant]);
        let packets = conversation(text, "time-wait reuse");
        let all = packets.len();
        for (row, _) in &packets[..all - 3] {
            send(&mut bench, row);
        }
        let before = sides(&mut bench);
        assert_eq!(before[0].flags & TcpFlags::FIN.bits(), 1);
        for ((row, _), after) in packets[all - 3..].iter().zip([1, 40, 4]) {
            bench.now += after * MILLISECOND;
            send(&mut bench, row);
        }
        let [client, server] = sides(&mut bench);
        assert_eq!([client.flags, server.flags], [0x12, 0x12]);
        assert_eq!([client.rtt, server.rtt], [4_000, 40_000]);
        assert_eq!([client.repeated, server.repeated], [0, 0]);
        // The one before has ended: what was noted of it is summed up.
        assert_eq!(occupancy.noted.sums().map(|side| side.rtt), before.map(|side| side.rtt.into()));
    });
}

#[test]
fn the_first_answer_of_datagrams_is_timed_and_hops_are_noted() {
    everywhere(|tier, text, _| {
        let mut bench = bench(tier, &[noted(&["l4-lifecycle", "session-stats"])]);
        pass(&mut bench, text, "udp");
        bench.now += 5 * MILLISECOND;
        pass(&mut bench, text, "udp");
        bench.now += 7 * MILLISECOND;
        pass(&mut bench, text, "udp answer");
        bench.now += 9 * MILLISECOND;
        pass(&mut bench, text, "udp answer");
        let [client, server] = sides(&mut bench);
        assert_eq!([client.rtt, server.rtt, server.rtt_min], [0, 12_000, 12_000]);
        // As they came: vectors are sent with 64 hops.
        assert_eq!([client, server].map(|side| (side.ttl_min, side.ttl_max)), [(64, 64); 2]);
        let mut fewer = packet(text, "udp").frame;
        if text == V4 {
            // Word 4 of the header has the TTL and the protocol: one less there, one more in the checksum (RFC 1624).
            fewer[14 + 8] -= 4;
            let sum = u16::from_be_bytes([fewer[14 + 10], fewer[14 + 11]]);
            let (sum, carry) = sum.overflowing_add(4 << 8);
            fewer[14 + 10..14 + 12].copy_from_slice(&(sum + u16::from(carry)).to_be_bytes());
        } else {
            fewer[14 + 7] -= 4;
        }
        bench.run(2, &[fewer], 1);
        let [client, _] = sides(&mut bench);
        assert_eq!((client.ttl_min, client.ttl_max), (60, 64));
    });
}

/// A tenant is without the service for an hour, while a segment waits for its acknowledgment: that, and what was known, is forgotten.
#[test]
fn what_was_noted_goes_with_the_service() {
    of_both(|tier, text| {
        let with = noted(&["tcp-check", "session-stats"]);
        let mut bench = bench(tier, std::slice::from_ref(&with));
        // A hundred bytes go unanswered.
        play(&mut bench, text, "whole life", &[0, 30, 8, 10]);
        let before = sides(&mut bench);
        // A change of something else leaves what is known as it is.
        set_tenants(&mut bench, std::slice::from_ref(&with));
        wait(&mut bench, 1);
        assert_eq!(sides(&mut bench), before);
        set_tenants(&mut bench, &[noted(&["tcp-check"])]);
        wait(&mut bench, 1800);
        assert_eq!(one(&mut bench).stats, None, "it isn't on the tenant's chains");
        set_tenants(&mut bench, &[with]);
        bench.now += SECOND;
        for (row, _) in &conversation(text, "whole life")[4..6] {
            send(&mut bench, row);
        }
        let all = sides(&mut bench);
        // The client acknowledges at once what the server has sent now; what it sent an hour ago measures nothing.
        assert_eq!(all.map(|side| (side.repeated, side.rtt)), [(0, 1), (0, 0)]);
    });
}

#[test]
fn what_was_noted_is_summed_up_as_sessions_end() {
    of_both(|tier, text| {
        let tenant = noted(&["tcp-check", "session-stats"]);
        let occupancy = Arc::clone(&tenant.occupancy);
        let mut bench = bench(tier, &[tenant]);
        play(&mut bench, text, "whole life", &[0, 30, 8]);
        assert_eq!(occupancy.noted.sums(), [SideSums::default(); 2], "it goes on");
        for times in 1..=2 {
            wait(&mut bench, 3601);
            let side = |rtt| SideSums { timed: times, rtt: times * rtt, ..SideSums::default() };
            assert_eq!(occupancy.noted.sums(), [side(8_000), side(30_000)]);
            play(&mut bench, text, "whole life", &[0, 30, 8]);
        }
    });
}
