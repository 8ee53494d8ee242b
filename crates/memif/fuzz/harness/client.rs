//! A server that says anything to a client.

use std::os::fd::OwnedFd;

use memif::control::{ClientMachine, ClientNext, ClientStep, Message, Unsealed};
use memif::region::{HugePages, RegionError};
use memif::ring::Event;
use memif::{ClientConfig, Connection, QueueConfig, RingSize};

use super::bytes::Bytes;

/// Any sequence of messages and descriptors: the client says one thing after another, as the protocol has it, asks for
/// no more than it was offered, and is connected only after it was told everything, and once its region is sealed.
pub fn client(data: &[u8]) {
    let mut bytes = Bytes(data);
    let queues = QueueConfig {
        rx_queues: 2,
        tx_queues: 3,
        ring_size: RingSize::from_log2(7).unwrap(),
        buffer_size: 64,
        huge_pages: HugePages::Never,
        ..QueueConfig::default()
    };
    let mut machine = ClientMachine::new(ClientConfig { queues, ..ClientConfig::default() });
    let mut said: Vec<Message> = Vec::new();
    let mut offered = None;
    while !bytes.is_empty() {
        if bytes.0[0] & 0xf0 == 0xf0 {
            let refused = machine.sealed(Ok(())).unwrap_err();
            assert_eq!(refused.kind(), "unexpected-message", "sealed out of turn");
            assert!(!machine.is_connected());
            return;
        }
        let (message, fds) = say(&mut bytes, &said);
        let had_fds = !fds.is_empty();
        match machine.begin(&message, fds) {
            Err(reason) => {
                assert!(!reason.text().as_str().is_empty() && !reason.kind().is_empty());
                return;
            }
            Ok(next) => {
                assert!(!had_fds, "descriptors were accepted");
                let kind = u16::from_le_bytes([message[0], message[1]]);
                let after_connect = matches!(said.last(), Some(Message::Connect { .. }));
                match kind {
                    2 => {
                        assert!(said.is_empty(), "HELLO twice");
                        let word = |at: usize| u16::from_le_bytes([message[at], message[at + 1]]);
                        // Regions @38, rings to the client @40, rings to the server @42, size @44.
                        offered = Some((word(40), word(42), message[44]));
                    }
                    1 => assert!(!said.is_empty() && !after_connect, "an ACK for nothing"),
                    7 => assert!(after_connect, "CONNECTED too early"),
                    other => panic!("message {other} was accepted"),
                }
                assert_eq!(matches!(next, ClientNext::Seal(_)), kind == 7);
                let step = match next {
                    ClientNext::Step(step) => step,
                    ClientNext::Seal(unsealed) => {
                        let Some(connection) = seal(&mut machine, unsealed, &mut bytes, &said) else {
                            return;
                        };
                        ClientStep { send: None, connection: Some(connection) }
                    }
                };
                if let Some((announced, fd)) = step.send {
                    assert_eq!(
                        fd.is_some(),
                        matches!(announced, Message::AddRegion(_) | Message::AddRing(_))
                    );
                    said.push(announced);
                }
                if let Some(connection) = step.connection {
                    complete(&said, offered.unwrap(), connection.rx.len(), connection.tx.len());
                }
            }
        }
    }
}

/// The server is done. Our region is sealed, or can't be; or the server says something before that is known, which is none of its business.
fn seal(
    machine: &mut ClientMachine,
    unsealed: Unsealed,
    bytes: &mut Bytes<'_>,
    said: &[Message],
) -> Option<Connection> {
    assert!(!machine.is_connected());
    match bytes.byte() % 4 {
        2 => {
            let refused = machine.sealed(Err(RegionError::Unsealable.into())).unwrap_err();
            assert_eq!(refused.kind(), "region-unsealed");
            None
        }
        3 => {
            let (message, fds) = say(bytes, said);
            assert!(
                machine.begin(&message, fds).is_err(),
                "a message was accepted while the region is sealed"
            );
            assert!(!machine.is_connected());
            None
        }
        _ => Some(machine.sealed(unsealed.seal()).unwrap()),
    }
}

/// Everything was said, in order, and no more than was offered.
fn complete(said: &[Message], (to_client, to_server, log2): (u16, u16, u8), rx: usize, tx: usize) {
    assert!(rx <= usize::from(to_client) + 1 && tx <= usize::from(to_server) + 1);
    assert_eq!(said.len(), 3 + rx + tx);
    assert!(matches!((&said[0], &said[1]), (Message::Init(_), Message::AddRegion(_))));
    for ring in &said[2..2 + rx + tx] {
        assert!(matches!(ring, Message::AddRing(ring) if ring.log2_ring_size <= log2.min(7)));
    }
}

fn say(bytes: &mut Bytes<'_>, said: &[Message]) -> (Vec<u8>, Vec<OwnedFd>) {
    let choice = bytes.byte();
    let mut message = vec![0; 128];
    let kind = match choice & 15 {
        0..=11 => match said.last() {
            None => 2,
            Some(Message::Connect { .. }) => 7,
            Some(_) => 1,
        },
        12 => 8,
        n @ 13..=14 => u16::from(n) - 12,
        _ => bytes.word(),
    };
    message[..2].copy_from_slice(&kind.to_le_bytes());
    if kind == 2 {
        for (at, usual) in [(34, 0x0200), (36, 0x0200), (38, 0), (40, 1), (42, 2)] {
            message[at..at + 2].copy_from_slice(&(bytes.one_of(&[usual]) as u16).to_le_bytes());
        }
        message[44] = bytes.one_of(&[14, 6, 7, 5, 255]) as u8;
    }
    if choice & 0x70 == 0x10 {
        let at = usize::from(bytes.byte() & 127);
        message[at] = bytes.byte();
    }
    if choice & 0xf0 == 0x20 {
        message.resize(usize::from(bytes.byte()), 0xff);
    }
    let fds = if choice & 0xf0 == 0x80 {
        vec![Event::new("test").unwrap().fd().try_clone_to_owned().unwrap()]
    } else {
        vec![]
    };
    (message, fds)
}
