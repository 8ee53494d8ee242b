//! UDP datagrams over IPv6: ports in bytes 54 to 57, length 58, checksum 60, tag from 62 on, text from 78 on.

use super::datagram::{Datagram, MAGIC, TAG_LEN, ours};
use super::frame::{Frame, Framing, Refused, UDP, Wire};
use super::ip6::{checksum, line, read_ip};
use super::line::Line;

const PROTOCOL: u8 = 17;

/// Reads a datagram over IPv6; see [`Wire::read`](super::Wire::read).
#[inline(always)]
pub fn read(line: &Line<10>, len: usize) -> Result<Datagram<u128>, Refused> {
    let ip = read_ip(line, len, PROTOCOL)?;
    let (w7, w8, w9) = (line.word(7), line.word(8), line.word(9));
    let udp = (w7 >> 32) as u16 as usize;
    // The length says the same as IPv6's, or there is something behind it that no checksum covers.
    if udp < UDP || udp != ip.payload {
        return Err(Refused::Malformed);
    }
    // RFC 8200 section 8.1: none without.
    if (w7 >> 16) as u16 == 0 {
        return Err(Refused::Checksum);
    }
    let datagram = Datagram {
        src: ip.src,
        dst: ip.dst,
        src_port: line.word(6) as u16,
        dst_port: (w7 >> 48) as u16,
        len: (udp - UDP) as u16,
        flow: (w8 >> 16) as u32,
        life: (w8 << 16) as u32 | (w9 >> 48) as u32,
        turn: (w9 >> 16) as u32,
    };
    ours((w7 << 16) as u32 | (w8 >> 48) as u32, datagram)
}

/// Writes a datagram over IPv6.
#[inline(always)]
pub fn frame(datagram: &Datagram<u128>, framing: &Framing) -> Frame<Line<10>> {
    let len = datagram.frame_len();
    let udp = (len - 54) as u64;
    let (magic, flow) = (u64::from(MAGIC), u64::from(datagram.flow));
    let (life, turn) = (u64::from(datagram.life), u64::from(datagram.turn));
    let (src_port, dst_port) = (u64::from(datagram.src_port), u64::from(datagram.dst_port));
    let text = datagram.len.saturating_sub(TAG_LEN);
    // Two bytes of the text lie in the line, or as many as there are.
    let start = framing.payload.start().0 & (0xffff << (16 - 8 * u32::from(text.min(2))));
    let sum = src_port + dst_port + udp + magic + flow + life + turn + framing.payload.sum(text);
    let (ends, carried) = ((datagram.src, datagram.dst), (udp, u64::from(PROTOCOL)));
    // A sum of zero is sent as its other form, since zero means that there is none.
    let checksum = match checksum(ends, carried, sum) {
        0 => 0xffff,
        checksum => u64::from(checksum),
    };
    let behind = [
        dst_port << 48 | udp << 32 | checksum << 16 | magic >> 16,
        magic << 48 | flow << 16 | life >> 16,
        life << 48 | turn << 16 | start,
    ];
    Frame { line: line(framing, ends, carried, datagram.src_port, behind), len, rest: (2, usize::from(text)) }
}
