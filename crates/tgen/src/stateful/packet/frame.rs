//! Frames: where headers lie, and what is common to all packets.

use super::checksum::Payload;
use crate::link::{Target, View};
use wire::MacAddr;

/// Bytes of a frame that are read and written as one.
pub const LINE: usize = 64;

/// The first bytes of a frame, as eight numbers: word `n` is bytes 8·n to 8·n + 7, the first of them highest.
///
/// Words go from and to registers; bytes would be put together in memory first, in pieces that can't be read back as a
/// whole without waiting for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Line(pub [u64; LINE / 8]);

impl Line {
    /// From bytes; what is missing is zero, what is too much is left out.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let mut line = [0; LINE];
        for (to, from) in line.iter_mut().zip(bytes) {
            *to = *from;
        }
        let (words, _) = line.as_chunks::<8>();
        Self(core::array::from_fn(|n| words.get(n).map_or(0, |word| u64::from_be_bytes(*word))))
    }

    /// Word `n`.
    #[inline(always)]
    pub(super) const fn word(&self, n: usize) -> u64 {
        self.0[n]
    }

    /// As bytes.
    #[must_use]
    pub fn bytes(&self) -> [u8; LINE] {
        let mut line = [0; LINE];
        for (chunk, word) in line.as_chunks_mut::<8>().0.iter_mut().zip(self.0) {
            *chunk = word.to_be_bytes();
        }
        line
    }

    /// The first line of a frame; `None` where that is shorter.
    #[inline(always)]
    #[must_use]
    pub fn read<V: View>(frame: V) -> Option<Self> {
        if (frame.size() as usize) < LINE {
            return None;
        }
        Some(Self(core::array::from_fn(|n| {
            let mut word = [0; 8];
            frame.array_at(n as u32 * 8, &mut word);
            u64::from_be_bytes(word)
        })))
    }

    /// Writes it to the beginning of a frame of at least its length.
    #[inline(always)]
    pub fn write<T: Target>(&self, frame: T) {
        for (n, word) in self.0.iter().enumerate() {
            frame.put_array(n as u32 * 8, &word.to_be_bytes());
        }
    }
}

/// Bytes of Ethernet, IPv4 and TCP headers without options.
pub const HEADERS_TCP: usize = 54;
/// Bytes of Ethernet, IPv4 and UDP headers.
pub const HEADERS_UDP: usize = 42;

/// How frames of one side begin, and how long they are at least.
#[derive(Clone, Debug)]
pub struct Framing {
    /// Bytes 0 to 15 as two big-endian words: addresses, ethertype, first two bytes of IPv4.
    pub(super) first: [u64; 2],
    /// Bytes in front of the IPv4 header that aren't sent: 14 where the link carries bare IP packets.
    pub(super) skip: usize,
    /// What is sent as payload.
    pub(super) payload: Payload,
}

impl Framing {
    /// Frames from `source` to `destination`, with payloads of up to `max_payload` bytes.
    #[must_use]
    pub fn ethernet(source: MacAddr, destination: MacAddr, max_payload: usize) -> Self {
        let mut bytes = [0; 16];
        bytes[..6].copy_from_slice(&destination.0);
        bytes[6..12].copy_from_slice(&source.0);
        bytes[12..].copy_from_slice(&[0x08, 0x00, 0x45, 0x00]);
        let (a, b) = bytes.split_at(8);
        let word = |half: &[u8]| half.iter().fold(0u64, |all, byte| all << 8 | u64::from(*byte));
        Self { first: [word(a), word(b)], skip: 0, payload: Payload::new(max_payload) }
    }

    /// The same for a link that carries IP packets without a header in front.
    #[must_use]
    pub fn ip(max_payload: usize) -> Self {
        Self { skip: 14, ..Self::ethernet(MacAddr::ZERO, MacAddr::ZERO, max_payload) }
    }

    /// Bytes of an Ethernet header that frames of this link lack.
    #[inline(always)]
    #[must_use]
    pub fn skipped(&self) -> usize {
        self.skip
    }

