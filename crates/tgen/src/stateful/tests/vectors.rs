//! What scapy says our frames are (`tests/vectors/stateful.py`).

use super::Site;
use crate::link::Target;
use crate::stateful::packet::{
    Datagram, Framing, Head, LineOf, Refused, Segment, Wire, arp, checksum_is_right, ndp,
};
use core::cell::Cell;
use core::net::{Ipv4Addr, Ipv6Addr};
use std::collections::BTreeMap;
use wire::MacAddr;

fn vectors() -> BTreeMap<&'static str, Vec<u8>> {
    let text = include_str!("../../../tests/vectors/stateful.txt");
    let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#')).map(|line| line.split_once(' ').unwrap());
    lines.map(|(name, hex)| (name, hex.as_bytes().chunks(2).map(byte).collect())).collect()
}

fn framing<P: Wire>() -> Framing {
    Framing::ethernet::<P::Address>(MacAddr([2, 0, 0, 0, 0, 2]), MacAddr([2, 0, 0, 0, 0, 1]), 9000)
}

/// The whole frame, padded as it is sent.
fn bytes<P: Wire>(packet: &P) -> Vec<u8> {
    let framing = framing::<P>();
    let frame = packet.frame(&framing);
    let len = framing.padded(frame.len) as usize;
    let bytes = vec![Cell::new(0); len];
    frame.line.write(&bytes[..], len);
    if frame.rest.1 > frame.rest.0 {
        (&bytes[..]).put(LineOf::<P>::LEN as u32, framing.payload().bytes(frame.rest.0, frame.rest.1));
    }
    bytes.into_iter().map(Cell::into_inner).collect()
}

fn read<P: Wire>(bytes: &[u8]) -> Result<P, Refused> {
    P::read(&Head::read(bytes).unwrap_or_else(|| Head::from_bytes(bytes)), bytes.len())
}

