//! UDP datagrams with a tag in front of their payload.

use super::checksum::fold;
use super::frame::{Frame, Framing, Refused, UDP, Wire};
use super::ip4::{fold_is_bad, read_ip, sum_behind_ip};
use super::line::{LINE, Line};
use crate::stateful::address::Address;

/// Bytes of Ethernet, IPv4 and UDP headers.
const HEADERS_UDP: usize = <u32 as Address>::HEADERS + UDP;

/// Bytes of the tag that a payload begins with.
pub const TAG_LEN: u16 = 16;

/// A UDP datagram.
///
/// Its tag (four big-endian 32-bit numbers, the first of them [`MAGIC`]) says which flow, life of the flow and turn it belongs to, whatever is done
/// to addresses and ports on the way. A server sends it back as it came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Datagram<A = u32> {
    /// Source address.
    pub src: A,
    /// Destination address.
    pub dst: A,
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Bytes of payload, tag included.
    pub len: u16,
    /// Tag: number of the flow.
    pub flow: u32,
    /// Tag: how often the flow was used before.
    pub life: u32,
    /// Tag: turn within the conversation, from 0.
    pub turn: u32,
}

/// What our tags begin with: "QVR" and a version.
pub const MAGIC: u32 = 0x5156_5201;

impl<A: Address> Wire for Datagram<A> {
    type Address = A;

    #[inline(always)]
    fn read(line: &A::Line, len: usize) -> Result<Self, Refused> {
        A::read_datagram(line, len)
    }

    #[inline(always)]
    fn frame_len(&self) -> usize {
        A::HEADERS + UDP + usize::from(self.len)
    }

    #[inline(always)]
    fn frame(&self, framing: &Framing) -> Frame<A::Line> {
        A::datagram_frame(self, framing)
    }
}

/// The datagram, if the number that its payload begins with is that of our tag.
#[inline(always)]
pub(super) fn ours<A>(magic: u32, datagram: Datagram<A>) -> Result<Datagram<A>, Refused> {
    // What is behind a short one is padding, whatever it looks like.
    if magic == MAGIC && datagram.len >= TAG_LEN { Ok(datagram) } else { Err(Refused::Foreign) }
}

/// Reads a datagram over IPv4; see [`Wire::read`](super::Wire::read).
#[inline(always)]
pub fn read(line: &Line, len: usize) -> Result<Datagram, Refused> {
    let ip = read_ip(line, len)?;
    if ip.protocol != 17 {
        return Err(Refused::Other);
    }
    let (w4, w5, w6, w7) = (line.word(4), line.word(5), line.word(6), line.word(7));
    let udp = (w4 & 0xffff) as usize;
    if udp < 8 || udp + 20 > ip.total {
        return Err(Refused::Malformed);
    }
    let end = 34 + udp;
    let has_checksum = w5 >> 48 != 0;
    if end <= LINE && has_checksum && fold_is_bad(17 + udp as u64 + sum_behind_ip::<HEADERS_UDP>(line, end)) {
        return Err(Refused::Checksum);
    }
    let datagram = Datagram {
        src: ip.src,
        dst: ip.dst,
        src_port: (w4 >> 32) as u16,
        dst_port: (w4 >> 16) as u16,
        len: (udp - 8) as u16,
        flow: (w5 << 16) as u32 | (w6 >> 48) as u32,
        life: (w6 >> 16) as u32,
        turn: (w6 << 16) as u32 | (w7 >> 48) as u32,
    };
    ours((w5 >> 16) as u32, datagram)
}

/// Writes a datagram over IPv4.
#[inline(always)]
pub fn frame(datagram: &Datagram, framing: &Framing) -> Frame<Line> {
    let len = datagram.frame_len();
    let total = (len - 14) as u64;
    let udp = total - 20;
    let (src, dst) = (u64::from(datagram.src), u64::from(datagram.dst));
    let ports = u64::from(datagram.src_port) << 16 | u64::from(datagram.dst_port);
    let ip = 0x4500 + total + 0x4000 + 0x4011 + src + dst;
    let (magic, flow) = (u64::from(MAGIC), u64::from(datagram.flow));
    let (life, turn) = (u64::from(datagram.life), u64::from(datagram.turn));
    let (first, second) = framing.payload.start();
    let start = first << 32 | second >> 32;
    let text = datagram.len.saturating_sub(TAG_LEN);
    // Six bytes of the text lie in the line, or as many as there are.
    let start = start & (0xffff_ffff_ffff << (48 - 8 * u32::from(text.min(6))));
    let sum = 17 + udp * 2 + src + dst + ports + magic + flow + life + turn + framing.payload.sum(text);
    // A sum of zero is sent as its other form, since zero means that there is none.
    let checksum = match fold(sum) {
        0 => 0xffff,
        checksum => u64::from(checksum),
    };
    let line = Line([
        framing.first[0],
        framing.first[1],
        total << 48 | 0x4000_4011,
        u64::from(fold(ip)) << 48 | src << 16 | dst >> 16,
        dst << 48 | ports << 16 | udp,
        checksum << 48 | magic << 16 | flow >> 16,
        flow << 48 | life << 16 | turn >> 16,
        turn << 48 | start,
    ]);
    Frame { line, len, rest: (6, usize::from(text)) }
}
