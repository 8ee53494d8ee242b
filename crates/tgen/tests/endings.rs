//! How runs end: at their count, by a signal, because an interface goes or takes nothing, with nobody who reads the result.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::{Middle, PATIENCE, program, server, socket};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

#[test]
fn a_peer_that_goes_ends_the_run_with_what_came_until_then() {
    let socket = socket("going");
    let mut port = server(&socket);
    let args = ["--tx", &socket, "--rate", "1000", "--seconds", "60", "-o", "json"];
    std::thread::scope(|scope| {
        let generator = scope.spawn(|| program(&args));
        let begun = Instant::now();
        let mut batch = memif::app::Batch::new(64);
        let mut seen = 0;
        while seen < 10 && begun.elapsed() < PATIENCE {
            port.wait(Some(Duration::from_millis(5))).unwrap();
            seen += port.receive(&mut batch).unwrap_or(0);
        }
        drop(port);
        let output = generator.join().unwrap();
        assert_eq!(output.status.code(), Some(4), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("was lost"), "{output:?}");
        let result: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(result["sent"].as_u64().unwrap() >= 10);
        assert!(result["error"].as_str().unwrap().contains(&socket));
    });
}

/// Runs a kind of connections until the server's interface goes away; in text, or as JSON.
fn bereft(mode: &str, format: &str) -> std::process::Output {
    let (left, right) = (socket("left"), socket("right"));
    let (mut client, mut server) = (server(&left), Some(server(&right)));
    let mut args = vec![mode, "--client-interface", &left, "--server-interface", &right, "--rate", "1000"];
    args.extend(["--seconds", "60", "-o", format]);
    std::thread::scope(|scope| {
        let generator = scope.spawn(|| program(&args));
        let (begun, mut batch, mut seen) = (Instant::now(), memif::app::Batch::new(64), 0);
        while !generator.is_finished() && begun.elapsed() < PATIENCE {
            client.wait(Some(Duration::from_millis(5))).unwrap();
            let Some(port) = &mut server else { continue };
            port.wait(Some(Duration::ZERO)).unwrap();
            if client.receive(&mut batch).unwrap_or(0) > 0 {
                seen += port.send(&batch.packets().collect::<Vec<_>>()).unwrap_or(0);
            }
            if port.receive(&mut batch).unwrap_or(0) > 0 {
                client.send(&batch.packets().collect::<Vec<_>>()).unwrap();
            }
            // Three blocks of a replay: before it sent the third it has taken what came back of the first.
            if seen > 300 {
                server = None;
            }
        }
        generator.join().unwrap()
    })
}

#[test]
fn connections_whose_interface_goes_have_the_result_of_the_time_until_then() {
    for (mode, count) in [("stateful", "/client/established"), ("replay", "/received")] {
        let output = bereft(mode, "json");
        assert_eq!(output.status.code(), Some(4), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("was lost"), "{output:?}");
        let result: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(result.pointer(count).unwrap().as_u64().unwrap() > 0, "{mode}: {result}");
        assert!(result["error"].as_str().unwrap().contains("was lost"), "{mode}: {result}");
        let seconds = result["seconds"].as_f64().unwrap();
        assert!(seconds > 0.0 && seconds < 60.0 && result["stopped"] == false, "{mode}: {result}");
        let output = bereft(mode, "text");
        assert!(String::from_utf8_lossy(&output.stdout).contains("\nincomplete: "), "{output:?}");
    }
}

#[test]
fn an_interrupt_gives_the_result_so_far_and_progress_is_told() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_quiver-tgen"))
        .args(["--loop", "--seconds", "600", "--rate", "1000", "--progress", "-o", "json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("sent") && line.contains("pps"), "{line}");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result["stopped"], true);
    assert!(result["sent"].as_u64().unwrap() > 0);
}

#[test]
fn an_interrupt_ends_the_wait_for_interfaces() {
    let socket = socket("nobody");
    let roles = [&["--tx", &socket][..], &["--tx", &socket, "--role", "server"]];
    let sides = ["stateful", "--client-interface", &socket];
    let both = ["replay", "--client-interface", &socket, "--server-interface", &socket];
    for args in roles.into_iter().chain([&sides[..], &both]) {
        let child = Command::new(env!("CARGO_BIN_EXE_quiver-tgen"))
            .args(args)
            .args(["--wait", "600"])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(500));
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        let output = child.wait_with_output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            told.contains("stopped before memif interface") && told.contains(&socket),
            "{args:?}: {told}"
        );
        assert_eq!(output.status.code(), Some(1), "{args:?}");
    }
}

