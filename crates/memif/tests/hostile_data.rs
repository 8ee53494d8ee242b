//! A peer that writes anything into shared memory: a typed fault for the connection, and no byte read or
//! written outside of what it announced.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;
#[path = "common/raw.rs"]
mod raw;

use std::sync::Arc;

use common::{packet, receive, send};
use memif::control::{Interfaces, Limits, Message, ServerMachine};
use memif::region::{HugePages, Region, RegionTable, SealPolicy};
use memif::ring::{Descriptor, Event, FLAG_NEXT, RING_HEADER, RingView};
use memif::{Connection, Fault, QueueConfig, Reason, RingSize, ServerConfig, in_process};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

const HEAD: u32 = 6;
const TAIL: u32 = 64;
const SIZE: u16 = 64;

/// A pair with 64 slots of 2048 bytes; packets of at most 9216.
fn pair() -> (Connection, Connection) {
    let config = QueueConfig {
        ring_size: RingSize::MIN,
        huge_pages: HugePages::Never,
        max_packet: 9216,
        ..QueueConfig::default()
    };
    in_process(&config).unwrap()
}

/// A ring of the client's memory, to be written as a hostile peer would.
struct Ring {
    table: Arc<RegionTable>,
    at: u32,
}

impl Ring {
    /// From client to server.
    fn s2m(client: &Connection) -> Self {
        Self { table: Arc::clone(client.tx[0].regions()), at: 0 }
    }

    /// From server to client.
    fn m2s(client: &Connection) -> Self {
        Self { table: Arc::clone(client.tx[0].regions()), at: RingView::bytes(RingSize::MIN) }
    }

    fn set(&self, word: u32, value: u16) {
        self.table.check(0, self.at + word, 2).unwrap().write(&value.to_le_bytes());
    }

    fn slot(&self, slot: u32, d: Descriptor) {
        let range = self.table.check(0, self.at + RING_HEADER + slot * 16, 16).unwrap();
        range.write(&[d.first_word().to_le_bytes(), d.second_word().to_le_bytes()].concat());
    }
}

/// A descriptor of a buffer that is there.
fn good(length: u32) -> Descriptor {
    Descriptor { flags: 0, region: 0, length, offset: 4096 }
}

fn next(length: u32) -> Descriptor {
    Descriptor { flags: FLAG_NEXT, ..good(length) }
}

#[test]
fn hostile_indices() {
    // Server: the client's head may be anything from what was taken to a ring's size beyond.
    for head in [65_u16, 66, 1000, 32_768, 65_535] {
        let (client, mut server) = pair();
        Ring::s2m(&client).set(HEAD, head);
        assert!(matches!(receive(&mut server.rx[0]).unwrap_err(), Fault::Index(f) if f.index == head));
        let (client, mut server) = pair();
        Ring::m2s(&client).set(HEAD, head);
        assert!(matches!(send(&mut server.tx[0], &[packet(0, 60)]).unwrap_err(), Fault::Index(_)));
        assert!(matches!(server.tx[0].room().unwrap_err().fault, Fault::Index(_)));
    }
    // Client: the server's tail may not be beyond its own head, nor a ring's size behind it.
    for tail in [65_u16, 1000, 32_768, 65_471] {
        let (mut client, _server) = pair();
        Ring::m2s(&client).set(TAIL, tail);
        assert!(matches!(receive(&mut client.rx[0]).unwrap_err(), Fault::Index(_)));
        let (mut client, _server) = pair();
        Ring::s2m(&client).set(TAIL, tail);
        assert!(matches!(send(&mut client.tx[0], &[packet(0, 60)]).unwrap_err(), Fault::Index(_)));
    }
}

#[test]
fn hostile_index_that_goes_back() {
    let (mut client, mut server) = pair();
    let packets: Vec<_> = (0..10).map(|i| packet(i, 60)).collect();
    send(&mut client.tx[0], &packets).unwrap();
    receive(&mut server.rx[0]).unwrap();
    Ring::s2m(&client).set(HEAD, 9);
    assert!(matches!(receive(&mut server.rx[0]).unwrap_err(), Fault::Index(_)));
    assert!(matches!(server.rx[0].arm().unwrap_err().fault, Fault::Index(_)));
}

/// What the server makes of these slots.
fn received(slots: &[Descriptor]) -> Result<Vec<Vec<u8>>, Fault> {
    let (client, mut server) = pair();
    let ring = Ring::s2m(&client);
    for (i, d) in (0..).zip(slots) {
        ring.slot(i, *d);
    }
    ring.set(HEAD, slots.len() as u16);
    receive(&mut server.rx[0])
}

