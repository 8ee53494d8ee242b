//! What TCP and UDP over IPv4 have in common.

use super::frame::Refused;
use super::line::Line;

/// The IPv4 header's fields that are read.
pub(super) struct Ip {
    /// Bytes from the IP header on.
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
        return Err(if arp { Refused::Question } else { Refused::Other });
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
