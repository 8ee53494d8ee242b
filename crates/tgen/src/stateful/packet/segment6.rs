//! TCP segments over IPv6: ports in bytes 54 to 57, sequence number from 58, acknowledgment from 62, offset and flags from
//! 66, window 68, checksum 70, urgent pointer 72, options or payload from 74 on.

use super::frame::{Frame, Framing, Refused, TCP, Wire};
use super::ip6::{checksum, line, read_ip};
use super::line::{Head, Line};
use super::segment::{Segment, mss_option};
use wire::TcpFlags;

const PROTOCOL: u8 = 6;
/// Bytes in front of options or payload.
const HEADERS: usize = 54 + TCP;

/// Reads a segment over IPv6; see [`Wire::read`](super::Wire::read).
#[inline(always)]
pub fn read(line: &Line<10>, len: usize) -> Result<Segment<u128>, Refused> {
    let ip = read_ip(line, len, PROTOCOL)?;
    let (w7, w8, w9) = (line.word(7), line.word(8), line.word(9));
    let offset = (w8 >> 44 & 0xf) as usize * 4;
    if offset < TCP || offset > ip.payload {
        return Err(Refused::Malformed);
    }
    let flags = (w8 >> 32) as u8;
    let mss = match flags & TcpFlags::SYN.bits() != 0 && offset > TCP {
        true if (w9 >> 32) as u16 == 0x0204 => (w9 >> 16) as u16,
        true => mss_option(line.to_vec().get(HEADERS..(54 + offset).min(80)).unwrap_or_default()),
        false => 0,
    };
    Ok(Segment {
        src: ip.src,
        dst: ip.dst,
        seq: (w7 >> 16) as u32,
        ack: (w7 << 16) as u32 | (w8 >> 48) as u32,
        src_port: line.word(6) as u16,
        dst_port: (w7 >> 48) as u16,
        len: (ip.payload - offset) as u16,
        window: (w8 >> 16) as u16,
        mss,
        flags,
    })
}

/// Writes a segment over IPv6.
#[inline(always)]
pub fn frame(segment: &Segment<u128>, framing: &Framing) -> Frame<Line<10>> {
    let len = segment.frame_len();
    let carried = ((len - 54) as u64, u64::from(PROTOCOL));
    let (seq, ack) = (u64::from(segment.seq), u64::from(segment.ack));
    let (src_port, dst_port) = (u64::from(segment.src_port), u64::from(segment.dst_port));
    // Up to six bytes lie in the line: an option or the beginning of the payload.
    let (last, offset, sum) = if segment.mss == 0 {
        let (first, second) = framing.payload.start();
        let text = first << 32 | second >> 32;
        let text = text & (0xffff_ffff_ffff << (48 - 8 * u32::from(segment.len.min(6))));
        (text, 0x50, framing.payload.sum(segment.len))
    } else {
        (0x0204_0000_0000 | u64::from(segment.mss) << 16, 0x60, 0x0204 + u64::from(segment.mss))
    };
    let control = offset << 8 | u64::from(segment.flags);
    let sum = sum + src_port + dst_port + seq + ack + control + u64::from(segment.window);
    let ends = (segment.src, segment.dst);
    let checksum = u64::from(checksum(ends, carried, sum));
    let behind = [
        dst_port << 48 | seq << 16 | ack >> 16,
        ack << 48 | control << 32 | u64::from(segment.window) << 16 | checksum,
        last,
    ];
    let rest = (Line::<10>::LEN - segment.header(), usize::from(segment.len));
    Frame { line: line(framing, ends, carried, segment.src_port, behind), len, rest }
}
