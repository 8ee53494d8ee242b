//! Agrees with the table of byte vectors that all implementations share: `tests/conformance/memif/memif-2.0.txt`.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;
#[path = "common/raw.rs"]
mod raw;
#[path = "common/table.rs"]
mod table;

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use common::{PATIENCE, drive, packet, receive, send, server_connection};
use memif::control::{MESSAGE_SIZE, Message};
use memif::ring::{COOKIE, Descriptor, FLAG_NEXT, RING_ALIGNMENT, RING_HEADER, RingSize};
use memif::{
    Address, Connection, Listener, ListenerSettings, Reason, Secret, ServerConfig, in_process, region,
};
use raw::{RX_RING, Raw, TX_RING};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use table::{Entry, Table, number, phrase};

#[test]
fn constants() {
    let table = Table::read();
    for (name, here) in [
        ("message-size", MESSAGE_SIZE as u64),
        ("cookie", COOKIE.into()),
        ("ring-descriptors-at", RING_HEADER.into()),
        ("ring-alignment", RING_ALIGNMENT.into()),
        ("descriptor-flag-next", FLAG_NEXT.into()),
        ("log2-ring-size-max", RingSize::MAX.log2().into()),
    ] {
        assert_eq!(table.constants[name], here, "{name}");
    }
}

#[test]
fn messages_are_read_and_written() {
    for vector in Table::read().messages {
        let message = Message::decode(&vector.bytes).unwrap();
        assert_eq!(message.name(), vector.kind, "{}", vector.name);
        assert_eq!(message.encode()[..], vector.bytes, "{}", vector.name);
        let f = |field: &str| vector.fields.get(field).map_or(0, |value| number(value));
        let t = |field: &str| vector.fields.get(field).map_or("", String::as_str);
        match message {
            Message::Ack => {}
            Message::Hello(m) => {
                assert_eq!(m.name.as_str(), t("name"));
                let read = [m.min_version, m.max_version, m.max_region, m.max_m2s_ring, m.max_s2m_ring];
                let names = ["min_version", "max_version", "max_region", "max_m2s_ring", "max_s2m_ring"];
                assert_eq!(read.map(u64::from), names.map(f));
                assert_eq!(u64::from(m.max_log2_ring_size), f("max_log2_ring_size"));
            }
            Message::Init(m) => {
                assert_eq!(
                    (u64::from(m.version), u64::from(m.id), u64::from(m.mode)),
                    (f("version"), f("id"), f("mode"))
                );
                assert_eq!(m.name.as_str(), t("name"));
                match (m.secret, t("secret")) {
                    (None, "") => {}
                    (Some(read), given) => assert!(read.matches(&Secret::new(given).unwrap())),
                    (None, given) => panic!("{}: {given}", vector.name),
                }
            }
            Message::AddRegion(m) => {
                assert_eq!((u64::from(m.index), m.size), (f("index"), f("size")));
            }
            Message::AddRing(m) => {
                let read = [m.flags, m.index, m.region, m.private_hdr_size];
                assert_eq!(read.map(u64::from), ["flags", "index", "region", "private_hdr_size"].map(f));
                assert_eq!(
                    (u64::from(m.offset), u64::from(m.log2_ring_size)),
                    (f("offset"), f("log2_ring_size"))
                );
            }
            Message::Connect { interface } | Message::Connected { interface } => {
                assert_eq!(interface.as_str(), t("name"));
            }
            Message::Disconnect { code, reason } => {
                assert_eq!((u64::from(code), reason.as_str()), (f("code"), t("reason")));
            }
        }
    }
}

#[test]
fn hostile_message_without_meaning() {
    for vector in Table::read().rejects {
        let error = Message::decode(&vector.bytes).unwrap_err().to_string();
        assert!(error.contains(&vector.kind), "{}: {error}", vector.name);
    }
}

