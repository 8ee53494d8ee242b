//! Runs against a real memif within this process: all ways of sending give back what was sent.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::{STACK, run, socket};
use quiver_tgen::report::Report;

fn looped(head: &str, streams: &str) -> Report {
    run(&format!("check = \"payload\"\nseconds = 60\n{head}\n{streams}"))
}

fn stream(tx: &str, rest: &str) -> String {
    format!("[[stream]]\ntx = \"loop-{tx}\"\ncount = 6000\n{rest}\n{STACK}")
}

fn assert_whole(report: &Report, sent: u64, what: &str) {
    assert_eq!((report.sent, report.received, report.lost, report.foreign), (sent, sent, 0, 0), "{what}");
    let broken = (report.duplicated, report.reordered, report.corrupted);
    assert_eq!(broken, (Some(0), Some(0), Some(0)), "{what}");
}

#[test]
fn every_length_comes_back_whole_both_ways() {
    // Constant bytes are written once per buffer where that is enough: 6000 packets go round many times.
    for size in ["64", "58", "63", "65", "128", "1514", "2048", "2049", "9014", "\"imix\"", "\"58-3000\""] {
        for (full, tx) in [(false, "client"), (true, "client"), (false, "server")] {
            let head = format!("full = {full}\n[loop]\nring_size = 256");
            let report = looped(&head, &stream(tx, &format!("size = {size}")));
            assert_whole(&report, 6_000, &format!("{size} from the {tx}, full {full}"));
        }
    }
}

#[test]
fn streams_share_interfaces_and_queues() {
    let streams = [
        stream("client", "name = \"a\"\nsize = 64"),
        stream("client", "name = \"b\"\nsize = 1000\nrate = \"500kpps\""),
        stream("server", "name = \"c\"\nsize = \"imix\""),
        stream("server", "name = \"d\"\nsize = 90\nqueue = 2\nlatency = true\nrate = 90000"),
    ];
    let report = looped("[loop]\nqueues = 3", &streams.concat());
    assert_whole(&report, 24_000, "four streams");
    for stream in &report.streams {
        assert_eq!(
            (stream.sent, stream.received, stream.lost),
            (6_000, Some(6_000), Some(0)),
            "{}",
            stream.name
        );
    }
    assert_eq!((report.interfaces[0].sent, report.interfaces[0].received), (12_000, 12_000));
    let latency = report.streams[3].latency_ns.as_ref().unwrap();
    assert_eq!(latency.count, 6_000);
    assert!(latency.min <= latency.p50 && latency.p50 <= latency.p99_99 && latency.p99_99 <= latency.max);
    assert!(report.streams[0].latency_ns.is_none());
}

#[test]
fn a_count_is_divided_among_queues() {
    let report = looped("[loop]\nqueues = 4", &stream("client", "size = 64").replace("6000", "6001"));
    assert_whole(&report, 6_001, "four queues");
}

#[test]
fn a_rate_is_sent_to_the_packet() {
    // The last packet is due before the end; whoever is kept from sending catches up.
    let text = format!(
        "check = \"payload\"\nseconds = 0.5\n[loop]\n[[stream]]\ntx = \"loop-client\"\nrate = 20000\nsize = 64\n{STACK}"
    );
    let report = run(&text);
    assert_eq!(report.intended, Some(10_000));
    assert!((report.seconds - 0.5).abs() < 1e-6, "{report}");
    assert!(report.sent <= 10_000 && report.lost == 0, "{report}");
    // What was not sent became due while this process did not run.
    assert!(report.sent > 0 && report.sent + report.stalled_packets >= 10_000, "{report}");
}

#[test]
fn the_gap_behind_the_last_packet_belongs_to_a_rate() {
    let at = |rate: &str| {
        let text =
            format!("seconds = 1\n[loop]\n[[stream]]\ntx = \"loop-client\"\nsize = 64\n{rate}\n{STACK}");
        run(&text)
    };
    let report = at("rate = 4");
    assert_eq!(report.sent, 4);
    assert!((report.seconds - 1.0).abs() < 1e-6 && (report.sent_pps - 4.0).abs() < 1e-3, "{report}");
    let report = at("rate = 10\ncount = 5");
    assert_eq!(report.sent, 5);
    assert!(report.seconds >= 0.4999, "{report}");
}

