//! One side's link: batches of packets in, batches of packets out.

use super::clock::Now;
use super::endpoint::Endpoint;
use super::outbox::Outbox;
use super::packet::{Framing, LINE, Line, Refused, Wire, answer, checksum_is_right};
use crate::link::{Link, LinkError, Packets, Receiver, Target, View};
use core::cell::Cell;
use core::net::Ipv4Addr;
use serde::Serialize;
use wire::MacAddr;

/// Packets received, and packets sent, at a time.
pub const BATCH: usize = 256;
/// Packets that wait for room in the ring; what is more is lost.
const WAITING: usize = 1 << 16;

/// What passed a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Traffic {
    /// Packets sent.
    pub tx_packets: u64,
    /// Bytes sent, without FCS.
    pub tx_bytes: u64,
    /// Packets not sent, the ring being full for long.
    pub tx_lost: u64,
    /// Packets received.
    pub rx_packets: u64,
    /// Bytes received, without FCS.
    pub rx_bytes: u64,
    /// Packets received with a wrong checksum.
    pub bad_checksum: u64,
    /// Packets received whose lengths contradict each other.
    pub malformed: u64,
    /// Packets received of other protocols.
    pub other: u64,
}

/// How a side shows itself on its link.
#[derive(Clone, Debug)]
pub struct Face {
    /// Frames.
    pub framing: Framing,
    /// Our Ethernet address.
    pub mac: MacAddr,
    /// First and last address that ARP is answered for.
    pub addresses: (Ipv4Addr, Ipv4Addr),
    /// One more address that ARP is answered for: the gateway of the device under test.
    pub own: Option<Ipv4Addr>,
    /// Check all bytes that checksums cover; otherwise those of packets of one line.
    pub verify: bool,
}

/// Connections of one side, with what comes from and goes to the link.
#[derive(Debug)]
pub struct Side<E: Endpoint> {
    /// The state machines.
    pub endpoint: E,
    /// What passed.
    pub traffic: Traffic,
    face: Face,
    out: Outbox<E::Packet>,
    inbox: Vec<(u32, E::Packet)>,
    answers: Vec<Line>,
    buffer: Vec<u8>,
}

impl<E: Endpoint> Side<E> {
    /// A side at rest.
    pub fn new(endpoint: E, face: Face) -> Self {
        Self {
            endpoint,
            traffic: Traffic::default(),
            face,
            out: Outbox::new(WAITING),
            inbox: Vec::with_capacity(BATCH),
            answers: Vec::new(),
            buffer: Vec::new(),
        }
    }

    /// Receives what is there and lets the state machines have it. Gives the number of packets.
    ///
    /// # Errors
    /// [`LinkError::Lost`] when the link is.
    #[inline(always)]
    pub fn receive(&mut self, link: &mut Link, now: Now) -> Result<usize, LinkError> {
        let received = link.receive(&mut Sink {
            endpoint: &self.endpoint,
            inbox: &mut self.inbox,
            traffic: &mut self.traffic,
            face: &self.face,
            answers: &mut self.answers,
            buffer: &mut self.buffer,
        })?;
        for (place, packet) in &self.inbox {
            self.endpoint.arrive(*place, packet, now, &mut self.out);
        }
        self.inbox.clear();
        Ok(received)
    }

    /// Lets time go on.
    #[inline(always)]
    pub fn expire(&mut self, now: Now) {
        self.endpoint.expire(now, &mut self.out);
    }

    /// Sends what waits, as far as there is room.
    ///
    /// # Errors
    /// As of [`receive`](Self::receive).
    #[inline(always)]
    pub fn send(&mut self, link: &mut Link) -> Result<(), LinkError> {
        let packets = self.out.waiting();
        if !packets.is_empty() {
            let source = Source { framing: &self.face.framing, packets, bytes: Cell::new(0) };
            let sent = link.transmit(0, packets.len(), &source, true)?;
            self.traffic.tx_packets += sent as u64;
            self.traffic.tx_bytes += source.bytes.get();
            self.out.done(sent);
        }
        if !self.answers.is_empty() {
            self.send_answers(link)?;
        }
        self.traffic.tx_lost = self.out.unsent();
        Ok(())
    }

    #[cold]
    fn send_answers(&mut self, link: &mut Link) -> Result<(), LinkError> {
        // Whoever asks and gets no answer asks again.
        link.transmit(0, self.answers.len(), &Lines(&self.answers), true)?;
        self.answers.clear();
        Ok(())
    }

    /// Packets that wait for room in the ring.
    #[inline(always)]
    pub fn waiting(&self) -> usize {
        self.out.waiting().len()
    }

