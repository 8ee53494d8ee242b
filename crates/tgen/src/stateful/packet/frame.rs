//! Frames: where headers lie, and what is common to all packets.

use super::checksum::Payload;
use super::line::LINE;
use crate::stateful::address::Address;
use wire::MacAddr;

/// Bytes of a TCP header without options.
pub const TCP: usize = 20;
/// Bytes of a UDP header.
pub const UDP: usize = 8;

/// How frames of one side begin, and how long they are at least.
#[derive(Clone, Debug)]
pub struct Framing {
    /// Bytes 0 to 15 as two big-endian words: addresses, ethertype, first two bytes of the IP header.
    pub(super) first: [u64; 2],
    /// Bytes in front of the IP header that aren't sent: 14 where the link carries bare IP packets.
    pub(super) skip: usize,
    /// What is sent as payload.
    pub(super) payload: Payload,
}

impl Framing {
    /// Frames from `source` to `destination`, with payloads of up to `max_payload` bytes.
    #[must_use]
    pub fn ethernet<A: Address>(source: MacAddr, destination: MacAddr, max_payload: usize) -> Self {
        let mut bytes = [0; 16];
        bytes[..6].copy_from_slice(&destination.0);
        bytes[6..12].copy_from_slice(&source.0);
        bytes[12..].copy_from_slice(&A::BEGIN);
        let (a, b) = bytes.split_at(8);
        let word = |half: &[u8]| half.iter().fold(0u64, |all, byte| all << 8 | u64::from(*byte));
        Self { first: [word(a), word(b)], skip: 0, payload: Payload::new(max_payload) }
    }

    /// The same for a link that carries IP packets without a header in front.
    #[must_use]
    pub fn ip<A: Address>(max_payload: usize) -> Self {
        Self { skip: 14, ..Self::ethernet::<A>(MacAddr::ZERO, MacAddr::ZERO, max_payload) }
    }

    /// Bytes of an Ethernet header that frames of this link lack.
    #[inline(always)]
    #[must_use]
    pub fn skipped(&self) -> usize {
        self.skip
    }

    /// Bytes 0 to 15 as two numbers: up to the first two bytes of the IP header.
    #[inline(always)]
    #[must_use]
    pub fn begin(&self) -> [u64; 2] {
        self.first
    }

    /// The bytes sent as payload.
    #[must_use]
    pub fn payload(&self) -> &Payload {
        &self.payload
    }

    /// Length with padding of a frame whose headers and payload are `len` bytes with an Ethernet header: Ethernet frames are padded
    /// to 64.
    #[inline(always)]
    #[must_use]
    pub fn padded(&self, len: usize) -> u32 {
        (if self.skip == 0 { len.max(LINE) } else { len - self.skip }) as u32
    }
}

/// Why a frame is not for a state machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Somebody asks for an address: ARP, or a neighbour solicitation.
    Question,
    /// Another protocol, a fragment, IPv4 options, IPv6 extension headers.
    Other,
    /// Lengths that contradict each other.
    Malformed,
    /// A checksum is wrong.
    Checksum,
    /// A datagram of somebody else's: it doesn't begin with our tag.
    Foreign,
}

/// What of a frame is sent: its first line, and where the payload goes on behind it.
#[derive(Clone, Copy, Debug)]
pub struct Frame<L> {
    /// The first line, Ethernet header included.
    pub line: L,
    /// Bytes of headers and payload with an Ethernet header, before padding.
    pub len: usize,
    /// The part of the payload's text that follows the line.
    pub rest: (usize, usize),
}

/// The line of a packet's frames.
pub type LineOf<P> = <<P as Wire>::Address as Address>::Line;

/// A packet of one protocol.
pub trait Wire: Copy + core::fmt::Debug {
    /// Its addresses, and so the version of IP.
    type Address: Address;

    /// Reads it from a frame of `len` bytes that begins with `line` (with an Ethernet header in front).
    ///
    /// # Errors
    /// [`Refused`] when it isn't one.
    fn read(line: &LineOf<Self>, len: usize) -> Result<Self, Refused>;

    /// Bytes of headers and payload, with an Ethernet header.
    fn frame_len(&self) -> usize;

    /// Writes it.
    fn frame(&self, framing: &Framing) -> Frame<LineOf<Self>>;
}
