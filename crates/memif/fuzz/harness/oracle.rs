//! A second model of both ends of a connection, written to be obviously right: a copy of the memory, indices that
//! never wrap, one step after another, checks in plain arithmetic.

use std::collections::VecDeque;

/// Slots of each ring.
pub const SLOTS: u64 = 64;
/// Bytes of each of the client's buffers, and their distance.
pub const BUFFER: u64 = 128;
pub const STRIDE: u64 = 192;
/// Longest packet either side takes.
pub const MAX_PACKET: u64 = 1000;
/// Where the rings are: from client to server, and back.
pub const S2M: u64 = 0;
pub const M2S: u64 = RING;
const RING: u64 = 128 + SLOTS * 16;
const BUFFERS: u64 = 2 * RING;

pub const FLAGS: u64 = 4;
pub const HEAD: u64 = 6;
pub const TAIL: u64 = 64;
const NEXT: u64 = 1;

/// The kind of a fault.
pub type Fault = &'static str;

#[derive(Debug, Clone, Copy)]
struct Part {
    region: u64,
    length: u64,
    offset: u64,
}

/// One end of one ring: indices count up for ever.
#[derive(Debug, Default)]
pub struct End {
    taken: u64,
    released: u64,
    chain: VecDeque<Part>,
}

impl End {
    /// How many slots the peer's word says are ours, if any number of them can be.
    fn available(&self, peer: u16) -> Result<u64, Fault> {
        let most = SLOTS - (self.taken - self.released);
        (0..=most).find(|n| (self.taken + n) as u16 == peer).ok_or("fault-index")
    }
}

/// Which end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Client,
    Server,
}

/// Memory, and where all four ends stand.
pub struct Oracle {
    pub memory: Vec<u8>,
    pub server_rx: End,
    pub server_tx: End,
    pub client_rx: End,
    pub client_tx: End,
    /// Of each packet received last, whether it lies beyond the rings. What doesn't changes while it is looked at: a body stays where
    /// it is until it is sent on, and slots are written to in between.
    pub apart: Vec<bool>,
    /// Whether what was sent last was written beyond the rings. Where it wasn't, slots were written over that are read one by one or four
    /// at a time.
    pub sent_apart: bool,
}

impl Oracle {
    pub fn new(memory: Vec<u8>) -> Self {
        let (server_rx, server_tx, client_rx, client_tx, apart) = Default::default();
        Self { memory, server_rx, server_tx, client_rx, client_tx, apart, sent_apart: true }
    }

