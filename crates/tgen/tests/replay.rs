//! Captures written by scapy come out of an interface packet by packet, unchanged and in order.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::{PATIENCE, program, server, socket};
use memif::app::Batch;
use std::path::PathBuf;
use std::time::{Duration, Instant};

const VECTORS: &str = include_str!("vectors/replay.txt");

fn hex(text: &str) -> Vec<u8> {
    text.as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

fn packets() -> Vec<Vec<u8>> {
    VECTORS.lines().filter_map(|line| line.strip_prefix("packet ")).map(hex).collect()
}

fn file(name: &str) -> Vec<u8> {
    hex(VECTORS.lines().find_map(|line| line.strip_prefix(&format!("file {name} "))).unwrap())
}

/// What a peer gets from the generator that is run with these arguments and the capture.
fn played(capture: &[u8], args: &[&str]) -> Vec<Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    let path: PathBuf = folder.path().join("capture");
    std::fs::write(&path, capture).unwrap();
    let socket = socket("replay");
    let mut port = server(&socket);
    let mut all = vec!["--tx", &socket, "--drain", "20", "--pcap", path.to_str().unwrap()];
    all.extend(args);
    std::thread::scope(|scope| {
        let generator = scope.spawn(|| program(&all));
        let (mut batch, mut frames, begun) = (Batch::new(256), Vec::new(), Instant::now());
        while begun.elapsed() < PATIENCE {
            let over = generator.is_finished();
            port.wait(Some(Duration::from_millis(5))).unwrap();
            while port.receive(&mut batch).unwrap_or(0) > 0 {
                frames.extend(batch.packets().map(<[u8]>::to_vec));
                // Straight back, so that it knows that all have come.
                port.send(&batch.packets().collect::<Vec<_>>()).unwrap();
            }
            if over {
                break;
            }
        }
        let output = generator.join().unwrap();
        assert!(output.status.success(), "{output:?}");
        frames
    })
}

#[test]
fn both_formats_at_all_speeds() {
    for format in ["pcap", "pcapng"] {
        for args in [&[][..], &["--rate", "1000"], &["--original-timing"]] {
            assert!(played(&file(format), args) == packets(), "{format} {args:?}");
        }
    }
}

#[test]
fn repeated_and_cut_off_by_a_count() {
    let once = packets();
    let played = played(&file("pcap"), &["--repeat", "3", "--count", "14"]);
    let expected: Vec<_> = once.iter().cycle().take(14).cloned().collect();
    assert!(played == expected, "{} packets", played.len());
}

#[test]
fn what_is_no_capture_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("not-a-capture");
    let path = path.to_str().unwrap();
    let socket = socket("none");
    let _port = server(&socket);
    let mut broken = file("pcap");
    broken.truncate(broken.len() - 3);
    for (bytes, expected) in [
        (&b"GET / HTTP/1.1\r\n"[..], "neither pcap nor pcapng"),
        (&broken[..], "cut off"),
        (&file("pcap")[..24], "no packets"),
    ] {
        std::fs::write(path, bytes).unwrap();
        for mode in [&[][..], &["replay"]] {
            let output = program(&[mode, &["--loop", "--pcap", path]].concat());
            let error = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(2), "{error}");
            assert!(error.contains(path) && error.contains(expected), "{error}");
        }
    }
}

#[test]
fn frames_of_one_length_are_told_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("capture");
    // The same packet twice, then another.
    let (capture, all) = (file("pcap"), packets());
    let record = 16 + all[0].len();
    let twice = [&capture[..24 + record], &capture[24..24 + record]].concat();
    for (bytes, told) in
        [(twice, format!("{} B frames", all[0].len())), (capture, "frames of several sizes".into())]
    {
        std::fs::write(&path, bytes).unwrap();
        let output = program(&["--loop", "--pcap", path.to_str().unwrap()]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.starts_with(&told), "{text}");
    }
}
