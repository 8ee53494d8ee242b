//! What scapy says our frames are (`tests/vectors/stateful.py`).

use crate::stateful::packet::{Datagram, Framing, Line, Refused, Segment, Wire};
use std::collections::BTreeMap;
use wire::MacAddr;

fn vectors() -> BTreeMap<&'static str, Vec<u8>> {
    let text = include_str!("../../../tests/vectors/stateful.txt");
    let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#')).map(|line| line.split_once(' ').unwrap());
    lines.map(|(name, hex)| (name, hex.as_bytes().chunks(2).map(byte).collect())).collect()
}

fn framing() -> Framing {
    Framing::ethernet(MacAddr([2, 0, 0, 0, 0, 2]), MacAddr([2, 0, 0, 0, 0, 1]), 9000)
}

/// The whole frame, padded as it is sent.
fn bytes<P: Wire>(packet: &P) -> Vec<u8> {
    let framing = framing();
    let frame = packet.frame(&framing);
    let mut bytes = frame.line.bytes().to_vec();
    bytes.extend(framing.payload().bytes(frame.rest.0, frame.rest.1));
    assert_eq!(bytes.len() as u32, framing.padded(frame.len));
    bytes
}

fn line(bytes: &[u8]) -> Line {
    Line::from_bytes(bytes)
}

fn segment(flags: u8, len: u16) -> Segment {
    Segment {
        src: 0x0a00_0001,
        dst: 0x0a01_0001,
        seq: 0xfedc_ba98,
        ack: 0x1234_5678,
        src_port: 40_000,
        dst_port: 80,
        len,
        window: 65_535,
        mss: 0,
        flags,
    }
}

fn segments() -> Vec<(String, Segment)> {
    let mut all = vec![
        ("syn".into(), Segment { ack: 0, mss: 1460, ..segment(0x02, 0) }),
        ("syn-ack".into(), Segment { mss: 8960, ..segment(0x12, 0) }),
        ("ack".into(), segment(0x10, 0)),
        ("fin".into(), segment(0x11, 0)),
        ("rst".into(), Segment { ack: 0, window: 0, ..segment(0x04, 0) }),
    ];
    for len in [1, 2, 3, 9, 10, 11, 64, 535, 1460, 8960] {
        all.push((format!("data-{len}"), segment(0x18, len)));
    }
    all
}

fn datagram(len: u16) -> Datagram {
    Datagram {
        src: 0x0a00_0001,
        dst: 0x0a01_0001,
        src_port: 40_000,
        dst_port: 53,
        len,
        magic: Datagram::MAGIC,
        flow: 0x00ab_cdef,
        life: 0xfeed_f00d,
        turn: 0x0102_0304,
    }
}

fn datagrams() -> Vec<(String, Datagram)> {
    [16, 17, 21, 22, 23, 58, 1472].into_iter().map(|len| (format!("udp-{len}"), datagram(len))).collect()
}

#[test]
fn frames_are_scapys() {
    let vectors = vectors();
    let ours = segments().into_iter().map(|(name, segment)| (name, bytes(&segment)));
    let ours = ours.chain(datagrams().into_iter().map(|(name, datagram)| (name, bytes(&datagram))));
    let mut seen = 0;
    for (name, bytes) in ours {
        assert_eq!(bytes, vectors[name.as_str()], "{name}");
        seen += 1;
    }
    assert_eq!(seen, 22);
}

#[test]
fn scapys_frames_are_read() {
    let vectors = vectors();
    for (name, segment) in segments() {
        let bytes = &vectors[name.as_str()];
        assert_eq!(Segment::read(&line(bytes), bytes.len()), Ok(segment), "{name}");
        assert_eq!(Datagram::read(&line(bytes), bytes.len()), Err(Refused::Other));
    }
    for (name, datagram) in datagrams() {
        let bytes = &vectors[name.as_str()];
        assert_eq!(Datagram::read(&line(bytes), bytes.len()), Ok(datagram), "{name}");
        assert_eq!(Segment::read(&line(bytes), bytes.len()), Err(Refused::Other));
    }
}

#[test]
fn what_others_send_is_read() {
    let vectors = vectors();
    let read = |name: &str| Segment::read(&line(&vectors[name]), vectors[name].len());
    // As the kernel sends it: MSS first, then SACK, timestamps and window scale, beyond the first line.
    assert_eq!(read("linux-syn"), Ok(Segment { ack: 0, mss: 1460, window: 64_240, ..segment(0x02, 0) }));
    assert_eq!(read("mss-second"), Ok(Segment { ack: 0, mss: 1400, ..segment(0x02, 0) }));
    // Not padded, and with an option in front of the payload.
    assert_eq!(read("unpadded-ack"), Ok(segment(0x10, 0)));
    assert_eq!(read("timestamps"), Ok(segment(0x18, 30)));
    // Padding is whatever it likes to be.
    assert_eq!(read("noisy-padding"), Ok(segment(0x10, 0)));
    for (name, refused) in [
        ("arp", Refused::Arp),
        ("icmp", Refused::Other),
        ("ip-options", Refused::Other),
        ("fragment", Refused::Other),
        ("ipv6", Refused::Other),
        ("too-short", Refused::Malformed),
        ("bad-offset", Refused::Malformed),
    ] {
        assert_eq!(read(name), Err(refused), "{name}");
    }
}

#[test]
fn every_changed_bit_is_seen() {
    let vectors = vectors();
    for name in ["syn", "ack", "data-3", "data-10"] {
        let bytes = &vectors[name];
        let end = 14 + usize::from(u16::from_be_bytes([bytes[16], bytes[17]]));
        for bit in 16 * 8..end * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(Segment::read(&line(&changed), bytes.len()).is_err(), "{name}: bit {bit} changed");
        }
    }
}

#[test]
fn link_without_ethernet() {
    let framing = Framing::ip(9000);
    let segment = segment(0x10, 0);
    let frame = segment.frame(&framing);
    assert_eq!((framing.padded(frame.len), framing.skipped()), (40, 14));
    assert_eq!(&frame.line.bytes()[14..54], &bytes(&segment)[14..54]);
}
