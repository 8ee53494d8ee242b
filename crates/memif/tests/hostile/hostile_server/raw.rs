//! A server by hand.

use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{SocketFlags, accept_with, bind, listen};

use super::victim::Victim;
use crate::wire::{
    ACK, ADD_REGION, ADD_RING, CONNECT, CONNECTED, DISCONNECT, HELLO, Memory, PATIENCE, SLOTS, Slot, TAIL,
    address, kind, last_words, message, put, receive, send, socket, text, word,
};

/// A listening socket.
pub struct Listening(OwnedFd);

impl Listening {
    pub fn new(name: &str) -> Self {
        let socket = socket();
        bind(&socket, &address(name)).unwrap();
        listen(&socket, 8).unwrap();
        Self(socket)
    }

    /// Waits for the client.
    pub fn accept(&self) -> Served {
        let wait = Timespec::try_from(PATIENCE).unwrap();
        assert_eq!(poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&wait)), Ok(1), "no client comes");
        let socket = accept_with(&self.0, SocketFlags::CLOEXEC).unwrap();
        Served { socket, memory: None, pool: None, event: None, to_server: 0, to_client: 0 }
    }
}

fn word_at(message: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([message[at], message[at + 1]])
}

/// A client, and what it has announced.
pub struct Served {
    pub socket: OwnedFd,
    /// Its rings, and their buffers, unless these are of a trust group.
    pub memory: Option<Memory>,
    /// The buffers of a trust group.
    pub pool: Option<Memory>,
    /// The eventfd of the ring to the client.
    pub event: Option<OwnedFd>,
    /// Where the rings are.
    pub to_server: u64,
    pub to_client: u64,
}

impl Served {
    pub fn say(&self, kind: u16) {
        send(&self.socket, &message(kind, &[]), &[]);
    }

    pub fn hello(&self) {
        self.hello_with(0x0200, 0x0200, 14);
    }

    pub fn hello_with(&self, min: u16, max: u16, log2: u8) {
        // Numbers of the last: two regions, for the second is a trust group's, and a ring each way.
        let (name, two, one) = (text::<32>("\u{1b}[31mraw"), 1_u16.to_le_bytes(), 0_u16.to_le_bytes());
        let (min, max) = (min.to_le_bytes(), max.to_le_bytes());
        send(&self.socket, &message(HELLO, &[&name, &min, &max, &two, &one, &one, &[log2]]), &[]);
    }

    /// HELLO, and ACK for everything up to CONNECT.
    pub fn until_connect(&mut self) {
        assert!(self.try_until_connect(), "the client is gone");
    }

    /// The same; false if the client goes meanwhile.
    fn try_until_connect(&mut self) -> bool {
        self.hello();
        loop {
            let Some((heard, mut fds)) = receive(&self.socket) else { return false };
            let (flags, offset) = (heard[2], u32::from_le_bytes(heard[8..12].try_into().unwrap()));
            match kind(&heard) {
                ADD_REGION => {
                    let size = u64::from_le_bytes(heard[4..12].try_into().unwrap());
                    let memory = fds.pop().map(|file| Memory::new(file, size));
                    *(if word_at(&heard, 2) == 0 { &mut self.memory } else { &mut self.pool }) = memory;
                }
                ADD_RING if flags & 1 == 1 => self.to_server = offset.into(),
                ADD_RING => (self.to_client, self.event) = (offset.into(), fds.pop()),
                CONNECT => return true,
                DISCONNECT => return false,
                _ => {}
            }
            self.say(ACK);
        }
    }

    /// Everything, as it should be; false if the client goes meanwhile.
    pub fn try_handshake(&mut self) -> bool {
        let done = self.try_until_connect();
        self.say(CONNECTED);
        done
    }

    /// Everything, as it should be.
    pub fn handshake(&mut self) {
        self.until_connect();
        self.say(CONNECTED);
    }

    fn memory(&self) -> &Memory {
        self.memory.as_ref().expect("the client has announced it")
    }

    pub fn pool(&self) -> &Memory {
        self.pool.as_ref().expect("the client is in a trust group")
    }

    /// Where in its region the client has said that the buffer of a slot of this ring begins.
    pub fn posted(&self, ring: u64, slot: u64) -> u64 {
        let mut offset = [0; 4];
        let at = ring + SLOTS + slot % 64 * 16 + 8;
        assert_eq!(rustix::io::pread(self.memory(), &mut offset, at).unwrap(), 4);
        u32::from_le_bytes(offset).into()
    }

    pub fn set(&self, ring: u64, at: u64, value: u16) {
        put(self.memory(), ring + at, &value.to_le_bytes());
    }

    pub fn word(&self, ring: u64, at: u64) -> u16 {
        word(self.memory(), ring + at)
    }

    pub fn describe(&self, slot: u64, descriptor: Slot) {
        put(self.memory(), self.to_client + SLOTS + slot % 64 * 16, &descriptor.bytes());
    }

    /// Fills slots of the ring to the client and tells of them.
    pub fn publish(&self, slots: &[Slot]) {
        for (slot, descriptor) in (0..).zip(slots) {
            self.describe(slot, *descriptor);
        }
        self.set(self.to_client, TAIL, slots.len() as u16);
    }
}

impl Victim {
    /// A server does something to a client that has just connected. It must be told why the client goes, once;
    /// the client's user has to see the same words, once.
    pub fn leaves(&self, words: &str, act: impl FnOnce(&mut Served)) {
        let ended = self.shared.log().ended.len();
        let mut served = self.listening.accept();
        act(&mut served);
        assert_eq!(last_words(&served.socket), words);
        self.shared.wait("its end is logged", |log| (log.ended.len() > ended).then_some(()));
        let log = self.shared.log();
        let seen: Vec<_> = log.ended[ended..].iter().map(ToString::to_string).collect();
        assert_eq!(seen, [words]);
        assert_eq!(log.count(), log.ended.len() as u64);
    }

    /// The same once the link is up.
    pub fn disconnects(&self, words: &str, act: impl FnOnce(&mut Served)) {
        self.leaves(words, |served| {
            served.handshake();
            act(served);
        });
    }
}