    pub fn put(&mut self, at: u64, bytes: &[u8]) {
        self.memory[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
    }

    pub fn word(&self, at: u64) -> u16 {
        u16::from_le_bytes([self.memory[at as usize], self.memory[at as usize + 1]])
    }

    fn put_word(&mut self, at: u64, value: u64) {
        self.put(at, &(value as u16).to_le_bytes());
    }

    /// Flags, and where and how long, as the slot says.
    fn slot(&self, ring: u64, index: u64) -> (u64, Part) {
        let at = (ring + 128 + index % SLOTS * 16) as usize;
        let number = |from: usize, n: usize| {
            self.memory[at + from..at + from + n]
                .iter()
                .rev()
                .fold(0, |sum, byte| sum * 256 + u64::from(*byte))
        };
        (number(0, 2), Part { region: number(2, 2), length: number(4, 4), offset: number(8, 4) })
    }

    fn put_slot(&mut self, ring: u64, index: u64, flags: u64, part: Part) {
        let at = ring + 128 + index % SLOTS * 16;
        self.put_word(at, flags);
        self.put_word(at + 2, part.region);
        self.put(at + 4, &(part.length as u32).to_le_bytes());
    }

    /// The client's own buffer of a slot.
    const fn own(ring: u64, index: u64, length: u64) -> Part {
        let offset = BUFFERS + ((if ring == S2M { 0 } else { SLOTS }) + index % SLOTS) * STRIDE;
        Part { region: 0, length, offset }
    }

    fn inside(&self, part: Part) -> Result<(), Fault> {
        let fits = part.region == 0 && part.offset + part.length <= self.memory.len() as u64;
        if fits { Ok(()) } else { Err("fault-range") }
    }

    fn bytes(&self, part: Part) -> &[u8] {
        &self.memory[part.offset as usize..][..part.length as usize]
    }

    const fn end(&mut self, side: Side, receives: bool) -> &mut End {
        match (side, receives) {
            (Side::Client, true) => &mut self.client_rx,
            (Side::Client, false) => &mut self.client_tx,
            (Side::Server, true) => &mut self.server_rx,
            (Side::Server, false) => &mut self.server_tx,
        }
    }

    /// The ring that this side receives from or sends to, and what the peer's word there says.
    pub fn available(&mut self, side: Side, receives: bool) -> Result<u64, Fault> {
        let ring = if receives == (side == Side::Server) { S2M } else { M2S };
        let peer = match (side, receives) {
            (Side::Server, _) => self.word(ring + HEAD),
            (Side::Client, true) => self.word(ring + TAIL),
            // What the server has taken is free once more: a whole ring is free at the beginning.
            (Side::Client, false) => self.word(ring + TAIL).wrapping_add(SLOTS as u16),
        };
        self.end(side, receives).available(peer)
    }

    /// Whether there is a slot to receive from that was not even looked at.
    pub fn news(&mut self, side: Side) -> Result<bool, Fault> {
        let available = self.available(side, true)?;
        Ok(available > self.end(side, true).chain.len() as u64)
    }

    /// What is received: packets up to a fault, and the fault.
    pub fn receive(&mut self, side: Side, max: usize) -> (Vec<Vec<u8>>, Result<(), Fault>) {
        let mut packets = Vec::new();
        self.apart.clear();
        let result = self.try_receive(side, max, &mut packets);
        (packets, result)
    }

    fn try_receive(&mut self, side: Side, max: usize, packets: &mut Vec<Vec<u8>>) -> Result<(), Fault> {
        let ring = if side == Side::Server { S2M } else { M2S };
        let available = self.available(side, true)?;
        let mut chain = std::mem::take(&mut self.end(side, true).chain);
        let first = self.end(side, true).taken;
        let mut used = chain.len() as u64;
        while used < available && packets.len() < max {
            let index = first + used;
            used += 1;
            let (flags, mut part) = self.slot(ring, index);
            let mut longest = u64::MAX;
            if side == Side::Client {
                part = Self::own(ring, index, part.length);
                longest = BUFFER;
            }
            let goes_on = flags & NEXT != 0;
            let total: u64 = chain.iter().map(|part| part.length).sum::<u64>() + part.length;
            if part.length > longest || total > MAX_PACKET {
                return Err("fault-too-long");
            }
            if part.length > 0 {
                self.inside(part)?;
            }
            chain.push_back(part);
            if goes_on {
                if chain.len() as u64 == SLOTS {
                    return Err("fault-endless-chain");
                }
                self.put_slot(ring, index, 0, part);
                continue;
            }
            if total == 0 {
                return Err("fault-empty");
            }
            self.apart.push(chain.iter().all(|part| part.length == 0 || part.offset >= BUFFERS));
            packets
                .push(chain.iter().filter(|p| p.length > 0).flat_map(|p| self.bytes(*p).to_vec()).collect());
            chain.clear();
        }
        let end = self.end(side, true);
        end.taken = first + used - chain.len() as u64;
        end.chain = chain;
        Ok(())
    }

    /// Gives back the first so many slots of what was received.
    pub fn release(&mut self, side: Side, most: u64) {
        let end = self.end(side, true);
        let (from, to) = (end.released, end.taken.min(end.released.saturating_add(most)));
        end.released = to;
        if from == to {
            return;
        }
        if side == Side::Server {
            return self.put_word(S2M + TAIL, to);
        }
        for index in from..to {
            let part = Self::own(M2S, index, BUFFER);
            self.put_slot(M2S, index, 0, part);
            let second = [(part.offset as u32).to_le_bytes(), [0; 4]].concat();
            self.put(M2S + 128 + index % SLOTS * 16 + 8, &second);
        }
        self.put_word(M2S + HEAD, to + SLOTS);
    }

    /// What is sent of these packets: how many were sent, and how many can never be, of which at most `most` are left out.
    pub fn transmit(
        &mut self,
        side: Side,
        packets: &[Vec<u8>],
        most: usize,
    ) -> Result<(usize, usize), Fault> {
        let (ring, word) = if side == Side::Client { (S2M, HEAD) } else { (M2S, TAIL) };
        let room = self.available(side, false)?;
        let first = self.end(side, false).taken;
        let (mut used, mut sent, mut never) = (0, 0, 0);
        self.sent_apart = true;
        for packet in packets {
            if used == room {
                break;
            }
            let Some(parts) = self.parts(side, ring, first + used, room - used, packet.len() as u64)? else {
                // Of a peer's buffers only an empty ring shows that it is too long for any.
                let beyond_own = side == Side::Client && packet.len() as u64 > SLOTS * BUFFER;
                if packet.is_empty() || room - used == SLOTS || beyond_own {
                    never += 1;
                    if never > most {
                        break;
                    }
                    continue;
                }
                break;
            };
            let mut rest = &packet[..];
            for part in &parts {
                let (now, later) = rest.split_at(part.length as usize);
                self.sent_apart &= part.offset >= BUFFERS;
                self.put(part.offset, now);
                rest = later;
            }
            for (n, part) in (1..).zip(&parts) {
                let flags = if n < parts.len() { NEXT } else { 0 };
                self.put_slot(ring, first + used, flags, *part);
                used += 1;
            }
            sent += 1;
        }
        if used > 0 {
            let end = self.end(side, false);
            end.taken = first + used;
            end.released = end.taken;
            self.put_word(ring + word, first + used);
        }
        Ok((sent, never))
    }

    /// Buffers for so many bytes, all of them checked; `None` if they don't fit into so many slots.
    fn parts(
        &self,
        side: Side,
        ring: u64,
        index: u64,
        slots: u64,
        bytes: u64,
    ) -> Result<Option<Vec<Part>>, Fault> {
        let (mut parts, mut left) = (Vec::new(), bytes);
        for index in index..index + slots {
            if left == 0 {
                break;
            }
            let mut part = self.slot(ring, index).1;
            if side == Side::Client {
                part = Self::own(ring, index, BUFFER);
            }
            if part.length == 0 {
                return Err("fault-no-capacity");
            }
            part.length = part.length.min(left);
            self.inside(part)?;
            left -= part.length;
            parts.push(part);
        }
        Ok((left == 0 && bytes > 0).then_some(parts))
    }
}
