//! Super-frames are cut and checksums finished as scapy would have built the packets.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::{Joined, Namespace, Side, root};
use graph::checksum::{self, Unfinished};
use memory::packet::{Gso, HEADROOM, Offload, OwnedPacket, Packets, SlotId};
use memory::region::{HugePages, Region, RegionOptions, RegionTable};
use memory::simd::Scalar;
use quiver_ports::link::LinkOptions;
use quiver_ports::offload::{Problem, segment};
use quiver_ports::tap::{self, TapOptions};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A case of `data/offload.txt`, which `data/offload.py` writes.
struct Case {
    name: &'static str,
    frame: Vec<u8>,
    offload: Offload,
    expected: Vec<Vec<u8>>,
}

fn hex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    digits.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for line in include_str!("data/offload.txt").lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["case", name, gso, size, start, offset] => cases.push(Case {
                name,
                frame: vec![],
                offload: Offload {
                    gso: match gso {
                        "tcp4" => Gso::Tcp4,
                        "tcp6" => Gso::Tcp6,
                        "udp" => Gso::Udp,
                        _ => Gso::None,
                    },
                    gso_size: size.parse().unwrap(),
                    checksum_start: start.parse::<u16>().unwrap() + HEADROOM as u16,
                    checksum_offset: offset.parse().unwrap(),
                    checksum_needed: true,
                },
                expected: vec![],
            }),
            ["in", bytes] => cases.last_mut().unwrap().frame = hex(bytes),
            ["out", bytes] => cases.last_mut().unwrap().expected.push(hex(bytes)),
            _ => panic!("{line}"),
        }
    }
    cases
}

/// The ways a frame can lie in memory: a private body, one that somebody else may write, and one in many pieces.
const LAYOUTS: [fn(&mut Packets, &[u8]) -> SlotId; 3] = [
    |packets, frame| packets.adopt(&OwnedPacket::new(0, frame.to_vec())).unwrap(),
    |packets, frame| chained(packets, frame, 4096),
    |packets, frame| chained(packets, frame, 37),
];

fn chained(packets: &mut Packets, frame: &[u8], piece: usize) -> SlotId {
    let options = RegionOptions { name: "frame".into(), size: 16384, huge_pages: HugePages::Never };
    let region = Arc::new(Region::create(&options).unwrap());
    let table = Arc::new(RegionTable::new(vec![region]).unwrap());
    let mut burst = packets.burst(Scalar, Arc::clone(&table), 0);
    for (number, bytes) in frame.chunks(piece).enumerate() {
        let range = table.check(0, (number * piece) as u32, bytes.len() as u32).unwrap();
        range.write(bytes);
        if number == 0 {
            // SAFETY: the range is of the table that the burst was begun with.
            unsafe { burst.packet(range) }.unwrap();
        } else {
            // SAFETY: as above.
            unsafe { burst.segment(range) };
        }
    }
    burst.finish().0.start as SlotId
}

#[test]
fn as_scapy_builds_them() {
    let cases = cases();
    assert_eq!(cases.len(), 15);
    for case in cases {
        for (number, lay) in LAYOUTS.iter().enumerate() {
            let mut packets = Packets::new();
            let slot = lay(&mut packets, &case.frame);
            packets.meta_mut(slot).offload = case.offload;
            let mut out = vec![slot];
            if case.offload.gso == Gso::None {
                checksum::complete(&mut packets, slot).unwrap();
            } else {
                out.clear();
                segment(&mut packets, slot, &mut out).unwrap();
            }
            let frames: Vec<_> = out.iter().map(|slot| packets.own(*slot).frame().to_vec()).collect();
            assert_eq!(frames.len(), case.expected.len(), "{} in layout {number}", case.name);
            for (at, (frame, expected)) in frames.iter().zip(&case.expected).enumerate() {
                assert_eq!(frame, expected, "packet {at} of {} in layout {number}", case.name);
            }
            assert!(out.iter().all(|slot| packets.meta(*slot).offload == Offload::default()));
        }
    }
}

#[test]
fn the_same_without_a_link_header_and_behind_a_new_one() {
    for case in
        cases().into_iter().filter(|case| case.offload.gso != Gso::None && !case.name.contains("qinq"))
    {
        let mut packets = Packets::new();
        let slot = packets.adopt(&OwnedPacket::new(0, case.frame.clone())).unwrap();
        packets.meta_mut(slot).offload = case.offload;
        assert!(packets.strip(slot, 14));
        let mut out = vec![];
        segment(&mut packets, slot, &mut out).unwrap();
        let ip = |slot: &SlotId| {
            let mut bytes = vec![0; packets.meta(*slot).len() as usize];
            packets.copy_out(*slot, &mut bytes);
            bytes
        };
        let frames: Vec<_> = out.iter().map(ip).collect();
        let expected: Vec<_> = case.expected.iter().map(|frame| frame[14..].to_vec()).collect();
        assert_eq!(frames, expected, "{} as IP", case.name);

        // A router's new header, with a tag: it begins 4 bytes before where the frame began.
        let mut link = case.frame[..12].to_vec();
        link.extend([0x81, 0, 0, 5]);
        link.extend(&case.frame[12..14]);
        packets.prepend(slot, 18).unwrap().copy_from_slice(&link);
        out.clear();
        segment(&mut packets, slot, &mut out).unwrap();
        for (piece, expected) in out.iter().zip(&case.expected) {
            let mut bytes = vec![0; packets.meta(*piece).len() as usize];
            packets.copy_out(*piece, &mut bytes);
            assert_eq!(
                (&bytes[..18], &bytes[18..]),
                (&link[..], &expected[14..]),
                "{} behind a tag",
                case.name
            );
        }
    }
}