    /// Bytes 0 to 15 as two numbers: up to the first two bytes of the IPv4 header.
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
    /// to a line.
    #[inline(always)]
    #[must_use]
    pub fn padded(&self, len: usize) -> u32 {
        (if self.skip == 0 { len.max(LINE) } else { len - self.skip }) as u32
    }
}

/// Why a frame is not for a state machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// ARP.
    Arp,
    /// Another protocol, a fragment, IPv4 options.
    Other,
    /// Lengths that contradict each other.
    Malformed,
    /// A checksum is wrong.
    Checksum,
}

/// What of a frame is sent: its first line, and where the payload goes on behind it.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    /// The first line, Ethernet header included.
    pub line: Line,
    /// Bytes of headers and payload with an Ethernet header, before padding.
    pub len: usize,
    /// The part of the payload's text that follows the line.
    pub rest: (usize, usize),
}

/// A packet of one protocol.
pub trait Wire: Copy + core::fmt::Debug {
    /// Reads it from a frame of `len` bytes that begins with `line` (with an Ethernet header in front).
    ///
    /// # Errors
    /// [`Refused`] when it isn't one.
    fn read(line: &Line, len: usize) -> Result<Self, Refused>;

    /// Bytes of headers and payload, with an Ethernet header.
    fn frame_len(&self) -> usize;

    /// Writes it.
    fn frame(&self, framing: &Framing) -> Frame;
}

/// The IPv4 header's fields that are read.
pub(super) struct Ip {
    pub total: usize,
    pub protocol: u8,
    pub src: u32,
    pub dst: u32,
}

/// Reads and checks Ethernet and IPv4.
#[inline(always)]
pub(super) fn read_ip(line: &Line, len: usize) -> Result<Ip, Refused> {
    let (w1, w2, w3, w4) = (line.word(1), line.word(2), line.word(3), line.word(4));
    if (w1 & 0xffff_ff00) != 0x0800_4500 {
        let arp = (w1 >> 16) & 0xffff == 0x0806;
        return Err(if arp { Refused::Arp } else { Refused::Other });
    }
    let total = (w2 >> 48) as usize;
    // A fragment: more to come, or an offset.
    if (w2 >> 16) & 0x3fff != 0 {
        return Err(Refused::Other);
    }
    if total + 14 > len || total < 20 {
        return Err(Refused::Malformed);
    }
    let (src, dst) = ((w3 >> 16) as u32, (w3 << 16) as u32 | (w4 >> 48) as u32);
    let sum = (w1 & 0xffff) + (w2 >> 32) + (w2 & 0xffff_ffff) + (w3 >> 48) + u64::from(src) + u64::from(dst);
    if fold_is_bad(sum) {
        return Err(Refused::Checksum);
    }
    Ok(Ip { total, protocol: w2 as u8, src, dst })
}

/// Whether a sum that includes its checksum says that something was changed.
#[inline(always)]
pub(super) fn fold_is_bad(sum: u64) -> bool {
    !sum.is_multiple_of(0xffff)
}

/// Sum of the addresses and of what lies behind the IPv4 header up to byte `end` of the line; what lies behind that is
/// padding and counts for nothing. The first `FIXED` bytes are always before `end`.
#[inline(always)]
pub(super) fn sum_behind_ip<const FIXED: usize>(line: &Line, end: usize) -> u64 {
    let halves = |word: u64| (word >> 32) + (word & 0xffff_ffff);
    let mut sum = (line.word(3) >> 32 & 0xffff) + (line.word(3) & 0xffff_ffff);
    for at in 4..FIXED / 8 {
        sum += halves(line.word(at));
    }
    // Mostly there is nothing behind the headers, and padding is zero: then nothing has to be cut off.
    let headers = u64::MAX << (64 - FIXED % 8 * 8);
    let behind = (FIXED / 8 + 1..8).fold(line.word(FIXED / 8) & !headers, |all, at| all | line.word(at));
    if behind == 0 {
        return sum + halves(line.word(FIXED / 8));
    }
    for at in FIXED / 8..8 {
        let inside = end.saturating_sub(at * 8).min(8) as u32;
        sum += halves(line.word(at) & u64::MAX.checked_shl(64 - inside * 8).unwrap_or(0));
    }
    sum
}
