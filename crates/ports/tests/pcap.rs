//! Capture files as ports.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::{Joined, Side, receive_all};
use memory::packet::Packets;
use quiver_ports::pcap::{self, Pace, PcapOptions};
use quiver_ports::wrap::capture::CaptureFile;
use quiver_ports::{LinkLayer, LinkState, PortError};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use wire::LinkType;
use wire::capture::Decoder;

/// A file with `data/sample.txt`: five frames as scapy writes them.
fn sample(dir: &TempDir) -> PathBuf {
    let digits: String = include_str!("data/sample.txt").split_whitespace().collect();
    let bytes: Vec<u8> = (0..digits.len() / 2)
        .map(|at| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).unwrap())
        .collect();
    let path = dir.path().join("sample.pcap");
    std::fs::write(&path, bytes).unwrap();
    path
}

fn decode(path: &Path) -> Vec<Vec<u8>> {
    let mut decoder = Decoder::new();
    decoder.feed(&std::fs::read(path).unwrap());
    let mut frames = Vec::new();
    while let Some(packet) = decoder.next_packet().unwrap() {
        frames.push(packet.data.to_vec());
    }
    decoder.finish().unwrap();
    frames
}

/// Frames with these distances in nanoseconds.
fn recording(dir: &TempDir, link: &[LinkType], times: &[u64]) -> PathBuf {
    let path = dir.path().join("made.pcapng");
    let mut file = CaptureFile::create(&path).unwrap();
    for link in link {
        file.interface(*link, "made", 0).unwrap();
    }
    for (number, time) in times.iter().enumerate() {
        let bytes = [number as u8; 60];
        let interface = (number % link.len()) as u32;
        file.packet(interface, 1_700_000_000_000_000_000 + time, &bytes, 60, None, "").unwrap();
    }
    file.flush().unwrap();
    path
}

#[test]
fn what_is_played_is_written() {
    let dir = TempDir::new().unwrap();
    let path = sample(&dir);
    let written = dir.path().join("written.pcapng");
    let options =
        PcapOptions { rx_file: Some(path.clone()), pace: Pace::Max, repeat: 3, ..PcapOptions::new("in") };
    let mut source = pcap::open(&options).unwrap();
    assert_eq!(source.facts.link, LinkLayer::Ethernet);
    let options = PcapOptions { tx_file: Some(written.clone()), ..PcapOptions::new("out") };
    let mut target = pcap::open(&options).unwrap();
    assert!(source.facts.offload && !target.facts.offload);
    let side = |port, features| Side { features, ..Side::new(port, "pcap-input", "pcap-tx") };
    let mut joined = Joined::new([side(&mut source, &[]), side(&mut target, &["offload"])]);
    while joined.round() > 0 {}
    assert_eq!(target.link.state(), LinkState::Up);
    drop((joined, target.tx));
    target.control.remove().unwrap();
    let frames = decode(&path);
    assert_eq!(frames.len(), 5);
    assert_eq!(frames[2][34..36], 1002u16.to_be_bytes());
    assert_eq!(decode(&written), [&frames[..]; 3].concat());
}

#[test]
fn packets_come_at_the_times_of_the_file() {
    let dir = TempDir::new().unwrap();
    // Two at once, one a millisecond later, one an hour later.
    let path = recording(&dir, &[LinkType::ETHERNET], &[0, 0, 1_000_000, 3_600_000_000_000]);
    let mut port = pcap::open(&PcapOptions { rx_file: Some(path), ..PcapOptions::new("in") }).unwrap();
    let rx = &mut port.rx[0];
    let mut packets = Packets::new();
    let mut got = receive_all(&mut **rx, &mut packets).len();
    assert!((2..4).contains(&got), "{got}");
    while got < 3 {
        if rx.arm() {
            let mut fds = [PollFd::from_borrowed_fd(rx.event_fd().unwrap(), PollFlags::IN)];
            let patience = Timespec { tv_sec: 20, tv_nsec: 0 };
            assert_eq!(poll(&mut fds, Some(&patience)).unwrap(), 1, "the timer wakes");
            rx.disarm();
        }
        got += receive_all(&mut **rx, &mut packets).len();
    }
    assert_eq!(got, 3);
    assert!(rx.arm(), "the last is far away");
    assert!(receive_all(&mut **rx, &mut packets).is_empty());
}

