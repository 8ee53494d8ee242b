//! Capture files: ours as the specification says, others' as scapy wrote them, broken ones refused.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]
#![cfg(feature = "alloc")]

mod vectors;

use proptest::prelude::*;
use quiver_wire::LinkType;
use quiver_wire::capture::{CaptureError, Decoder, Direction, MAX_BLOCK_LEN, pcapng};
use vectors::{capture, packet};

/// An owned packet, for comparing.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    interface: u32,
    link: LinkType,
    timestamp_ns: u64,
    original_len: u32,
    data: Vec<u8>,
    direction: Option<Direction>,
    comment: String,
}

/// All packets of a file that comes in pieces of `size`, and how it ends.
fn read(file: &[u8], size: usize) -> (Vec<Seen>, Result<(), CaptureError>) {
    let mut decoder = Decoder::new();
    let mut seen = vec![];
    for piece in file.chunks(size) {
        decoder.feed(piece);
        loop {
            match decoder.next_packet() {
                Ok(Some(packet)) => seen.push(Seen {
                    interface: packet.interface,
                    link: packet.link,
                    timestamp_ns: packet.timestamp_ns,
                    original_len: packet.original_len,
                    data: packet.data.to_vec(),
                    direction: packet.direction,
                    comment: packet.comment.into(),
                }),
                Ok(None) => break,
                Err(error) => {
                    assert_eq!(decoder.next_packet(), Err(error), "an error stays");
                    return (seen, Err(error));
                }
            }
        }
    }
    let end = decoder.finish();
    (seen, end)
}

/// The packets of `pcapng_by_hand`.
fn by_hand() -> Vec<Seen> {
    let seen = |interface, link, timestamp_ns, original_len, data: &[u8]| Seen {
        interface,
        link,
        timestamp_ns,
        original_len,
        data: data.to_vec(),
        direction: None,
        comment: String::new(),
    };
    let bytes: Vec<u8> = (0..61).collect();
    vec![
        Seen {
            direction: Some(Direction::Inbound),
            comment: "dropped: ip4-bad-checksum".into(),
            ..seen(0, LinkType::ETHERNET, 1_700_000_000_123_456_789, 1518, &bytes)
        },
        Seen {
            direction: Some(Direction::Outbound),
            ..seen(1, LinkType::RAW, 1_700_000_001_000_000_000, 20, &bytes[..20])
        },
        seen(0, LinkType::ETHERNET, 1_700_000_002_000_000_001, 3, b"abc"),
    ]
}

#[test]
fn we_write_what_the_specification_says() {
    let mut file = vec![];
    pcapng::section_header(&mut file, "quiver");
    pcapng::interface(&mut file, LinkType::ETHERNET, "memif0", 0);
    pcapng::interface(&mut file, LinkType::RAW, "tun", 128);
    for seen in by_hand() {
        // in pieces of odd length, as head and body are
        let (head, body) = seen.data.split_at(seen.data.len() / 3);
        let pieces = [head, &[], body];
        let packet = pcapng::Packet {
            interface: seen.interface,
            timestamp_ns: seen.timestamp_ns,
            original_len: seen.original_len,
            pieces: &pieces,
            direction: seen.direction,
            comment: &seen.comment,
        };
        pcapng::packet(&mut file, &packet);
    }
    assert_eq!(file, capture("pcapng-expected"));
}

#[test]
fn pcapng_is_read_in_both_byte_orders_and_any_pieces() {
    for name in ["pcapng-expected", "pcapng-big"] {
        for size in [1, 3, 64, 4096] {
            assert_eq!(read(&capture(name), size), (by_hand(), Ok(())), "{name} in pieces of {size}");
        }
    }
    let two_sections = [capture("pcapng-big"), capture("pcapng-expected")].concat();
    assert_eq!(read(&two_sections, 4096), ([by_hand(), by_hand()].concat(), Ok(())));
}