#[test]
fn what_contradicts_itself_is_refused() {
    let case = cases().swap_remove(0);
    let good = case.offload;
    let bad = [
        ("checksum behind the end", Offload { checksum_start: 60_000, ..good }, Problem::Malformed),
        ("checksum before the frame", Offload { checksum_start: 3, ..good }, Problem::Malformed),
        ("other family", Offload { gso: Gso::Tcp6, ..good }, Problem::Malformed),
        ("other protocol", Offload { gso: Gso::Udp, ..good }, Problem::Malformed),
        (
            "not where IP ends",
            Offload { checksum_start: good.checksum_start + 4, ..good },
            Problem::Malformed,
        ),
        ("a segment per byte", Offload { gso_size: 1, ..good }, Problem::TooMany { count: 5000 }),
    ];
    for (name, offload, problem) in bad {
        let mut packets = Packets::new();
        let slot = packets.adopt(&OwnedPacket::new(0, case.frame.clone())).unwrap();
        packets.meta_mut(slot).offload = offload;
        let mut out = vec![];
        assert_eq!((segment(&mut packets, slot, &mut out), out.len()), (Err(problem), 0), "{name}");
    }
    let bad = [
        ("checksum behind the end", 60_000, Unfinished::Malformed),
        ("checksum before the frame", 3, Unfinished::Malformed),
        ("deep in the payload", 2000, Unfinished::HeadersTooLong),
    ];
    for (name, checksum_start, unfinished) in bad {
        let mut packets = Packets::new();
        let slot = packets.adopt(&OwnedPacket::new(0, case.frame.clone())).unwrap();
        packets.meta_mut(slot).offload = Offload { checksum_start, gso: Gso::None, ..good };
        assert_eq!(checksum::complete(&mut packets, slot), Err(unfinished), "{name}");
    }
    let mut packets = Packets::new();
    let slot = packets.adopt(&OwnedPacket::new(0, case.frame.clone())).unwrap();
    packets.meta_mut(slot).offload = Offload { gso_size: 5, ..good };
    while packets.free() > 999 {
        packets.take(0).unwrap();
    }
    let mut out = vec![];
    assert_eq!(segment(&mut packets, slot, &mut out), Err(Problem::NoSlot), "1000 segments, 999 slots");
    assert_eq!(packets.free(), 999);
}

/// The other kernel takes only finished packets here, and checks them: TCP would not get through with a wrong one.
#[test]
fn tcp_gets_through_the_node() {
    if !root("TCP through the offload node") {
        return;
    }
    let (a, b) = (Namespace::new("seg-a"), Namespace::new("seg-b"));
    let open = |namespace: &Namespace, number: u8| {
        let host = LinkOptions {
            addresses: [format!("10.9.0.{number}/24"), format!("fd09::{number}/64")]
                .map(|a| a.parse().unwrap())
                .into(),
            ..LinkOptions::default()
        };
        tap::open(&TapOptions { host, ..TapOptions::new(namespace.netns(), "eth0") }).unwrap()
    };
    let (mut port_a, mut port_b) = (open(&a, 1), open(&b, 2));
    let side = |port| Side { features: &["offload"], ..Side::new(port, "tap-input", "tap-tx") };
    let mut joined = Joined::new([side(&mut port_a), side(&mut port_b)]);
    joined.while_running(|| {
        for address in ["10.9.0.1", "fd09::1"] {
            common::transfer(&a, &b, address, 4 << 20);
        }
    });
    let count = |name: &str| joined.counter("offload", name);
    let (frames, segments) = (count("super-frames"), count("segments"));
    assert!(frames > 100 && segments > 2 * frames, "{frames} super-frames, {segments} segments");
    assert!(count("checksums") > 0);
    assert!(joined.seen.longest.load(Ordering::Relaxed) > 20_000);
    let statistics = a.run(&["cat", "/proc/net/snmp"]);
    let tcp: Vec<&str> = statistics.lines().filter(|line| line.starts_with("Tcp:")).collect();
    let column = tcp[0].split(' ').position(|name| name == "InCsumErrors").unwrap();
    assert_eq!(tcp[1].split(' ').nth(column), Some("0"), "the kernel found a wrong checksum");
}