#[test]
fn hostile_or_good_rings_lie_where_the_table_says() {
    let table = Table::read();
    for words in &table.descriptors {
        let n = |i: usize| number(&words[i]);
        let d =
            Descriptor { flags: n(0) as u16, region: n(1) as u16, length: n(2) as u32, offset: n(3) as u32 };
        let written = [d.first_word().to_le_bytes(), d.second_word().to_le_bytes()].concat();
        assert_eq!(written, table::hex(&words[4]), "{words:?}");
    }
    let config = memif::QueueConfig { ring_size: RingSize::MIN, ..Default::default() };
    let (mut client, mut server) = in_process(&config).unwrap();
    // Three packets to the server, two of them taken: head of the first ring 3, tail 2.
    send(&mut client.tx[0], &[packet(0, 60), packet(1, 60), packet(2, 60)]).unwrap();
    let mut sink = common::Packets::default();
    server.rx[0].receive(2, &mut sink).unwrap();
    server.rx[0].release();
    let word = |at: &str| {
        let mut bytes = [0; 2];
        client.tx[0].regions().check(0, table.constants[at] as u32, 2).unwrap().read(&mut bytes);
        u16::from_le_bytes(bytes)
    };
    assert_eq!((word("ring-head-at"), word("ring-tail-at"), word("ring-flags-at")), (3, 2, 1));
}