fn segment<A: Site>(flags: u8, len: u16) -> Segment<A> {
    Segment {
        src: A::CLIENT,
        dst: A::SERVER,
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

fn segments<A: Site>() -> Vec<(String, Segment<A>)> {
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

fn datagram<A: Site>(len: u16) -> Datagram<A> {
    Datagram {
        src: A::CLIENT,
        dst: A::SERVER,
        src_port: 40_000,
        dst_port: 53,
        len,
        flow: 0x00ab_cdef,
        life: 0xfeed_f00d,
        turn: 0x0102_0304,
    }
}

fn datagrams<A: Site>() -> Vec<(String, Datagram<A>)> {
    [16, 17, 21, 22, 23, 58, 1472].into_iter().map(|len| (format!("udp-{len}"), datagram(len))).collect()
}

/// `prefix` is in front of the names of IPv6's vectors.
fn all_are_scapys<A: Site>(prefix: &str) {
    let vectors = vectors();
    let mut seen = 0;
    for (name, segment) in segments::<A>() {
        let expected = &vectors[format!("{prefix}{name}").as_str()];
        assert_eq!(&bytes(&segment), expected, "{prefix}{name}");
        assert_eq!(read(expected), Ok(segment), "{prefix}{name}");
        assert_eq!(read::<Datagram<A>>(expected), Err(Refused::Other));
        assert!(checksum_is_right(expected), "{prefix}{name}");
        seen += 1;
    }
    for (name, datagram) in datagrams::<A>() {
        let expected = &vectors[format!("{prefix}{name}").as_str()];
        assert_eq!(&bytes(&datagram), expected, "{prefix}{name}");
        assert_eq!(read(expected), Ok(datagram), "{prefix}{name}");
        assert_eq!(read::<Segment<A>>(expected), Err(Refused::Other));
        assert!(checksum_is_right(expected), "{prefix}{name}");
        seen += 1;
    }
    assert_eq!(seen, 22);
}

#[test]
fn frames_are_scapys() {
    all_are_scapys::<u32>("");
    all_are_scapys::<u128>("6-");
}

#[test]
fn what_others_send_is_read() {
    let vectors = vectors();
    let four = |name: &str| read::<Segment>(&vectors[name]);
    // As the kernel sends it: MSS first, then SACK, timestamps and window scale, beyond the first line.
    assert_eq!(four("linux-syn"), Ok(Segment { ack: 0, mss: 1460, window: 64_240, ..segment(0x02, 0) }));
    assert_eq!(four("mss-second"), Ok(Segment { ack: 0, mss: 1400, ..segment(0x02, 0) }));
    // Not padded, and with an option in front of the payload.
    assert_eq!(four("unpadded-ack"), Ok(segment(0x10, 0)));
    assert_eq!(four("timestamps"), Ok(segment(0x18, 30)));
    // Padding is whatever it likes to be.
    assert_eq!(four("noisy-padding"), Ok(segment(0x10, 0)));
    for (name, refused) in [
        ("arp", Refused::Question),
        ("icmp", Refused::Other),
        ("ip-options", Refused::Other),
        ("fragment", Refused::Other),
        ("6-ack", Refused::Other),
        ("too-short", Refused::Malformed),
        ("bad-offset", Refused::Malformed),
    ] {
        assert_eq!(four(name), Err(refused), "{name}");
    }
    // Others' datagrams, one of them too short for the tag that its padding looks like.
    for name in ["udp-dns", "udp-short"] {
        assert_eq!(read::<Datagram>(&vectors[name]), Err(Refused::Foreign), "{name}");
    }
}

#[test]
fn what_others_send_over_ipv6_is_read() {
    let vectors = vectors();
    let six = |name: &str| read::<Segment<u128>>(&vectors[name]);
    assert_eq!(six("6-linux-syn"), Ok(Segment { ack: 0, mss: 1440, window: 64_800, ..segment(0x02, 0) }));
    assert_eq!(six("6-traffic-class"), Ok(segment(0x10, 0)));
    assert_eq!(six("6-timestamps"), Ok(segment(0x18, 30)));
    assert_eq!(six("6-noisy-padding"), Ok(segment(0x10, 0)));
    for (name, refused) in [
        ("ack", Refused::Other),
        ("arp", Refused::Other),
        ("6-solicitation", Refused::Question),
        ("6-echo", Refused::Other),
        ("6-hop-by-hop", Refused::Other),
        ("6-fragment", Refused::Other),
        ("6-too-short", Refused::Malformed),
        ("6-bad-offset", Refused::Malformed),
    ] {
        assert_eq!(six(name), Err(refused), "{name}");
    }
    let udp = |name: &str| read::<Datagram<u128>>(&vectors[name]);
    for name in ["6-udp-dns", "6-udp-short"] {
        assert_eq!(udp(name), Err(Refused::Foreign), "{name}");
    }
    let udp = udp("6-udp-without-checksum");
    assert_eq!(udp, Err(Refused::Checksum), "RFC 8200 section 8.1");
}

#[test]
fn every_changed_bit_is_seen() {
    fn seen<P: Wire>(name: &str, bytes: &[u8], from: usize, end: usize, harmless: &[usize]) {
        for bit in (from * 8..end * 8).filter(|bit| !harmless.contains(&(bit / 8))) {
            let mut changed = bytes.to_vec();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(read::<P>(&changed).is_err(), "{name}: bit {bit} changed");
        }
    }
    let vectors = vectors();
    for name in ["syn", "ack", "data-3", "data-10"] {
        let bytes = &vectors[name];
        seen::<Segment>(name, bytes, 16, 14 + usize::from(u16::from_be_bytes([bytes[16], bytes[17]])), &[]);
    }
    // Of IPv6's header, flow label and hop limit are under no checksum.
    let free = [15, 16, 17, 21];
    for name in ["6-syn", "6-ack", "6-data-3"] {
        let bytes = &vectors[name];
        let end = 54 + usize::from(u16::from_be_bytes([bytes[18], bytes[19]]));
        seen::<Segment<u128>>(name, bytes, 18, end, &free);
    }
    for name in ["6-udp-16", "6-udp-17"] {
        seen::<Datagram<u128>>(name, &vectors[name], 18, vectors[name].len().min(80), &free);
    }
}

#[test]
fn questions_are_answered_as_scapy_would() {
    let vectors = vectors();
    let mac = MacAddr([2, 0, 0, 0, 0, 2]);
    let ours = |address: Ipv4Addr| address == Ipv4Addr::new(10, 0, 0, 1);
    assert_eq!(arp::answer(&vectors["arp-to-us"], mac, ours).as_ref(), Some(&vectors["arp-answer"]));
    assert_eq!(arp::answer(&vectors["arp-to-us"], mac, |_| false), None);
    let ours = |address: Ipv6Addr| address == Ipv6Addr::from(u128::CLIENT);
    let answer = ndp::answer(&vectors["6-solicitation"], mac, ours);
    assert_eq!(answer.as_ref(), Some(&vectors["6-advertisement"]));
    assert_eq!(ndp::answer(&vectors["6-solicitation"], mac, |_| false), None);
    assert_eq!(ndp::answer(&vectors["6-duplicate-address"], mac, ours), None);
    let mut damaged = vectors["6-solicitation"].clone();
    damaged[70] ^= 1;
    assert_eq!(ndp::answer(&damaged, mac, ours), None, "its checksum is wrong");
}

#[test]
fn link_without_ethernet() {
    fn lengths<A: Site>() -> (u32, usize) {
        let framing = Framing::ip::<A>(9000);
        let segment = segment::<A>(0x10, 0);
        let frame = segment.frame(&framing);
        assert_eq!(frame.line.to_vec()[14..frame.len], bytes(&segment)[14..frame.len]);
        (framing.padded(frame.len), framing.skipped())
    }
    assert_eq!((lengths::<u32>(), lengths::<u128>()), ((40, 14), (60, 14)));
}