#[test]
fn hostile_descriptors_to_receive() {
    let end = pair().0.tx[0].regions().regions()[0].len() as u32;
    let range = |d: Descriptor| Fault::Range { region: d.region, offset: d.offset, length: d.length };
    let long = |length, max| Fault::TooLong { length, max };
    for bad in [
        Descriptor { region: 1, ..good(60) },
        Descriptor { region: u16::MAX, ..good(60) },
        Descriptor { offset: end, ..good(1) },
        Descriptor { offset: end - 59, ..good(60) },
        Descriptor { offset: u32::MAX, ..good(9216) },
    ] {
        assert_eq!(received(&[bad]).unwrap_err(), range(bad));
        // In the middle of a chain, and at its end: nothing of the rest is taken for a packet.
        let middle = Descriptor { flags: FLAG_NEXT, ..bad };
        if bad.length < 9000 {
            assert_eq!(received(&[next(60), middle, good(60)]).unwrap_err(), range(bad));
            assert_eq!(received(&[good(60), next(60), bad]).unwrap_err(), range(bad));
        }
    }
    assert_eq!(received(&[good(9217)]).unwrap_err(), long(9217, 9216));
    assert_eq!(received(&[good(u32::MAX)]).unwrap_err(), long(u32::MAX, 9216));
    assert_eq!(received(&[next(9000), good(217)]).unwrap_err(), long(9217, 9216));
    assert_eq!(received(&[next(9000), good(u32::MAX)]).unwrap_err(), long(u32::MAX, 9216));
    assert_eq!(received(&[good(0)]).unwrap_err(), Fault::Empty);
    assert_eq!(received(&[next(0), good(0)]).unwrap_err(), Fault::Empty);
    assert_eq!(received(&[next(0); 64]).unwrap_err(), Fault::EndlessChain);
    assert_eq!(received(&[next(64); 64]).unwrap_err(), Fault::EndlessChain);
    // Odd, but nothing wrong: the last byte of the region, unknown flags, empty parts, 65 535 in the unused
    // word.
    let last = Descriptor { offset: end - 60, ..good(60) };
    let odd = Descriptor { flags: 0xfffe, ..good(60) };
    let lengths: Vec<_> =
        received(&[last, odd, next(60), next(0), good(60)]).unwrap().iter().map(Vec::len).collect();
    assert_eq!(lengths, [60, 60, 120]);
}

#[test]
fn hostile_descriptor_behind_what_has_come() {
    let (client, mut server) = pair();
    let ring = Ring::s2m(&client);
    ring.slot(0, good(60));
    ring.slot(1, Descriptor { region: 9, ..good(60) });
    ring.set(HEAD, 2);
    let mut packets = common::Packets::default();
    assert!(matches!(
        server.rx[0].receive(256, &mut packets).unwrap_err().fault,
        Fault::Range { region: 9, .. }
    ));
    assert_eq!(packets.0.len(), 1);
}

#[test]
fn hostile_chain_in_pieces_is_read_once() {
    let (client, mut server) = pair();
    let ring = Ring::s2m(&client);
    for (slot, d) in (0..).zip([good(10), next(60), next(60), good(60), good(20)]) {
        ring.slot(slot, d);
    }
    ring.set(HEAD, 2);
    assert_eq!(receive(&mut server.rx[0]).unwrap().len(), 1);
    assert_eq!(receive(&mut server.rx[0]).unwrap().len(), 0);
    // Already read: too late to lie about it.
    ring.slot(1, Descriptor { region: 77, ..good(1) });
    ring.set(HEAD, 3);
    assert_eq!(receive(&mut server.rx[0]).unwrap().len(), 0);
    ring.set(HEAD, 5);
    let lengths: Vec<_> = receive(&mut server.rx[0]).unwrap().iter().map(Vec::len).collect();
    assert_eq!(lengths, [180, 20]);
}