fn server() -> (String, Listener) {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let name =
        format!("quiver/conformance-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
    let mut listener =
        Listener::bind(&Address::abstract_name(name.as_str()), ListenerSettings::default()).unwrap();
    listener.register(0, ServerConfig::default()).unwrap();
    let secret = Some(Secret::new("quiver").unwrap());
    listener.register(1, ServerConfig { secret, ..ServerConfig::default() }).unwrap();
    (name, listener)
}

/// Drives the server until it has said something to the raw client.
fn hear(listener: &mut Listener, raw: &Raw) -> Vec<Message> {
    let started = Instant::now();
    loop {
        listener.process(Instant::now()).unwrap();
        let heard = raw.hear();
        if !heard.is_empty() {
            return heard;
        }
        assert!(started.elapsed() < PATIENCE, "the server says nothing");
    }
}

fn check(heard: &[Message], expected: &[String], name: &str) {
    let [message] = heard else { panic!("{name}: {heard:?}") };
    match (expected[0].as_str(), message) {
        ("ack", Message::Ack) | ("connected", Message::Connected { .. }) => {}
        ("refused", Message::Disconnect { reason, .. }) => {
            assert!(reason.as_str().contains(&phrase(&expected[1])), "{name}: {reason}");
        }
        _ => panic!("{name}: expected {expected:?}, heard {message:?}"),
    }
}

#[test]
fn hostile_or_good_handshakes() {
    let table = Table::read();
    for Entry { words, lines } in &table.handshakes {
        let (name, mut listener) = server();
        let raw = Raw::connect(&name);
        assert!(matches!(hear(&mut listener, &raw)[..], [Message::Hello(_)]));
        for line in lines {
            if line[0] == "hear" {
                check(&hear(&mut listener, &raw), &line[1..], &words[0]);
                continue;
            }
            let owned: Vec<OwnedFd> = line[2..].iter().map(|name| descriptor(&raw, name)).collect();
            let fds: Vec<_> = owned.iter().map(AsFd::as_fd).collect();
            raw.send(&table.message(&line[1]), &fds);
        }
    }
}

fn descriptor(raw: &Raw, name: &str) -> OwnedFd {
    match name {
        "memory" => raw.region.fd().try_clone_to_owned().unwrap(),
        "eventfd" => raw.event.fd().try_clone_to_owned().unwrap(),
        "pipe" => rustix::pipe::pipe().unwrap().0,
        "unsealed" => {
            let fd = memfd_create("unsealed", MemfdFlags::CLOEXEC).unwrap();
            ftruncate(&fd, raw::REGION).unwrap();
            fd
        }
        other => panic!("no descriptor {other}"),
    }
}

/// A server's connection with a raw client, whose rings are those of the usual handshake, or the one that is named.
fn connected(listener: &mut Listener, raw: &Raw, large: Option<&str>) -> Connection {
    hear(listener, raw);
    match large {
        None => raw::handshake().iter().for_each(|message| raw.say(message)),
        Some(ring) => {
            let ring = Message::decode(&Table::read().message(ring)).unwrap();
            let all = [raw::init(), raw::region(), ring, raw::connect_message()];
            all.iter().for_each(|message| raw.say(message));
        }
    }
    let (served, _) = drive(Some(listener), &mut [], |served, _| !served.is_empty());
    raw.hear();
    served.into_iter().find_map(server_connection).unwrap()
}

/// Writes slots and head of an entry; gives what it expects.
fn write(raw: &Raw, ring: u32, lines: &[Vec<String>]) -> Vec<String> {
    let put = |at: u32, bytes: &[u8]| {
        assert_eq!(raw.table.check(0, ring + at, bytes.len() as u32).unwrap().write(bytes), bytes.len());
    };
    let mut expected = Vec::new();
    for line in lines {
        let n = |i: usize| number(&line[i]);
        match line[0].as_str() {
            "slot" => {
                let words = [n(2) | n(3) << 16 | n(4) << 32, n(5)];
                put(RING_HEADER + n(1) as u32 * 16, &words.map(u64::to_le_bytes).concat());
            }
            "slots" => {
                let words = [n(2) | n(3) << 16 | n(4) << 32, n(5)].map(u64::to_le_bytes).concat();
                (0..n(1) as u32).for_each(|slot| put(RING_HEADER + slot * 16, &words));
            }
            "head" => put(6, &(n(1) as u16).to_le_bytes()),
            _ => expected.clone_from(line),
        }
    }
    expected
}

fn check_fault(listener: &mut Listener, raw: &Raw, fault: memif::Fault, expected: &[String], name: &str) {
    let reason = Reason::from(fault);
    assert!(reason.to_string().contains(&phrase(&expected[1])), "{name}: {reason}");
    listener.disconnect(0, &reason);
    check(&raw.hear(), &["refused".into(), expected[1].clone()], name);
}

#[test]
fn hostile_or_good_receptions() {
    for entry in &Table::read().receives {
        let Entry { words, lines } = entry;
        let (name, mut listener) = server();
        let raw = Raw::connect(&name);
        let large = entry.is_large().then_some("large-to-server");
        let mut connection = connected(&mut listener, &raw, large);
        let expected = write(&raw, TX_RING, lines);
        match receive(&mut connection.rx[0]) {
            Ok(packets) => {
                let lengths: Vec<_> = packets.iter().map(|packet| packet.len() as u64).collect();
                let wanted: Vec<_> = expected[1..].iter().map(|word| number(word)).collect();
                assert_eq!((expected[0].as_str(), lengths), ("packets", wanted), "{words:?}");
            }
            Err(fault) => check_fault(&mut listener, &raw, fault, &expected, &words[0]),
        }
    }
}

#[test]
fn hostile_or_good_transmissions() {
    for entry in &Table::read().transmits {
        let Entry { words, lines } = entry;
        let (name, mut listener) = server();
        let raw = Raw::connect(&name);
        let large = entry.is_large().then_some("large-from-server");
        let mut connection = connected(&mut listener, &raw, large);
        let expected = write(&raw, RX_RING, lines);
        let packet = packet(1, number(&words[1]) as usize);
        let buffers: region::CheckedRange<'_> = raw.table.check(0, 16_384, 49_152).unwrap();
        let memory = || {
            let mut bytes = vec![0; 49_152];
            buffers.read(&mut bytes);
            bytes
        };
        match send(&mut connection.tx[0], std::slice::from_ref(&packet)) {
            Ok(sent) => {
                assert_eq!((expected[0].as_str(), sent), ("sent", 1), "{words:?}");
                for (word, part) in expected[1..].iter().zip(packet.chunks(2048)) {
                    let at = number(word) as usize - 16_384;
                    assert_eq!(&memory()[at..at + part.len()], part, "{words:?}");
                }
            }
            Err(fault) => {
                assert!(memory().iter().all(|byte| *byte == 0), "{words:?}: something was written");
                check_fault(&mut listener, &raw, fault, &expected, &words[0]);
            }
        }
    }
}
