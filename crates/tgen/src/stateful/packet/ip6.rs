//! What TCP and UDP over IPv6 have in common. The line is ten words: Ethernet in bytes 0 to 13, IPv6 in 14 to 53, what it
//! carries from byte 54 on.

use super::checksum::fold;
use super::frame::{Framing, Refused};
use super::ip4::fold_is_bad;
use super::line::{Head, Line};
use crate::stateful::address::Address;

/// Bytes of Ethernet and IPv6 headers.
const HEADERS: usize = <u128 as Address>::HEADERS;
/// Hops that packets may still make.
const HOP_LIMIT: u64 = 64;
/// Next header of ICMPv6, and its type of a neighbour solicitation.
const SOLICITATION: (u8, u64) = (58, 135);

/// The IPv6 header's fields that are read.
pub(super) struct Ip {
    /// Bytes behind the IPv6 header.
    pub payload: usize,
    pub src: u128,
    pub dst: u128,
}

/// Reads Ethernet and IPv6 headers of a packet that carries `protocol`, and checks the checksum of what lies in the line.
#[inline(always)]
pub(super) fn read_ip(line: &Line<10>, len: usize, protocol: u8) -> Result<Ip, Refused> {
    let (w1, w2) = (line.word(1), line.word(2));
    if (w1 & 0xffff_f000) != 0x86dd_6000 {
        return Err(Refused::Other);
    }
    let next = (w2 >> 24) as u8;
    if next != protocol {
        let question = (next, (line.word(6) >> 8) & 0xff) == SOLICITATION;
        return Err(if question { Refused::Question } else { Refused::Other });
    }
    let payload = (w2 >> 32 & 0xffff) as usize;
    if payload + HEADERS > len {
        return Err(Refused::Malformed);
    }
    let wide = |n: usize| u128::from(line.word(n));
    let (src, dst) = (
        (wide(2) & 0xffff) << 112 | wide(3) << 48 | wide(4) >> 16,
        (wide(4) & 0xffff) << 112 | wide(5) << 48 | wide(6) >> 16,
    );
    let end = HEADERS + payload;
    if end <= Line::<10>::LEN {
        let sum = u64::from(protocol) + payload as u64 + src.sum() + dst.sum() + sum_behind_ip(line, end);
        if fold_is_bad(sum) {
            return Err(Refused::Checksum);
        }
    }
    Ok(Ip { payload, src, dst })
}

/// Sum of what lies behind the IPv6 header up to byte `end` of the line; what lies behind that is padding.
#[inline(always)]
fn sum_behind_ip(line: &Line<10>, end: usize) -> u64 {
    let mut sum = 0;
    for at in 6..10 {
        let inside = end.saturating_sub(at * 8).min(8) as u32;
        let word = line.word(at) & u64::MAX.checked_shl(64 - inside * 8).unwrap_or(0);
        let word = if at == 6 { word & 0xffff } else { word };
        sum += (word >> 32) + (word & 0xffff_ffff);
    }
    sum
}

/// The line of a packet. `first`: the two bytes behind the header; `behind`: the three words after those, in which the
/// checksum is zero.
#[inline(always)]
pub(super) fn line(
    framing: &Framing,
    (src, dst): (u128, u128),
    (payload, protocol): (u64, u64),
    first: u16,
    behind: [u64; 3],
) -> Line<10> {
    Line([
        framing.first[0],
        framing.first[1],
        payload << 32 | protocol << 24 | HOP_LIMIT << 16 | (src >> 112) as u64,
        (src >> 48) as u64,
        (src as u64) << 16 | (dst >> 112) as u64,
        (dst >> 48) as u64,
        (dst as u64) << 16 | u64::from(first),
        behind[0],
        behind[1],
        behind[2],
    ])
}

/// Checksum of a packet, of whose payload and ports `sum` is the sum.
#[inline(always)]
pub(super) fn checksum((src, dst): (u128, u128), (payload, protocol): (u64, u64), sum: u64) -> u16 {
    fold(src.sum() + dst.sum() + payload + protocol + sum)
}