    /// Where the state machines' packets go.
    #[inline(always)]
    pub fn parts(&mut self) -> (&mut E, &mut Outbox<E::Packet>) {
        (&mut self.endpoint, &mut self.out)
    }
}

struct Sink<'a, E: Endpoint> {
    endpoint: &'a E,
    inbox: &'a mut Vec<(u32, E::Packet)>,
    traffic: &'a mut Traffic,
    face: &'a Face,
    answers: &'a mut Vec<Line>,
    buffer: &'a mut Vec<u8>,
}

impl<E: Endpoint> Sink<'_, E> {
    #[inline(always)]
    fn line(&mut self, line: &Line, len: usize) {
        match E::Packet::read(line, len) {
            Ok(packet) => {
                let place = self.endpoint.place(&packet);
                self.inbox.push((place, packet));
            }
            Err(refused) => self.refuse(line, refused),
        }
    }

    #[cold]
    fn refuse(&mut self, line: &Line, refused: Refused) {
        match refused {
            Refused::Checksum => self.traffic.bad_checksum += 1,
            Refused::Malformed => self.traffic.malformed += 1,
            Refused::Other => self.traffic.other += 1,
            Refused::Arp => {
                self.traffic.other += 1;
                let (first, last) = self.face.addresses;
                let ours = |ip| (first..=last).contains(&ip) || self.face.own == Some(ip);
                // As many as a device asks for in one go; the rest will be asked for again.
                if self.answers.len() < BATCH {
                    self.answers.extend(answer(line, self.face.mac, ours));
                }
            }
        }
    }

    /// A packet that isn't in one piece, is shorter than a line, has no Ethernet header or shall be checked whole.
    #[cold]
    fn whole<V: View>(&mut self, frame: V) {
        let skip = self.face.framing.skipped();
        self.buffer.clear();
        self.buffer.resize(skip + frame.size() as usize, 0);
        if let Some(ethertype) = self.buffer.get_mut(12..skip) {
            // An IP packet, whatever version it says it has.
            ethertype.copy_from_slice(&[0x08, 0x00]);
        }
        let read = frame.copy_at(0, self.buffer.get_mut(skip..).unwrap_or_default());
        self.buffer.truncate(skip + read);
        let line = Line::from_bytes(self.buffer);
        if self.face.verify && !checksum_is_right(self.buffer) {
            self.traffic.bad_checksum += 1;
            return;
        }
        self.line(&line, self.buffer.len());
    }
}

impl<E: Endpoint> Receiver for Sink<'_, E> {
    #[inline(always)]
    fn frame<V: View>(&mut self, frame: V) {
        let len = frame.size() as usize;
        self.traffic.rx_packets += 1;
        self.traffic.rx_bytes += len as u64;
        let plain = self.face.framing.skipped() == 0 && (len <= LINE || !self.face.verify);
        match Line::read(frame) {
            Some(line) if plain => self.line(&line, len),
            _ => self.whole(frame),
        }
    }
}

/// Packets of state machines.
struct Source<'a, P> {
    framing: &'a Framing,
    packets: &'a [P],
    bytes: Cell<u64>,
}

impl<P: Wire> Packets for Source<'_, P> {
    fn prepare(&mut self) -> usize {
        self.packets.len()
    }

    #[inline(always)]
    fn len(&self, packet: usize) -> u32 {
        self.packets.get(packet).map_or(0, |packet| self.framing.padded(packet.frame_len()))
    }

    #[inline(always)]
    fn write<T: Target>(&self, packet: usize, into: T, _: bool, _: impl Fn() -> u64) {
        let Some(packet) = self.packets.get(packet) else { return };
        let frame = packet.frame(self.framing);
        let (from, to) = frame.rest;
        let skip = self.framing.skipped();
        self.bytes.set(self.bytes.get() + u64::from(self.framing.padded(frame.len)));
        if skip == 0 {
            frame.line.write(into);
        } else {
            let bytes = frame.line.bytes();
            into.put(0, bytes.get(skip..frame.len.min(LINE)).unwrap_or_default());
        }
        if to > from {
            into.put((LINE - skip) as u32, self.framing.payload().bytes(from, to));
        }
    }

    fn sent(&mut self, _: usize) {}
}

/// Frames of one line.
struct Lines<'a>(&'a [Line]);

impl Packets for Lines<'_> {
    fn prepare(&mut self) -> usize {
        self.0.len()
    }

    fn len(&self, _: usize) -> u32 {
        LINE as u32
    }

    fn write<T: Target>(&self, packet: usize, into: T, _: bool, _: impl Fn() -> u64) {
        if let Some(line) = self.0.get(packet) {
            line.write(into);
        }
    }

    fn sent(&mut self, _: usize) {}
}
