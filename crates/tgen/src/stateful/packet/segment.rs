//! TCP segments.

use super::checksum::fold;
use super::frame::{Frame, Framing, Refused, TCP, Wire};
use super::ip4::{fold_is_bad, read_ip, sum_behind_ip};
use super::line::{LINE, Line};
use crate::stateful::address::Address;
use wire::{TcpFlags, TcpOption, TcpOptions};

/// Bytes of Ethernet, IPv4 and TCP headers without options.
const HEADERS_TCP: usize = <u32 as Address>::HEADERS + TCP;

/// A TCP segment without options but the maximum segment size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment<A = u32> {
    /// Source address.
    pub src: A,
    /// Destination address.
    pub dst: A,
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgment number.
    pub ack: u32,
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Bytes of payload.
    pub len: u16,
    /// Window as it stands in the header.
    pub window: u16,
    /// Maximum segment size option; 0: there is none.
    pub mss: u16,
    /// Flags, see [`TcpFlags`].
    pub flags: u8,
}

impl<A: Address> Segment<A> {
    /// Whether all of `flags` are set.
    #[inline(always)]
    #[must_use]
    pub const fn has(&self, flags: TcpFlags) -> bool {
        self.flags & flags.bits() == flags.bits()
    }

    /// Sequence numbers that it takes: payload, SYN and FIN.
    #[inline(always)]
    #[must_use]
    pub const fn span(&self) -> u32 {
        self.len as u32 + self.has(TcpFlags::SYN) as u32 + self.has(TcpFlags::FIN) as u32
    }

    /// Bytes of all headers.
    pub(super) const fn header(&self) -> usize {
        A::HEADERS + TCP + if self.mss == 0 { 0 } else { 4 }
    }
}

/// The maximum segment size among the options of a SYN; 0: there is none.
#[must_use]
pub fn mss_option(options: &[u8]) -> u16 {
    TcpOptions::new(options)
        .find_map(|option| match option {
            Ok(TcpOption::MaximumSegmentSize(mss)) => Some(mss),
            _ => None,
        })
        .unwrap_or(0)
}

impl<A: Address> Wire for Segment<A> {
    type Address = A;

    #[inline(always)]
    fn read(line: &A::Line, len: usize) -> Result<Self, Refused> {
        A::read_segment(line, len)
    }

    #[inline(always)]
    fn frame_len(&self) -> usize {
        self.header() + usize::from(self.len)
    }

    #[inline(always)]
    fn frame(&self, framing: &Framing) -> Frame<A::Line> {
        A::segment_frame(self, framing)
    }
}

/// Reads a segment over IPv4; see [`Wire::read`](super::Wire::read).
#[inline(always)]
pub fn read(line: &Line, len: usize) -> Result<Segment, Refused> {
    let ip = read_ip(line, len)?;
    if ip.protocol != 6 {
        return Err(Refused::Other);
    }
    let (w4, w5, w6) = (line.word(4), line.word(5), line.word(6));
    let offset = ((w5 >> 12) & 0xf) as usize * 4;
    if offset < 20 || offset + 20 > ip.total {
        return Err(Refused::Malformed);
    }
    let end = 14 + ip.total;
    if end <= LINE {
        let sum = 6 + (ip.total as u64 - 20) + sum_behind_ip::<HEADERS_TCP>(line, end);
        if fold_is_bad(sum) {
            return Err(Refused::Checksum);
        }
    }
    let flags = w5 as u8;
    let mss = match flags & TcpFlags::SYN.bits() != 0 && offset > 20 {
        // The option comes first wherever it was seen.
        true if w6 & 0xffff == 0x0204 => (line.word(7) >> 48) as u16,
        true => mss_option(line.bytes().get(HEADERS_TCP..(34 + offset).min(LINE)).unwrap_or_default()),
        false => 0,
    };
    Ok(Segment {
        src: ip.src,
        dst: ip.dst,
        seq: (w4 << 16) as u32 | (w5 >> 48) as u32,
        ack: (w5 >> 16) as u32,
        src_port: (w4 >> 32) as u16,
        dst_port: (w4 >> 16) as u16,
        len: (ip.total - 20 - offset) as u16,
        window: (w6 >> 48) as u16,
        mss,
        flags,
    })
}

/// Writes a segment over IPv4.
#[inline(always)]
pub fn frame(segment: &Segment, framing: &Framing) -> Frame<Line> {
    let len = segment.frame_len();
    let total = (len - 14) as u64;
    let (src, dst) = (u64::from(segment.src), u64::from(segment.dst));
    let (seq, ack) = (u64::from(segment.seq), u64::from(segment.ack));
    let ports = u64::from(segment.src_port) << 16 | u64::from(segment.dst_port);
    // Version, length, and don't fragment: identification means nothing then (RFC 6864).
    let ip = 0x4500 + total + 0x4000 + 0x4006 + src + dst;
    let (first, second, offset, more) = if segment.mss == 0 {
        let (first, second) = framing.payload.start();
        (first, second, 0x50, framing.payload.sum(segment.len))
    } else {
        (0x0204, u64::from(segment.mss) << 48, 0x60, 0x0204 + u64::from(segment.mss))
    };
    let control = offset << 8 | u64::from(segment.flags);
    let tcp = 6 + (total - 20) + src + dst + ports + seq + ack + control + u64::from(segment.window) + more;
    let inside = LINE - segment.header();
    // Short payloads end within the line: what follows is padding, which is zero.
    let (first, second) = if (segment.len as usize) < inside && segment.mss == 0 {
        cut(first, second, segment.len)
    } else {
        (first, second)
    };
    let line = Line([
        framing.first[0],
        framing.first[1],
        total << 48 | 0x4000_4006,
        u64::from(fold(ip)) << 48 | src << 16 | dst >> 16,
        dst << 48 | ports << 16 | seq >> 16,
        seq << 48 | ack << 16 | control,
        u64::from(segment.window) << 48 | u64::from(fold(tcp)) << 32 | first,
        second,
    ]);
    Frame { line, len, rest: (inside, usize::from(segment.len)) }
}

/// The first `len` of ten bytes.
#[inline(always)]
fn cut(first: u64, second: u64, len: u16) -> (u64, u64) {
    match u32::from(len) {
        0 => (0, 0),
        1 => (first & 0xff00, 0),
        2 => (first, 0),
        n => (first, second & (u64::MAX << (8 * (10 - n)))),
    }
}