#[test]
fn scapys_files_are_read() {
    let first = packet("ip4-udp");
    let files = ["pcap-little-micro", "pcap-big-micro", "pcap-little-nano", "pcap-big-nano", "pcapng-scapy"];
    for name in files {
        let (seen, end) = read(&capture(name), 10);
        assert_eq!(end, Ok(()), "{name}");
        let [one, two] = &seen[..] else { panic!("{name}: {seen:?}") };
        assert_eq!((&one.data, one.link, one.original_len), (&first, LinkType::ETHERNET, 60), "{name}");
        assert_eq!((two.data.len(), two.original_len), (75, 75), "{name}");
        assert_eq!(one.timestamp_ns, 1_700_000_000_250_000_000, "{name}");
        assert_eq!(two.timestamp_ns, 1_700_000_001_250_000_000, "{name}");
        let comment = if name == "pcapng-scapy" { "a comment\n" } else { "" };
        assert_eq!(one.comment, comment, "{name}");
    }
}

/// A block of our byte order.
fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let len = (12 + body.len() as u32).to_le_bytes();
    [&kind.to_le_bytes()[..], &len, body, &len].concat()
}

/// A section with one interface whose description ends with these options.
fn section(options: &[u8]) -> Vec<u8> {
    let mut file = vec![];
    pcapng::section_header(&mut file, "test");
    file.extend(block(1, &[&[1, 0, 0, 0, 64, 0, 0, 0], options].concat()));
    file
}

#[test]
fn other_blocks() {
    // a simple packet is cut at the interface's 64 bytes; unknown blocks are passed over, however long
    let mut file = section(&[]);
    file.extend(block(3, &[&[100, 0, 0, 0][..], &[7; 64]].concat()));
    file.extend(block(0x0bad, &vec![0; MAX_BLOCK_LEN as usize + 4]));
    file.extend(block(3, &[&[3, 0, 0, 0][..], &[1, 2, 3, 0]].concat()));
    // the obsolete packet block: interface and drops in 16 bits each
    let head = [0, 0, 9, 9, 0, 0, 0, 0, 64, 66, 15, 0, 2, 0, 0, 0, 2, 0, 0, 0];
    file.extend(block(2, &[&head[..], &[8, 9, 0, 0]].concat()));
    let (seen, end) = read(&file, 1000);
    assert_eq!(end, Ok(()));
    let found: Vec<_> =
        seen.iter().map(|seen| (seen.timestamp_ns, seen.original_len, &seen.data[..])).collect();
    assert_eq!(found, [(0, 100, &[7; 64][..]), (0, 3, &[1, 2, 3]), (1_000_000_000, 2, &[8, 9])]);
}

#[test]
fn timestamp_units() {
    let packet = |high: u32, low: u32| {
        let numbers = [0, high, low, 0, 0].map(u32::to_le_bytes).concat();
        block(6, &numbers)
    };
    let time = |options: &[u8], high, low| {
        let (seen, end) = read(&[section(options), packet(high, low)].concat(), 4096);
        end.map(|()| seen[0].timestamp_ns)
    };
    assert_eq!(time(&[], 0, 1_500_000), Ok(1_500_000_000), "microseconds unless said");
    assert_eq!(time(&[9, 0, 1, 0, 3, 0, 0, 0], 0, 1_500), Ok(1_500_000_000), "milliseconds");
    assert_eq!(time(&[9, 0, 1, 0, 0x80 | 32, 0, 0, 0], 1, 1 << 31), Ok(1_500_000_000), "2^-32 seconds");
    assert_eq!(time(&[9, 0, 1, 0, 39, 0, 0, 0], 0, 1), Err(CaptureError::BadResolution { resolution: 39 }));
    let offset = [&[14, 0, 8, 0][..], &2i64.to_le_bytes()].concat();
    assert_eq!(time(&offset, 0, 1_500_000), Ok(3_500_000_000));
    let offset = [&[14, 0, 8, 0][..], &i64::MIN.to_le_bytes()].concat();
    assert_eq!(time(&offset, 0, 1_500_000), Ok(0), "before 1970");
    let offset = [&[14, 0, 8, 0][..], &i64::MAX.to_le_bytes(), &[9, 0, 1, 0, 0, 0, 0, 0]].concat();
    assert_eq!(time(&offset, u32::MAX, u32::MAX), Ok(u64::MAX), "beyond what fits");
}

#[test]
fn a_comment_too_long_is_cut_between_characters() {
    let comment = "ä".repeat(40_000);
    let mut file = section(&[]);
    let packet = pcapng::Packet {
        interface: 0,
        timestamp_ns: 0,
        original_len: 0,
        pieces: &[],
        direction: None,
        comment: &comment,
    };
    pcapng::packet(&mut file, &packet);
    let (seen, end) = read(&file, 4096);
    assert_eq!((end, seen[0].comment.len()), (Ok(()), 65534));
}

