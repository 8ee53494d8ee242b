//! The program's connections where one side is somebody else's: here, frames that scapy has made.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::{Middle, PATIENCE, program, server, socket};
use memif::app::Batch;
use serde_json::Value;
use std::time::{Duration, Instant};

/// A frame of `vectors/stateful.py`.
fn vector(name: &str) -> Vec<u8> {
    let lines = include_str!("vectors/stateful.txt").lines();
    let (_, hex) = lines.filter_map(|line| line.split_once(' ')).find(|(found, _)| *found == name).unwrap();
    let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
    hex.as_bytes().chunks(2).map(byte).collect()
}

/// Sends frames to servers whose clients we are; gives what they answer, and the result.
fn served(profile: &str, frames: &[&str]) -> (Vec<Vec<u8>>, Value) {
    let socket = socket("served");
    let mut port = server(&socket);
    let mut args = vec!["stateful", "--server-interface", &socket, "--profile", profile, "-o", "json"];
    args.extend(["--seconds", "1", "--drain", "0"]);
    std::thread::scope(|scope| {
        let generator = scope.spawn(|| program(&args));
        let (mut batch, mut answers, mut sent) = (Batch::new(64), Vec::new(), 0);
        let begun = Instant::now();
        while !generator.is_finished() && begun.elapsed() < PATIENCE {
            port.wait(Some(Duration::from_millis(5))).unwrap();
            let left: Vec<Vec<u8>> = frames[sent..].iter().map(|name| vector(name)).collect();
            sent += port.send(&left).unwrap_or(0);
            if port.receive(&mut batch).is_ok_and(|n| n > 0) {
                answers.extend(batch.packets().map(<[u8]>::to_vec));
            }
        }
        assert_eq!(sent, frames.len());
        (answers, serde_json::from_slice(&generator.join().unwrap().stdout).unwrap())
    })
}

#[test]
fn servers_answer_only_what_begins_with_the_tag() {
    let (answers, result) = served("udp-cps", &["udp-dns", "udp-short", "udp-22"]);
    // The one answer goes from port 53 back to where the request came from, with its tag.
    assert_eq!(answers.len(), 1, "{answers:?}");
    assert_eq!(
        (&answers[0][34..38], &answers[0][42..58]),
        (&[0, 53, 156, 64][..], &vector("udp-22")[42..58])
    );
    assert_eq!((&result["server"]["messages"], &result["server"]["stray"]), (&1.into(), &0.into()));
    assert_eq!((&result["server_link"]["foreign"], &result["server_link"]["other"]), (&2.into(), &0.into()));
    let received = result["received_pps"].as_f64().unwrap() * result["seconds"].as_f64().unwrap();
    assert!((received - 1.0).abs() < 1e-6, "the rate is that of our own packets: {received}");
    assert!(result["longest_stall_ns"].as_u64().unwrap() > 0);
}

#[test]
fn connections_of_others_clients_are_counted() {
    let (answers, result) = served("tcp-cps", &["syn"]);
    assert!(!answers.is_empty());
    assert_eq!(result["server"]["attempted"], 1);
    assert_eq!((&result["most_active"], &result["unfinished"]), (&1.into(), &1.into()), "{result}");
}

#[test]
fn replays_keep_low_rates() {
    for (rate, seconds, conversations) in [("0.5", "0.2", 1..=1), ("100", "0.5", 1..=50)] {
        let args = ["replay", "--loop", "--rate", rate, "--seconds", seconds, "-o", "json"];
        let result: Value = serde_json::from_slice(&program(&args).stdout).unwrap();
        let begun = result["conversations"].as_u64().unwrap();
        assert!(conversations.contains(&begun), "{rate} per second for {seconds} s: {result}");
        assert_eq!(result["lost"], 0, "{result}");
    }
}

#[test]
fn bad_times_are_named() {
    for mode in ["stateful", "replay"] {
        for args in [["--seconds", "nan"], ["--drain", "-1"], ["--wait", "inf"]] {
            let argument = format!("{}={}", args[0], args[1]);
            let output = program(&[mode, "--loop", &argument]);
            let error = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(
                output.status.code() == Some(2) && error.contains(args[0]),
                "{mode} {argument}: {output:?}"
            );
        }
    }
}

#[test]
fn the_most_connections_at_a_time_are_seen_however_short_they_are() {
    for profile in ["udp-cps", "tcp-cps"] {
        let args = ["stateful", "--loop", "--profile", profile, "--connections", "100", "-o", "json"];
        let result: Value = serde_json::from_slice(&program(&args).stdout).unwrap();
        assert_eq!(
            (&result["most_active"], &result["client"]["closed"]),
            (&100.into(), &100.into()),
            "{profile}"
        );
    }
}

/// It counts TTL and hop limit down, and leaves all other bytes and frames as they are.
#[test]
fn connections_of_both_ip_versions_go_through_the_floor() {
    for version in [&[][..], &["--ipv6"]] {
        let (left, right) = (socket("floor-left"), socket("floor-right"));
        let mut floor = std::process::Command::new(env!("CARGO_BIN_EXE_quiver-floor"))
            .args(["--rx", &left, "--tx", &right, "--bidirectional"])
            .spawn()
            .unwrap();
        let mut args = vec!["stateful", "--client-interface", &left, "--server-interface", &right];
        args.extend(["--connections", "10", "--seconds", "0.5", "-o", "json"]);
        args.extend(version);
        let done = program(&args);
        floor.kill().unwrap();
        floor.wait().unwrap();
        let result: Value = serde_json::from_slice(&done.stdout).unwrap();
        assert_eq!(
            result["client"]["established"],
            10,
            "{version:?}: {}",
            String::from_utf8_lossy(&done.stderr)
        );
        assert_eq!(result["server_link"]["malformed"], 0);
    }
}

#[test]
fn a_rate_that_is_not_reached_is_told() {
    let text = |args: &[&str]| {
        let output = program(&[&["stateful", "--loop"], args].concat());
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    // Each place is held for longer than it all takes: five connections of a thousand.
    let held = ["--rate", "1000", "--seconds", "1", "--concurrent", "5", "--hold", "60", "--drain", "0"];
    let told = text(&held);
    assert!(told.contains(" connections were not begun in time: no place was free"), "{told}");
    let output = program(&[&["stateful", "--loop", "-o", "json"], &held[..]].concat());
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    let (intended, seconds) = (result["intended"].as_u64().unwrap(), result["seconds"].as_f64().unwrap());
    assert_eq!(intended, (seconds * 1000.0) as u64, "{result}");
    let told = text(&["--rate", "100", "--seconds", "60", "--connections", "20"]);
    assert!(!told.contains("in time"), "{told}");
}

#[test]
fn where_nothing_comes_through_the_flags_that_a_router_needs_are_named() {
    let (left, right) = (socket("left"), socket("right"));
    let _middle = Middle::new(&left, &right, |_: &[u8]| Vec::new());
    let sides = ["--client-interface", &left, "--server-interface", &right];
    let common = ["--rate", "100", "--seconds", "0.3", "--drain", "0"];
    let given = ["--client-next-hop", "02:00:00:00:00:01", "--server-next-hop", "02:00:00:00:00:01"];
    for mode in ["stateful", "replay"] {
        for (more, named) in [(&[][..], true), (&given[..], false)] {
            let output = program(&[&[mode], &sides[..], &common, more].concat());
            let error = String::from_utf8_lossy(&output.stderr).into_owned();
            let hint = "(--client-next-hop, --server-next-hop)";
            assert_eq!((output.status.code(), error.contains(hint)), (Some(1), named), "{error}");
        }
    }
}