/// Seconds that this thread has run.
fn ran() -> f64 {
    let ran = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    ran.tv_sec as f64 + ran.tv_nsec as f64 * 1e-9
}

#[test]
fn long_frames_are_work_and_no_stall() {
    // A turn of them takes longer than any other may; only while this thread did not run was it kept from running.
    let text =
        format!("full = true\nseconds = 0.5\n[loop]\n[[stream]]\ntx = \"loop-client\"\nsize = 9000\n{STACK}");
    let (wall, cpu) = (std::time::Instant::now(), ran());
    let report = run(&text);
    let asleep = wall.elapsed().as_secs_f64() - (ran() - cpu);
    assert!(report.longest_stall_ns > 50_000, "{report}");
    let stalled = (report.stalled_ns + report.drain_stalled_ns) as f64 * 1e-9;
    assert!(stalled <= asleep, "{stalled} s of stalls, and it slept for {asleep} s: {report}");
}

#[test]
fn a_stream_of_latencies_ends_with_the_others() {
    let bulk = "name = \"bulk\"\nrate = 100\nsize = 64\ncount = 20";
    let latency = "name = \"latency\"\nrate = 50\nsize = 90\nlatency = true";
    let stream = |rest: &str| format!("[[stream]]\ntx = \"loop-client\"\n{rest}\n{STACK}");
    let report = run(&format!("[loop]\n{}{}", stream(bulk), stream(latency)));
    assert!(report.seconds >= 0.1999 && report.sent - report.streams[1].sent == 20, "{report}");
    // As many as its rate has in that time, and no more.
    let sent = report.streams[1].sent;
    assert_eq!(report.streams[1].intended, Some((report.seconds * 50.0).ceil() as u64), "{report}");
    assert_eq!(report.intended, Some(20 + sent), "{report}");
    assert_eq!((report.lost, report.streams[1].count), (0, None), "{report}");
}

#[test]
fn counting_needs_no_signature_and_no_room_for_one() {
    for size in ["42", "57", "64", "1514"] {
        let text = format!(
            "check = \"count\"\nseconds = 60\n[loop]\n{}",
            stream("client", &format!("size = {size}"))
        );
        let report = run(&text);
        assert_eq!((report.sent, report.received, report.foreign), (6_000, 6_000, 0), "{size}");
    }
}

#[test]
fn both_roles_meet_at_a_socket() {
    let socket = socket("roles");
    let interface = |name: &str, rest: &str| {
        format!(
            "[[interface]]\nname = \"{name}\"\nmemif = {{ socket = \"{socket}\", id = 7, secret = \"s\", {rest} }}\n"
        )
    };
    let text = format!(
        "check = \"payload\"\nseconds = 60\n{}{}[[stream]]\ntx = \"server\"\ncount = 6000\nsize = \"imix\"\n{STACK}[[stream]]\ntx = \"client\"\ncount = 6000\nsize = 3000\n{STACK}",
        interface("server", "role = \"server\""),
        interface("client", "queues = 3, ring_size = 128")
    );
    let report = run(&text);
    assert_whole(&report, 12_000, "server and client");
    assert_eq!((report.interfaces[0].received, report.interfaces[1].received), (6_000, 6_000));
}

#[test]
fn packets_without_ethernet_cross_interfaces_in_ip_mode() {
    let socket = socket("ip");
    let text = format!(
        "check = \"payload\"\nseconds = 60\n\
         [[interface]]\nname = \"a\"\nmemif = {{ socket = \"{socket}\", mode = \"ip\", role = \"server\" }}\n\
         [[interface]]\nname = \"b\"\nmemif = {{ socket = \"{socket}\", mode = \"ip\" }}\n\
         [[stream]]\ntx = \"b\"\ncount = 6000\nsize = 64\n\
         stack = [ {{ ipv4 = {{ src = \"10.0.0.2\", dst = \"10.0.1.2\" }} }}, {{ udp = {{ src = 1, dst = 2 }} }} ]\n"
    );
    assert_whole(&run(&text), 6_000, "ip mode");
}
