//! A client by hand.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::net::connect;

use crate::arena::Arena;
use crate::wire::{
    ADD_REGION, CONNECT, CONNECTED, COOKIE, HEAD, INIT, Memory, Ring, SLOTS, Slot, TAIL, address, kind,
    last_words, message, put, receive, send, socket, text, word,
};

/// Where its ring to the server is, and the one from it.
pub const TX: u64 = 0;
pub const RX: u64 = 8192;
/// Where its buffers begin: 64 of 2048 bytes for each ring.
pub const BUFFERS: u64 = 16_384;
/// Bytes of its memory.
pub const MEMORY: u64 = BUFFERS + 2 * 64 * 2048;
/// Its rings, as announced.
pub const TX_RING: Ring = Ring { flags: 1, index: 0, region: 0, offset: TX as u32, log2: 6, private: 0 };
pub const RX_RING: Ring = Ring { flags: 0, offset: RX as u32, ..TX_RING };

/// A connected socket, memory with one valid ring each way, and an eventfd.
pub struct Peer {
    pub socket: OwnedFd,
    pub memory: Memory,
    /// By which it wakes the server.
    pub event: OwnedFd,
    /// By which the server wakes it.
    pub wake: OwnedFd,
}

/// A memfd of this size with these seals.
pub fn memfd(size: u64, seals: SealFlags) -> OwnedFd {
    let fd = memfd_create("hostile", MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&fd, size).unwrap();
    fcntl_add_seals(&fd, seals).unwrap();
    fd
}

/// INIT.
pub fn init(version: u16, id: u32, mode: u8, secret: &str) -> Vec<u8> {
    let (secret, name) = (text::<24>(secret), text::<32>("\u{1b}[31mraw"));
    message(INIT, &[&version.to_le_bytes(), &id.to_le_bytes(), &[mode], &secret, &name])
}

impl Peer {
    pub fn connect(name: &str) -> Self {
        Self::with_memory(name, memfd(MEMORY, SealFlags::SHRINK))
    }

    /// With memory of its own choice, at least [`MEMORY`] bytes of it.
    pub fn with_memory(name: &str, memory: OwnedFd) -> Self {
        let (socket, memory) = (socket(), Memory::new(memory, MEMORY));
        connect(&socket, &address(name)).unwrap();
        for ring in [TX, RX] {
            put(&memory, ring, &COOKIE.to_le_bytes());
        }
        let event = || eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).unwrap();
        let peer = Self { socket, memory, event: event(), wake: event() };
        for slot in 0..64 {
            peer.describe(TX, slot, peer.good(TX, slot, 100));
            peer.describe(RX, slot, peer.good(RX, slot, 2048));
        }
        peer.set(RX, HEAD, 64);
        peer
    }

    /// A descriptor of the slot's own buffer.
    pub fn good(&self, ring: u64, slot: u64, length: u32) -> Slot {
        let buffer = BUFFERS + (ring / RX * 64 + slot % 64) * 2048;
        Slot { flags: 0, region: 0, length, offset: buffer as u32 }
    }

    pub fn describe(&self, ring: u64, slot: u64, descriptor: Slot) {
        put(&self.memory, ring + SLOTS + slot % 64 * 16, &descriptor.bytes());
    }

    pub fn set(&self, ring: u64, at: u64, value: u16) {
        put(&self.memory, ring + at, &value.to_le_bytes());
    }

    pub fn tail(&self, ring: u64) -> u16 {
        word(&self.memory, ring + TAIL)
    }

    pub fn send(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) {
        send(&self.socket, bytes, fds);
    }

    pub fn init(&self) {
        self.init_with(0x0200, 0, 0, "");
    }

    pub fn init_with(&self, version: u16, id: u32, mode: u8, secret: &str) {
        self.send(&init(version, id, mode, secret), &[]);
    }

    pub fn region(&self) {
        self.region_with(0, MEMORY, &[self.memory.as_fd()]);
    }

    pub fn region_with(&self, index: u16, size: u64, fds: &[BorrowedFd<'_>]) {
        self.send(&message(ADD_REGION, &[&index.to_le_bytes(), &size.to_le_bytes()]), fds);
    }

    pub fn ring(&self, ring: Ring) {
        let event = if ring.flags & 1 == 1 { &self.event } else { &self.wake };
        self.send(&ring.message(), &[event.as_fd()]);
    }

    pub fn say_connect(&self) {
        self.send(&message(CONNECT, &[&text::<32>("raw0")]), &[]);
    }

    /// INIT and ADD_REGION, as they should be.
    pub fn begin(&self) {
        self.init();
        self.region();
    }

    /// All that there is to a connection, as it should be.
    pub fn handshake(&self) {
        self.begin();
        self.ring(TX_RING);
        self.ring(RX_RING);
        self.say_connect();
        loop {
            let (heard, _) = receive(&self.socket).expect("the handshake is as it should be");
            if kind(&heard) == CONNECTED {
                return;
            }
        }
    }

    /// Fills slots of the ring to the server and tells of them.
    pub fn publish(&self, slots: &[Slot]) {
        for (slot, descriptor) in (0..).zip(slots) {
            self.describe(TX, slot, *descriptor);
        }
        self.set(TX, HEAD, slots.len() as u16);
    }
}

impl Arena {
    pub fn peer(&self) -> Peer {
        Peer::connect(&self.name)
    }

    /// A peer does something. Why it is turned away it must be told, once; the operator has to see the same words,
    /// once, and one counter that goes up by one.
    pub fn turned_away(&self, counter: &str, words: &str, act: impl FnOnce(&Peer)) {
        self.ends(&self.peer(), counter, words, act);
    }

    /// The same on a connection that is up and has sent a packet.
    pub fn disconnected(&self, counter: &str, words: &str, act: impl FnOnce(&Peer)) {
        let peer = self.peer();
        peer.handshake();
        self.ends(&peer, counter, words, act);
    }

    /// The same with a peer that is there already.
    pub fn ends(&self, peer: &Peer, counter: &str, words: &str, act: impl FnOnce(&Peer)) {
        let (ended, counted, total) = {
            let log = self.shared.log();
            (log.ended.len(), log.counters.get(counter).copied().unwrap_or(0), log.count())
        };
        act(peer);
        assert_eq!(last_words(&peer.socket), words);
        self.shared.wait("its end is logged", |log| (log.ended.len() > ended).then_some(()));
        let log = self.shared.log();
        let seen: Vec<_> = log.ended[ended..].iter().map(ToString::to_string).collect();
        assert_eq!(seen, [words], "{log:?}");
        assert_eq!(
            (log.counters.get(counter), log.count()),
            (Some(&(counted + 1)), total + 1),
            "{:?}",
            log.counters
        );
    }
}
