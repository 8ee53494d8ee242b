//! One side's link: batches of packets in, batches of packets out.

use super::clock::Now;
use super::endpoint::Endpoint;
use super::outbox::Outbox;
use super::packet::{Framing, LINE, Line, Refused, Wire, answer, checksum_is_right};
use core::net::Ipv4Addr;
use memif::region::CheckedRange;
use memif::{Fault, RxQueue, RxSink, TxQueue, TxSource};
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

    /// Receives a batch from each queue and lets the state machines have it. Gives the number of packets.
    ///
    /// # Errors
    /// [`Fault`] when the other side breaks the protocol of the link.
    #[inline(always)]
    pub fn receive(&mut self, queues: &mut [RxQueue], now: Now) -> Result<usize, Fault> {
        let mut received = 0;
        for queue in queues {
            let mut sink = Sink {
                endpoint: &self.endpoint,
                inbox: &mut self.inbox,
                traffic: &mut self.traffic,
                face: &self.face,
                answers: &mut self.answers,
                buffer: &mut self.buffer,
            };
            let n = queue.receive(BATCH, &mut sink)?;
            if n > 0 {
                queue.release();
            }
            received += n;
            for (place, packet) in &self.inbox {
                self.endpoint.arrive(*place, packet, now, &mut self.out);
            }
            self.inbox.clear();
        }
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
    pub fn send(&mut self, queue: &mut TxQueue) -> Result<(), Fault> {
        let packets = self.out.waiting();
        if !packets.is_empty() {
            let framing = &self.face.framing;
            let mut source = Source { framing, packets, bytes: 0, buffer: &mut self.buffer };
            let sent = queue.transmit(packets.len(), &mut source)?;
            self.traffic.tx_packets += sent.sent as u64;
            self.traffic.tx_bytes += source.bytes;
            self.out.done(sent.done());
            queue.notify();
        }
        if !self.answers.is_empty() {
            self.send_answers(queue)?;
        }
        self.traffic.tx_lost = self.out.unsent();
        Ok(())
    }

    #[cold]
    fn send_answers(&mut self, queue: &mut TxQueue) -> Result<(), Fault> {
        // Whoever asks and gets no answer asks again.
        queue.transmit(self.answers.len(), &mut Lines(&self.answers))?;
        queue.notify();
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
    fn whole(&mut self, parts: &[CheckedRange<'_>]) {
        let skip = self.face.framing.skipped();
        self.buffer.clear();
        self.buffer.resize(skip, 0);
        if skip > 0 {
            // An IP packet, whatever version it says it has.
            self.buffer[12..].copy_from_slice(&[0x08, 0x00]);
        }
        for part in parts {
            let at = self.buffer.len();
            self.buffer.resize(at + part.len() as usize, 0);
            let read = part.read(self.buffer.get_mut(at..).unwrap_or_default());
            self.buffer.truncate(at + read);
        }
        let line = Line::from_bytes(self.buffer);
        if self.face.verify && !checksum_is_right(self.buffer) {
            self.traffic.bad_checksum += 1;
            return;
        }
        self.line(&line, self.buffer.len());
    }
}

impl<E: Endpoint> RxSink for Sink<'_, E> {
    #[inline(always)]
    fn packet(&mut self, bytes: CheckedRange<'_>) {
        self.traffic.rx_packets += 1;
        self.traffic.rx_bytes += u64::from(bytes.len());
        let plain = self.face.framing.skipped() == 0 && (bytes.len() as usize <= LINE || !self.face.verify);
        match Line::read(bytes) {
            Some(line) if plain => self.line(&line, bytes.len() as usize),
            _ => self.whole(&[bytes]),
        }
    }

    #[inline]
    fn chain(&mut self, parts: &[CheckedRange<'_>], length: u32) {
        self.traffic.rx_packets += 1;
        self.traffic.rx_bytes += u64::from(length);
        self.whole(parts);
    }
}

struct Source<'a, P> {
    framing: &'a Framing,
    packets: &'a [P],
    bytes: u64,
    buffer: &'a mut Vec<u8>,
}

impl<P: Wire> TxSource for Source<'_, P> {
    #[inline(always)]
    fn length(&mut self, packet: usize) -> u32 {
        self.packets.get(packet).map_or(0, |packet| self.framing.padded(packet.frame_len()))
    }

    #[inline(always)]
    fn write(&mut self, packet: usize, into: CheckedRange<'_>) {
        let Some(packet) = self.packets.get(packet) else { return };
        let frame = packet.frame(self.framing);
        self.bytes += u64::from(into.len());
        let rest = || self.framing.payload().bytes(frame.rest.0, frame.rest.1);
        if self.framing.skipped() == 0 {
            frame.line.write(into);
            if frame.rest.1 > frame.rest.0 {
                into.write_at(LINE as u32, rest());
            }
        } else {
            let bytes = frame.line.bytes();
            let line = bytes.get(self.framing.skipped()..frame.len.min(LINE)).unwrap_or_default();
            let at = into.write(line);
            into.write_at(at as u32, rest());
        }
    }

    #[inline]
    fn write_chain(&mut self, packet: usize, into: &[CheckedRange<'_>]) {
        let Some(packet) = self.packets.get(packet) else { return };
        let frame = packet.frame(self.framing);
        self.buffer.clear();
        self.buffer.extend_from_slice(frame.line.bytes().get(self.framing.skipped()..).unwrap_or_default());
        self.buffer.extend_from_slice(self.framing.payload().bytes(frame.rest.0, frame.rest.1));
        let mut bytes = self.buffer.as_slice();
        for part in into {
            let done = part.write(bytes);
            self.bytes += done as u64;
            bytes = bytes.get(done..).unwrap_or_default();
        }
    }
}

struct Lines<'a>(&'a [Line]);

impl TxSource for Lines<'_> {
    fn length(&mut self, _: usize) -> u32 {
        LINE as u32
    }

    fn write(&mut self, packet: usize, into: CheckedRange<'_>) {
        if let Some(line) = self.0.get(packet) {
            into.write(&line.bytes());
        }
    }

    fn write_chain(&mut self, packet: usize, into: &[CheckedRange<'_>]) {
        // Buffers have at least a line.
        if let (Some(first), Some(line)) = (into.first(), self.0.get(packet)) {
            first.write(&line.bytes());
        }
    }
}
