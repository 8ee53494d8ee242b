//! A virtual link with faults, and a virtual clock.

use crate::stateful::clock::Now;
use crate::stateful::endpoint::{Endpoint, Opener};
use crate::stateful::mix::mix;
use crate::stateful::outbox::Outbox;
use crate::stateful::packet::{Framing, Head, LINE, LineOf, Wire};
use std::collections::BTreeMap;
use wire::MacAddr;

/// What goes wrong, in shares of 1000.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    pub lost: u64,
    pub doubled: u64,
    /// Packets that arrive up to 50 ms later than others.
    pub late: u64,
}

/// Changes frames on their way: from the client if the flag is set.
pub type Middle = Box<dyn FnMut(bool, &mut [u8])>;

/// A frame's first line and length; from the client if the flag is set.
type Sent<P> = (bool, LineOf<P>, usize);

/// Two sides and the link between them.
pub struct World<C: Opener, S: Endpoint<Packet = C::Packet>> {
    pub client: C,
    pub server: S,
    pub faults: Faults,
    pub middle: Option<Middle>,
    /// Every frame that was sent.
    pub log: Vec<Sent<C::Packet>>,
    framing: Framing,
    to_server: Outbox<C::Packet>,
    to_client: Outbox<C::Packet>,
    /// By time of arrival and a running number.
    under_way: BTreeMap<(u64, u64), Sent<C::Packet>>,
    pub now_ms: u64,
    number: u64,
    random: u64,
}

impl<C: Opener, S: Endpoint<Packet = C::Packet>> World<C, S> {
    pub fn new(client: C, server: S, faults: Faults, seed: u64) -> Self {
        Self {
            client,
            server,
            faults,
            middle: None,
            log: Vec::new(),
            framing: Framing::ethernet::<<C::Packet as Wire>::Address>(
                MacAddr([2, 0, 0, 0, 0, 2]),
                MacAddr([2, 0, 0, 0, 0, 1]),
                9000,
            ),
            to_server: Outbox::new(1 << 16),
            to_client: Outbox::new(1 << 16),
            under_way: BTreeMap::new(),
            now_ms: 0,
            number: 0,
            random: mix(seed, 1),
        }
    }

    fn chance(&mut self) -> u64 {
        self.random = mix(self.random, 0x5eed);
        self.random
    }

    pub fn now(&self) -> Now {
        Now::at(self.now_ms * 1_000_000)
    }

    pub fn open(&mut self, n: usize) -> usize {
        let now = self.now();
        let opened = self.client.open(n, now, &mut self.to_server);
        self.collect();
        opened
    }

    /// A millisecond passes.
    pub fn step(&mut self) {
        self.now_ms += 1;
        let now = self.now();
        while let Some(entry) = self.under_way.first_entry()
            && entry.key().0 <= self.now_ms
        {
            let (from_client, line, len) = entry.remove();
            let packet = C::Packet::read(&line, len).expect("what we send is what we read");
            if from_client {
                let place = self.server.place(&packet);
                self.server.arrive(place, &packet, now, &mut self.to_client);
            } else {
                let place = self.client.place(&packet);
                self.client.arrive(place, &packet, now, &mut self.to_server);
            }
        }
        self.client.expire(now, &mut self.to_server);
        self.server.expire(now, &mut self.to_client);
        self.collect();
    }

    /// Steps until nothing is under way and nothing has happened for `quiet` milliseconds.
    pub fn run(&mut self, milliseconds: u64) {
        (0..milliseconds).for_each(|_| self.step());
    }

    fn collect(&mut self) {
        for from_client in [true, false] {
            let out = if from_client { &mut self.to_server } else { &mut self.to_client };
            let packets = out.waiting().to_vec();
            out.done(packets.len());
            for packet in packets {
                let frame = packet.frame(&self.framing);
                let mut line = frame.line;
                let len = frame.len.max(LINE);
                self.log.push((from_client, line, len));
                if let Some(middle) = &mut self.middle {
                    let mut bytes = line.to_vec();
                    middle(from_client, &mut bytes);
                    line = Head::from_bytes(&bytes);
                }
                let copies = match self.chance() % 1000 {
                    n if n < self.faults.lost => 0,
                    n if n < self.faults.lost + self.faults.doubled => 2,
                    _ => 1,
                };
                for _ in 0..copies {
                    let late = self.chance() % 1000 < self.faults.late;
                    let delay = 1 + if late { self.chance() % 50 } else { 0 };
                    self.number += 1;
                    self.under_way.insert((self.now_ms + delay, self.number), (from_client, line, len));
                }
            }
        }
    }
}