#[test]
fn every_error_occurs() {
    let error = |file: &[u8]| read(file, 4096).1.unwrap_err();
    assert_eq!(error(b"GIF89a"), CaptureError::UnknownFormat { magic: *b"GIF8" });
    assert_eq!(error(b""), CaptureError::CutOff { have: 0 });

    let mut file = capture("pcapng-expected");
    file[8] = 0;
    assert_eq!(error(&file), CaptureError::UnknownFormat { magic: [0, 0x3c, 0x2b, 0x1a] });
    let mut file = capture("pcapng-expected");
    file[12] = 2;
    assert_eq!(error(&file), CaptureError::UnknownVersion { major: 2 });
    let mut file = capture("pcap-little-micro");
    file[4] = 3;
    assert_eq!(error(&file), CaptureError::UnknownVersion { major: 3 });
    let mut file = capture("pcap-little-micro");
    file[35] = 1;
    assert_eq!(error(&file), CaptureError::BadLength { len: 60 + (1 << 24) });

    for (len, body) in [(8, 4), (14, 4), (MAX_BLOCK_LEN + 4, 8), (28, 16)] {
        let mut file = section(&[]);
        file.extend([6, len].map(u32::to_le_bytes).concat());
        file.extend(vec![0; body]);
        assert_eq!(error(&file), CaptureError::BadLength { len }, "{len}");
    }
    // captured length beyond the block
    let mut file = section(&[]);
    file.extend(block(6, &[0, 0, 0, 5, 5].map(u32::to_le_bytes).concat()));
    assert_eq!(error(&file), CaptureError::BadLength { len: 5 });

    let mut file = section(&[]);
    let at = file.len() - 4;
    file[at] = 0x18;
    assert_eq!(error(&file), CaptureError::LengthMismatch { start: 20, end: 24 });

    let mut file = section(&[]);
    file.extend(block(6, &[1, 0, 0, 0, 0].map(u32::to_le_bytes).concat()));
    assert_eq!(error(&file), CaptureError::UnknownInterface { interface: 1 });

    let mut file = section(&[]);
    file.extend(block(1, &[1, 0, 0, 0, 0, 0, 0, 0]).repeat(4096));
    assert_eq!(error(&file), CaptureError::TooManyInterfaces);
}

#[test]
fn a_file_cut_anywhere_gives_what_is_whole() {
    for name in ["pcapng-expected", "pcapng-big", "pcap-little-micro", "pcap-big-nano"] {
        let file = capture(name);
        let (whole, _) = read(&file, 4096);
        let mut ends = 0;
        for len in 0..file.len() {
            let (seen, end) = read(&file[..len], 4096);
            assert!(whole.starts_with(&seen), "{name} cut at {len}");
            match end {
                Ok(()) => ends += 1,
                Err(error) => {
                    assert!(matches!(error, CaptureError::CutOff { .. }), "{name} cut at {len}: {error}")
                }
            }
        }
        let blocks = if name.starts_with("pcapng") { 5 } else { 2 };
        assert_eq!(ends, blocks, "{name}: only between two blocks may it end");
    }
}

proptest! {
    #[test]
    fn nothing_in_a_file_does_harm(
        name in prop::sample::select(vec!["pcapng-expected", "pcapng-big", "pcap-big-nano"]),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        size in 1usize..200,
    ) {
        let mut file = capture(name);
        for (index, value) in changes {
            let at = index.index(file.len());
            file[at] = value;
        }
        let pieces = read(&file, size);
        prop_assert_eq!(&pieces, &read(&file, file.len()), "pieces make no difference");
        for seen in pieces.0 {
            prop_assert!(seen.data.len() <= file.len());
        }
    }

    #[test]
    fn noise_does_no_harm(magic in prop::sample::select(vec![0x0a0d_0d0au32, 0xa1b2_c3d4, 0x4d3c_b2a1]),
                          noise in prop::collection::vec(any::<u8>(), 0..300)) {
        let file = [&magic.to_be_bytes()[..], &noise].concat();
        let (seen, _) = read(&file, 50);
        prop_assert!(seen.len() <= noise.len() / 12);
    }
}