#[test]
fn hostile_buffers_to_send_into() {
    let memory = |table: &RegionTable| {
        let region = table.check(0, 0, table.regions()[0].len() as u32).unwrap();
        let mut bytes = vec![0; region.len() as usize];
        region.read(&mut bytes);
        bytes
    };
    let end = pair().0.tx[0].regions().regions()[0].len() as u32;
    for bad in [
        Descriptor { region: 1, ..good(2048) },
        Descriptor { region: u16::MAX, ..good(2048) },
        Descriptor { offset: end, ..good(2048) },
        Descriptor { offset: end - 10, ..good(2048) },
        Descriptor { offset: u32::MAX, ..good(u32::MAX) },
    ] {
        let (client, mut server) = pair();
        let ring = Ring::m2s(&client);
        ring.slot(0, bad);
        let before = memory(&ring.table);
        let fault = send(&mut server.tx[0], &[packet(0, 60)]).unwrap_err();
        assert_eq!(fault, Fault::Range { region: bad.region, offset: bad.offset, length: 60 });
        assert!(memory(&ring.table) == before, "something was written");
        // The second buffer of a chain: checked before the first is written.
        ring.slot(0, good(2048));
        ring.slot(1, bad);
        let before = memory(&ring.table);
        let fault = send(&mut server.tx[0], &[packet(0, 3000)]).unwrap_err();
        assert!(matches!(fault, Fault::Range { .. }));
        assert!(memory(&ring.table) == before, "something was written");
    }
    let (client, mut server) = pair();
    Ring::m2s(&client).slot(0, good(0));
    assert_eq!(send(&mut server.tx[0], &[packet(0, 60)]).unwrap_err(), Fault::NoCapacity);
}

/// A client knows where its buffers are: what a server writes there counts for nothing but the length.
#[test]
fn hostile_server_cannot_move_a_clients_buffers() {
    let (mut client, mut server) = pair();
    let to_client = Ring::m2s(&client);
    send(&mut server.tx[0], &[packet(0, 60)]).unwrap();
    to_client.slot(0, Descriptor { flags: 0, region: 9, length: 60, offset: u32::MAX });
    assert_eq!(receive(&mut client.rx[0]).unwrap(), [packet(0, 60)]);
    let to_server = Ring::s2m(&client);
    for slot in 0..SIZE.into() {
        to_server.slot(slot, Descriptor { flags: 0xffff, region: 9, length: 7, offset: u32::MAX });
    }
    assert_eq!(send(&mut client.tx[0], &[packet(1, 60)]).unwrap(), 1);
    // Longer than the buffer it posted.
    for (length, fault) in [
        (2049, Fault::TooLong { length: 2049, max: 2048 }),
        (u32::MAX, Fault::TooLong { length: u32::MAX, max: 2048 }),
    ] {
        let (mut client, mut server) = pair();
        let to_client = Ring::m2s(&client);
        send(&mut server.tx[0], &[packet(0, 60), packet(1, 3000)]).unwrap();
        to_client.slot(2, Descriptor { length, ..good(0) });
        assert_eq!(receive(&mut client.rx[0]).unwrap_err(), fault);
        to_client.slot(0, Descriptor { length, ..good(0) });
    }
}

/// A server that accepts unsealed regions survives their being truncated.
#[test]
fn hostile_memory_that_goes_away() {
    struct Trusting(Arc<ServerConfig>);
    impl Interfaces for Trusting {
        fn config(&self, _: u32) -> Option<Arc<ServerConfig>> {
            Some(Arc::clone(&self.0))
        }

        fn claim(&mut self, _: u32) -> Result<(), Reason> {
            Ok(())
        }
    }
    let mut interfaces =
        Trusting(Arc::new(ServerConfig { seals: SealPolicy::Allow, ..ServerConfig::default() }));
    for send_first in [false, true] {
        let fd = memfd_create("unsealed", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&fd, raw::REGION).unwrap();
        let ours = Region::map(fd.try_clone().unwrap(), raw::REGION, SealPolicy::Allow).unwrap();
        let table = Arc::new(RegionTable::new(vec![Arc::new(ours)]).unwrap());
        for offset in [raw::TX_RING, raw::RX_RING] {
            RingView::new(Arc::clone(&table), 0, offset, RingSize::MIN).unwrap().initialise();
        }
        let (mut machine, _) = ServerMachine::new(Limits::of("trusting", [&*interfaces.0]));
        let mut connection = None;
        for message in raw::handshake() {
            let fds = match message {
                Message::AddRegion(_) => vec![fd.try_clone().unwrap()],
                Message::AddRing(_) => vec![Event::new("test").unwrap().fd().try_clone_to_owned().unwrap()],
                _ => vec![],
            };
            connection = machine.receive(&message.encode(), fds, &mut interfaces).unwrap().connection;
        }
        let mut connection = connection.unwrap();
        assert!(receive(&mut connection.rx[0]).unwrap().is_empty());
        ftruncate(&fd, 0).unwrap();
        let fault = if send_first {
            send(&mut connection.tx[0], &[packet(0, 60)]).unwrap_err()
        } else {
            receive(&mut connection.rx[0]).unwrap_err()
        };
        assert_eq!(fault, Fault::MemoryLost);
    }
}
