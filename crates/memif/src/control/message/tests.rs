//! Byte vectors by the table of the protocol: written out by hand, not by our own encoder.

use super::*;

/// A message from pieces (offset, bytes); zero elsewhere.
fn bytes(pieces: &[(usize, &[u8])]) -> Bytes {
    let mut b = [0; MESSAGE_SIZE];
    for (at, piece) in pieces {
        b[*at..at + piece.len()].copy_from_slice(piece);
    }
    b
}

fn check(message: &Message, expected: &Bytes) {
    assert_eq!(&message.encode(), expected, "{message:?}");
    let decoded = Message::decode(expected).unwrap();
    assert_eq!(format!("{decoded:?}"), format!("{message:?}"));
    assert_eq!(&decoded.encode(), expected);
}

#[test]
fn ack() {
    check(&Message::Ack, &bytes(&[(0, &[1, 0])]));
}

#[test]
fn hello() {
    let hello = Hello {
        name: "VPP 26.06".into(),
        min_version: VERSION,
        max_version: VERSION,
        max_region: 255,
        max_m2s_ring: 0x0102,
        max_s2m_ring: 0x0304,
        max_log2_ring_size: 14,
    };
    let expected = bytes(&[(0, &[2, 0]), (2, b"VPP 26.06"), (34, &[0, 2, 0, 2, 255, 0, 2, 1, 4, 3, 14])]);
    check(&Message::Hello(hello), &expected);
}

#[test]
fn init() {
    let init = Init {
        version: VERSION,
        id: 0x0403_0201,
        mode: 1,
        secret: Some(Secret::new("psst").unwrap()),
        name: "app".into(),
    };
    let expected = bytes(&[(0, &[3, 0, 0, 2, 1, 2, 3, 4, 1]), (9, b"psst"), (33, b"app")]);
    check(&Message::Init(init), &expected);
}

#[test]
fn add_region() {
    let region = AddRegion { index: 0x0201, size: 0x0807_0605_0403_0201 };
    check(&Message::AddRegion(region), &bytes(&[(0, &[4, 0, 1, 2, 1, 2, 3, 4, 5, 6, 7, 8])]));
}

#[test]
fn add_ring() {
    let ring = AddRing {
        flags: RING_S2M,
        index: 0x0302,
        region: 0x0504,
        offset: 0x0908_0706,
        log2_ring_size: 10,
        private_hdr_size: 0x0c0b,
    };
    check(&Message::AddRing(ring), &bytes(&[(0, &[5, 0, 1, 0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12])]));
}

#[test]
fn connect_and_connected() {
    let interface = Text::from("memif0/0");
    check(&Message::Connect { interface: interface.clone() }, &bytes(&[(0, &[6, 0]), (2, b"memif0/0")]));
    check(&Message::Connected { interface }, &bytes(&[(0, &[7, 0]), (2, b"memif0/0")]));
}

#[test]
fn disconnect() {
    let message = Message::Disconnect { code: 0x0403_0201, reason: "interface deleted".into() };
    check(&message, &bytes(&[(0, &[8, 0, 1, 2, 3, 4]), (6, b"interface deleted")]));
}

#[test]
fn fields_of_full_width() {
    let long = "x".repeat(200);
    let b = Message::Disconnect { code: 0, reason: Text::new(&long) }.encode();
    assert_eq!((b[6], b[100], b[101]), (b'x', b'x', 0));
    let b = Message::Connect { interface: Text::new(&long) }.encode();
    assert_eq!((b[32], b[33]), (b'x', 0));
}

#[test]
fn what_is_no_message_is_refused() {
    for size in [0, 1, 2, 127, 129, 256] {
        assert_eq!(Message::decode(&vec![1; size]).unwrap_err(), Reason::MessageSize(size));
    }
    for number in [0_u16, 9, 0x0100, u16::MAX] {
        let error = Message::decode(&bytes(&[(0, &number.to_le_bytes())])).unwrap_err();
        assert_eq!(error, Reason::UnknownMessage(number));
    }
}