#[test]
fn an_interrupt_that_comes_twice_at_once_is_one() {
    // As `timeout` sends it: to its child, and then to the group.
    for mode in [&["--loop"][..], &["stateful", "--loop"], &["replay", "--loop"]] {
        for _ in 0..10 {
            let mut child = Command::new(env!("CARGO_BIN_EXE_quiver-tgen"))
                .args(mode)
                .args(["--seconds", "600", "--rate", "1000", "--progress", "-o", "json"])
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            BufReader::new(child.stderr.take().unwrap()).read_line(&mut String::new()).unwrap();
            for signal in [Signal::INT, Signal::CONT, Signal::INT] {
                kill_process(Pid::from_child(&child), signal).unwrap();
            }
            let output = child.wait_with_output().unwrap();
            assert_eq!(output.status.code(), Some(0), "{mode:?}: {output:?}");
            let result: Value = serde_json::from_slice(&output.stdout).expect("a result");
            assert_eq!(result["stopped"], true, "{mode:?}: {result}");
        }
    }
}

#[test]
fn progress_of_connections_is_told() {
    for mode in ["stateful", "replay"] {
        let output = program(&[mode, "--loop", "--rate", "1000", "--seconds", "1.5", "--progress"]);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(told.lines().next().is_some_and(|line| line.contains(" s  ")), "{mode}: {told:?}");
    }
}

#[test]
fn an_interrupt_is_told_by_all_kinds_of_traffic() {
    let opening = ["--loop", "--seconds", "600", "--rate", "1000", "-o", "json"];
    // All are open, and none may end.
    let ending = ["--loop", "--seconds", "0.1", "--hold", "600", "--drain", "600", "-o", "json"];
    for (mode, args) in [("stateful", &opening[..]), ("replay", &opening), ("stateful", &ending)] {
        let child = Command::new(env!("CARGO_BIN_EXE_quiver-tgen"))
            .arg(mode)
            .args(args)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(500));
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        let output = child.wait_with_output().unwrap();
        let result: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(result["stopped"], true, "{mode} {args:?}: {result}");
        assert_eq!(output.status.code(), Some(0), "{mode} {args:?}");
    }
}

#[test]
fn a_count_without_seconds_is_sent_to_its_end() {
    // 5 s would be over; the gap behind the last packet belongs to the time.
    let output = program(&["--loop", "--rate", "10", "--count", "52", "-o", "json"]);
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&result["sent"], &result["streams"][0]["count"]), (&52.into(), &52.into()));
    let output = program(&["--loop", "--rate", "1000", "--count", "500", "--seconds", "0.1"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("forward: 100 of 500 packets were sent when the time was over"), "{text}");
}

#[test]
fn a_device_that_takes_nothing_ends_a_run_that_has_no_other_end() {
    let socket = socket("stuck");
    let mut port = server(&socket);
    let args = ["--tx", &socket, "--count", "100000", "--ring-size", "64", "--drain", "0", "-o", "json"];
    std::thread::scope(|scope| {
        let generator = scope.spawn(|| program(&args));
        let begun = Instant::now();
        while !generator.is_finished() && begun.elapsed() < PATIENCE {
            port.wait(Some(Duration::from_millis(5))).unwrap();
        }
        let output = generator.join().unwrap();
        assert_eq!(output.status.code(), Some(4), "{output:?}");
        let result: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(result["sent"].as_u64().unwrap() <= 64, "{result}");
        assert!(result["error"].as_str().unwrap().contains("stands still"), "{result}");
    });
}

