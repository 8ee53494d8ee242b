//! Checksums of frames that are put together from numbers instead of bytes.
//!
//! The ones' complement sum of RFC 1071 doesn't care how wide its words are, since 2^16 leaves a rest of 1 when
//! divided by 0xffff: 32-bit fields are added whole, and folded once at the end.

use wire::checksum::Partial;
use wire::{Header, IpProtocol, Ipv4Header, Ipv6Header};

/// Folds a sum of fields, below 2^63, to the checksum that goes into a header.
#[inline(always)]
#[must_use]
pub const fn fold(sum: u64) -> u16 {
    let sum = (sum >> 32) + (sum & 0xffff_ffff);
    let sum = (sum >> 32) as u32 + sum as u32;
    // Both halves change places and are added: what the lower ones carry goes to the upper ones.
    !(sum.wrapping_add(sum.rotate_left(16)) >> 16) as u16
}

/// Whether all that the checksum of a TCP or UDP packet covers says the same as it; true for other packets. `frame` has an
/// Ethernet header.
#[must_use]
pub fn checksum_is_right(frame: &[u8]) -> bool {
    let Some(packet) = frame.get(14..) else { return true };
    match packet.first().map(|first| first >> 4) {
        Some(4) => is_right4(packet),
        Some(6) => is_right6(packet),
        _ => true,
    }
}

fn is_right4(packet: &[u8]) -> bool {
    let Ok((ip, _)) = Ipv4Header::parse(packet) else { return true };
    let (start, end) = (ip.header_len(), usize::from(ip.total_len.get()));
    let Some(transport) = packet.get(start..end) else { return true };
    let unused = ip.protocol == IpProtocol::UDP && transport.get(6..8) == Some(&[0, 0]);
    if unused || !matches!(ip.protocol, IpProtocol::TCP | IpProtocol::UDP) {
        return true;
    }
    ip.pseudo_header(transport.len() as u16).plus(Partial::of(transport)).is_valid()
}

fn is_right6(packet: &[u8]) -> bool {
    let Ok((ip, rest)) = Ipv6Header::parse(packet) else { return true };
    let Some(transport) = rest.get(..usize::from(ip.payload_len.get())) else { return true };
    if !matches!(ip.next_header, IpProtocol::TCP | IpProtocol::UDP) {
        return true;
    }
    ip.pseudo_header(ip.next_header, transport.len() as u32).plus(Partial::of(transport)).is_valid()
}

/// The bytes that are sent as payload, and their sums.
///
/// Every segment's payload is the beginning of the same text, so that a sum of its length is a look-up.
#[derive(Clone, Debug)]
pub struct Payload {
    bytes: Vec<u8>,
    /// Sum of the first `n` bytes as big-endian 16-bit words, an odd last byte padded with zero.
    sums: Vec<u16>,
    start: (u64, u64),
}

impl Payload {
    /// Payloads of up to `max` bytes.
    #[must_use]
    pub fn new(max: usize) -> Self {
        let bytes: Vec<u8> = (0..max.max(16)).map(|at| b' ' + (at % 95) as u8).collect();
        let mut sums = Vec::with_capacity(bytes.len() + 1);
        let mut even = 0u32;
        sums.push(0);
        for (at, byte) in bytes.iter().enumerate() {
            let add = if at % 2 == 0 { u32::from(*byte) << 8 } else { u32::from(*byte) };
            even += add;
            even = (even >> 16) + (even & 0xffff);
            sums.push(even as u16);
        }
        let number =
            |from: usize, to: usize| bytes[from..to].iter().fold(0, |all, byte| all << 8 | u64::from(*byte));
        let start = (number(0, 2), number(2, 10));
        Self { bytes, sums, start }
    }

    /// Sum of the first `len` bytes, at an even offset.
    #[inline(always)]
    #[must_use]
    pub fn sum(&self, len: u16) -> u64 {
        self.sums.get(usize::from(len)).map_or(0, |sum| u64::from(*sum))
    }

    /// The bytes from `from` to `to`; fewer where there aren't as many.
    #[inline(always)]
    #[must_use]
    pub fn bytes(&self, from: usize, to: usize) -> &[u8] {
        self.bytes.get(from..to.min(self.bytes.len())).unwrap_or_default()
    }

    /// The first two bytes and the eight behind them as numbers: how the line goes on behind a TCP header.
    #[inline(always)]
    #[must_use]
    pub(super) fn start(&self) -> (u64, u64) {
        self.start
    }

    /// Longest payload.
    #[must_use]
    pub fn max(&self) -> usize {
        self.bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::fold;

    #[test]
    fn folding_is_the_rest_by_0xffff() {
        let sums =
            (0..63).flat_map(|bit| [(1u64 << bit) - 1, 1 << bit, (1 << bit) + 0xfffe, (1 << bit) * 3 / 2]);
        for sum in sums.chain([0xffff, 0x1_fffe, 0xffff_ffff, 0x1_0000_fffe, 0xffff_0000, (1 << 63) - 1]) {
            // RFC 1071: 0 only of 0, otherwise the rest, with 0xffff for none.
            let rest = if sum == 0 { 0 } else { (sum - 1) % 0xffff + 1 };
            assert_eq!(u64::from(!fold(sum)), rest, "{sum:#x}");
        }
    }
}
