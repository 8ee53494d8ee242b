//! One side's link: batches of packets in, batches of packets out.

use super::address::Address;
use super::clock::Now;
use super::endpoint::Endpoint;
use super::outbox::Outbox;
use super::packet::{Framing, Head, LineOf, Refused, Wire, checksum_is_right};
use crate::link::{Link, LinkError, Packets, Receiver, Target, View};
use core::cell::Cell;
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
    /// Datagrams received that don't begin with our tag: somebody else's. They aren't answered.
    pub foreign: u64,
    /// Frames that came and that the kernel threw away because the generator took too few: its own losses, not the device's.
    /// `null` where that can't be known (memif: there the device finds the ring full).
    pub receive_drops: Option<u64>,
}

impl Traffic {
    /// Packets of ours received, whole.
    #[must_use]
    pub const fn received(&self) -> u64 {
        self.rx_packets - self.bad_checksum - self.malformed - self.other - self.foreign
    }
}

/// How a side shows itself on its link.
#[derive(Clone, Debug)]
pub struct Face<A> {
    /// Frames.
    pub framing: Framing,
    /// Our Ethernet address.
    pub mac: MacAddr,
    /// First and last address that we say are here, if asked by ARP or neighbour discovery.
    pub addresses: (A, A),
    /// One more such address: the gateway of the device under test.
    pub own: Option<A>,
    /// Check all bytes that checksums cover; otherwise those of packets of one line.
    pub verify: bool,
}

/// How a side with these state machines shows itself.
pub type FaceOf<E> = Face<<<E as Endpoint>::Packet as Wire>::Address>;

/// Connections of one side, with what comes from and goes to the link.
#[derive(Debug)]
pub struct Side<E: Endpoint> {
    /// The state machines.
    pub endpoint: E,
    /// What passed.
    pub traffic: Traffic,
    face: FaceOf<E>,
    out: Outbox<E::Packet>,
    inbox: Vec<(u32, E::Packet)>,
    answers: Vec<Vec<u8>>,
    buffer: Vec<u8>,
}

impl<E: Endpoint> Side<E> {
    /// A side at rest.
    pub fn new(endpoint: E, face: FaceOf<E>) -> Self {
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
        link.transmit(0, self.answers.len(), &Frames(&self.answers), true)?;
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
    face: &'a FaceOf<E>,
    answers: &'a mut Vec<Vec<u8>>,
    buffer: &'a mut Vec<u8>,
}

impl<E: Endpoint> Sink<'_, E> {
    /// Takes a frame in which that line comes first. Whether it is a question to us, which must be read whole.
    #[inline(always)]
    fn line(&mut self, line: &LineOf<E::Packet>, len: usize) -> bool {
        match E::Packet::read(line, len) {
            Ok(packet) => {
                let place = self.endpoint.place(&packet);
                self.inbox.push((place, packet));
                false
            }
            Err(refused) => self.refuse(refused),
        }
    }

    #[cold]
    fn refuse(&mut self, refused: Refused) -> bool {
        match refused {
            Refused::Checksum => self.traffic.bad_checksum += 1,
            Refused::Malformed => self.traffic.malformed += 1,
            Refused::Other | Refused::Question => self.traffic.other += 1,
            Refused::Foreign => self.traffic.foreign += 1,
        }
        refused == Refused::Question
    }

    /// Copies a frame, with an Ethernet header if it has none.
    fn copy<V: View>(&mut self, frame: V) {
        let skip = self.face.framing.skipped();
        self.buffer.clear();
        self.buffer.resize(skip + frame.size() as usize, 0);
        if let Some(ethertype) = self.buffer.get_mut(12..skip) {
            // An IP packet, whatever version it says it has.
            ethertype.copy_from_slice(&<E::Packet as Wire>::Address::BEGIN[..2]);
        }
        let read = frame.copy_at(0, self.buffer.get_mut(skip..).unwrap_or_default());
        self.buffer.truncate(skip + read);
    }

    /// A packet that isn't in one piece, is shorter than a line, has no Ethernet header or shall be checked whole.
    #[cold]
    fn whole<V: View>(&mut self, frame: V) {
        self.copy(frame);
        let line = Head::from_bytes(self.buffer);
        if self.face.verify && !checksum_is_right(self.buffer) {
            self.traffic.bad_checksum += 1;
        } else if self.line(&line, self.buffer.len()) {
            self.reply();
        }
    }

    /// Somebody asks for an address.
    #[cold]
    fn question<V: View>(&mut self, frame: V) {
        self.copy(frame);
        self.reply();
    }

    fn reply(&mut self) {
        let (first, last) = self.face.addresses;
        let ours = |address| (first..=last).contains(&address) || self.face.own == Some(address);
        // As many as a device asks for in one go; the rest will be asked for again.
        if self.answers.len() < BATCH {
            self.answers.extend(Address::answer(self.buffer, self.face.mac, ours));
        }
    }
}

impl<E: Endpoint> Receiver for Sink<'_, E> {
    #[inline(always)]
    fn frame<V: View>(&mut self, frame: V) {
        let len = frame.size() as usize;
        self.traffic.rx_packets += 1;
        self.traffic.rx_bytes += len as u64;
        let plain =
            self.face.framing.skipped() == 0 && (len <= LineOf::<E::Packet>::LEN || !self.face.verify);
        match Head::read(frame) {
            Some(line) if plain => {
                if self.line(&line, len) {
                    self.question(frame);
                }
            }
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
        let len = self.framing.padded(frame.len);
        self.bytes.set(self.bytes.get() + u64::from(len));
        if skip == 0 {
            frame.line.write(into, len as usize);
        } else {
            let bytes = frame.line.to_vec();
            into.put(0, bytes.get(skip..frame.len.min(bytes.len())).unwrap_or_default());
        }
        if to > from {
            into.put((LineOf::<P>::LEN - skip) as u32, self.framing.payload().bytes(from, to));
        }
    }

    fn sent(&mut self, _: usize) {}
}

/// Whole frames.
struct Frames<'a>(&'a [Vec<u8>]);

impl Packets for Frames<'_> {
    fn prepare(&mut self) -> usize {
        self.0.len()
    }

    fn len(&self, packet: usize) -> u32 {
        self.0.get(packet).map_or(0, |frame| frame.len() as u32)
    }

    fn write<T: Target>(&self, packet: usize, into: T, _: bool, _: impl Fn() -> u64) {
        into.put(0, self.0.get(packet).map(Vec::as_slice).unwrap_or_default());
    }

    fn sent(&mut self, _: usize) {}
}