#[test]
fn raw_ip_is_played_as_such() {
    let dir = TempDir::new().unwrap();
    let path = recording(&dir, &[LinkType::RAW, LinkType::IPV4], &[0, 1]);
    let port = pcap::open(&PcapOptions { rx_file: Some(path), ..PcapOptions::new("in") }).unwrap();
    assert_eq!(port.facts.link, LinkLayer::Ip);
}

#[test]
fn what_cannot_be_played_or_written_is_explained() {
    let dir = TempDir::new().unwrap();
    let play = |path: &Path| {
        let options = PcapOptions { rx_file: Some(path.into()), ..PcapOptions::new("bad") };
        let error = pcap::open(&options).unwrap_err();
        assert!(matches!(error, PortError::System { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains(&path.display().to_string()), "{text}");
        text
    };
    assert!(play(&dir.path().join("none")).contains("check the name"));
    let cut = sample(&dir);
    let bytes = std::fs::read(&cut).unwrap();
    std::fs::write(&cut, &bytes[..bytes.len() - 3]).unwrap();
    play(&cut);
    std::fs::write(&cut, &bytes[..24]).unwrap();
    assert!(play(&cut).contains("no packet"));
    std::fs::write(&cut, b"not a capture").unwrap();
    play(&cut);
    assert!(play(&recording(&dir, &[LinkType::ETHERNET, LinkType::RAW], &[0, 1])).contains("packet 2"));
    assert!(play(&recording(&dir, &[LinkType(147)], &[0])).contains("link type 147"));

    let write = |path: &str| {
        let options = PcapOptions { tx_file: Some(path.into()), ..PcapOptions::new("bad") };
        pcap::open(&options).unwrap_err().to_string()
    };
    assert!(write("/proc/none/x.pcapng").contains("/proc/none/x.pcapng"));
    assert!(write("/dev/full").contains("No space left"), "a full disk");
}

#[test]
fn a_disk_that_fills_up_is_a_fault_and_not_a_wait() {
    let dir = TempDir::new().unwrap();
    let pipe = dir.path().join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let options = PcapOptions { tx_file: Some(pipe.clone()), ..PcapOptions::new("out") };
    let error = pcap::open(&options).unwrap_err().to_string();
    assert!(error.contains("a pipe that nobody reads"), "{error}");
    let nonblock = rustix::fs::OFlags::NONBLOCK;
    let reader = rustix::fs::open(&pipe, nonblock, rustix::fs::Mode::empty()).unwrap();
    let mut port = pcap::open(&options).unwrap();
    let frame = vec![7; 9000];
    let end = std::time::Instant::now() + common::PATIENCE;
    // Nobody reads: the pipe fills, then the queue, and then packets are turned away.
    let stopped = std::iter::repeat_with(|| common::send(&mut *port.tx[0], &frame)).take(6000);
    assert!(stopped.into_iter().any(|sent| sent.packets == 0), "the queue is bounded");
    drop(reader);
    let mut packets = Packets::new();
    let fault = loop {
        assert!(std::time::Instant::now() < end);
        let slot = packets.adopt(&memory::packet::OwnedPacket::new(0, frame.clone())).unwrap();
        if let Err(fault) = port.tx[0].send(common::SCALAR, &mut packets, &[slot]) {
            break fault;
        }
        packets.end_round();
        std::thread::sleep(std::time::Duration::from_millis(1));
    };
    assert!(fault.reason.contains("pipe"), "{fault}");
    assert_eq!(port.link.state(), LinkState::Down);
}