#[test]
fn a_pipe_that_is_closed_is_no_error_and_a_full_disk_is() {
    for mode in [&["--loop"][..], &["stateful", "--loop"], &["replay", "--loop"]] {
        let run = |stdout: Stdio| {
            let child = Command::new(env!("CARGO_BIN_EXE_quiver-tgen"))
                .args(mode)
                .args(["--seconds", "0.1", "-o", "json"])
                .stdout(stdout)
                .stderr(Stdio::piped())
                .spawn();
            let output = child.unwrap().wait_with_output().unwrap();
            (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
        };
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        assert_eq!(run(writer.into()), (Some(0), String::new()), "{mode:?}");
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let (status, error) = run(full.into());
        assert!(status == Some(1) && error.contains("No space left"), "{mode:?}: {error}");
    }
}

#[test]
fn a_standstill_of_the_generator_is_told() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_quiver-tgen"))
        .args(["--loop", "--seconds", "600", "--rate", "10000", "--progress", "-o", "json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut progress = BufReader::new(child.stderr.take().unwrap());
    progress.read_line(&mut String::new()).unwrap();
    let pid = Pid::from_child(&child);
    kill_process(pid, Signal::STOP).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    kill_process(pid, Signal::CONT).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    let [longest, all, packets] =
        ["longest_stall_ns", "stalled_ns", "stalled_packets"].map(|name| result[name].as_u64().unwrap());
    assert!(longest >= 250_000_000 && all >= longest && packets >= 2_500, "{result}");
    let seconds = result["seconds"].as_f64().unwrap();
    assert!(all as f64 <= seconds * 1e9, "no more than the time of sending: {result}");
}

#[test]
fn a_standstill_after_sending_is_told_apart() {
    let socket = socket("idle");
    let mut port = server(&socket);
    let child = Command::new(env!("CARGO_BIN_EXE_quiver-tgen"))
        .args(["--tx", &socket, "--count", "10", "--drain", "2", "-o", "json"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (pid, mut batch, mut seen) = (Pid::from_child(&child), memif::app::Batch::new(64), 0);
    let begun = Instant::now();
    while seen < 10 && begun.elapsed() < PATIENCE {
        port.wait(Some(Duration::from_millis(5))).unwrap();
        seen += port.receive(&mut batch).unwrap_or(0);
    }
    // It is through with sending within a turn, and waits for what never comes.
    std::thread::sleep(Duration::from_millis(200));
    kill_process(pid, Signal::STOP).unwrap();
    std::thread::sleep(Duration::from_millis(500));
    kill_process(pid, Signal::CONT).unwrap();
    let output = child.wait_with_output().unwrap();
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(result["drain_stalled_ns"].as_u64().unwrap() >= 400_000_000, "{result}");
    for name in ["stalled_ns", "longest_stall_ns"] {
        assert!(result[name].as_f64().unwrap() <= result["seconds"].as_f64().unwrap() * 1e9, "{result}");
    }
}

#[test]
fn a_second_interrupt_ends_what_is_under_way_and_gives_the_result() {
    let (left, right) = (socket("left"), socket("right"));
    // Nothing comes through: packets are waited for.
    let _middle = Middle::new(&left, &right, |_: &[u8]| Vec::new());
    let through = ["replay", "--client-interface", &left, "--server-interface", &right, "--rate", "1000"];
    let held = ["stateful", "--loop", "--hold", "600", "--rate", "1000"];
    for args in [&held[..], &through] {
        let child = Command::new(env!("CARGO_BIN_EXE_quiver-tgen"))
            .args(args)
            .args(["--seconds", "600", "--drain", "600", "-o", "json"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        for _ in 0..2 {
            std::thread::sleep(Duration::from_millis(700));
            kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        }
        let output = child.wait_with_output().unwrap();
        let result: Value = serde_json::from_slice(&output.stdout).expect("a result");
        assert_eq!(result["stopped"], true, "{args:?}: {result}");
    }
}
