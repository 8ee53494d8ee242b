//! Ports of SCTP, whose checksum covers the whole packet, of which only the beginning is here.
//!
//! A CRC is linear: what other ports do to that of a packet is the CRC of the difference, followed by as many zero bytes as
//! the packet has behind its ports (RFC 9260 appendix A: CRC32c, reflected). Behind them is a multiplication by a power of x.

use super::translation::{Unfit, joined};

/// The polynomial of CRC32c, reflected.
const POLYNOMIAL: u32 = 0x82f6_3b78;
/// Where the checksum is in the header.
const CHECKSUM: usize = 8;
/// Bytes of both ports.
const PORTS: usize = 4;
/// Packets are shorter than 2^17 bytes, 2^20 bits.
const POWERS: usize = 20;
/// x to the power of 2^n, modulo the polynomial.
const SQUARES: [u32; POWERS] = squares();

/// The product of two polynomials modulo the CRC's; the uppermost bit is the constant term.
const fn product(a: u32, mut b: u32) -> u32 {
    let (mut bit, mut product) = (1 << 31, 0);
    while bit != 0 {
        if a & bit != 0 {
            product ^= b;
        }
        b = b >> 1 ^ if b & 1 != 0 { POLYNOMIAL } else { 0 };
        bit >>= 1;
    }
    product
}

const fn squares() -> [u32; POWERS] {
    // The second bit from above: x.
    let mut all = [1 << 30; POWERS];
    let mut at = 1;
    while at < POWERS {
        all[at] = product(all[at - 1], all[at - 1]);
        at += 1;
    }
    all
}

/// What a difference in the first four bytes of `length` does to their CRC.
const fn change(difference: u32, length: usize) -> u32 {
    // A word is multiplied by x^32 in passing, as are the bits behind it.
    let mut bits = length as u32 * 8;
    let (mut crc, mut power) = (difference.swap_bytes(), 0);
    while bits != 0 && power < POWERS {
        if bits & 1 != 0 {
            crc = product(SQUARES[power], crc);
        }
        (bits, power) = (bits >> 1, power + 1);
    }
    crc
}

/// Replaces the ports of a packet of `length` bytes from its SCTP header on, and has its checksum changed.
pub(super) fn replace_ports(
    header: &mut [u8],
    length: usize,
    old: [u16; 2],
    new: [u16; 2],
) -> Result<(), Unfit> {
    let header = header.first_chunk_mut::<{ CHECKSUM + 4 }>().ok_or(Unfit::Short)?;
    let (old, new) = (joined(old), joined(new));
    if header[..PORTS] != old {
        return Err(Unfit::Foreign);
    }
    if old == new {
        return Ok(());
    }
    header[..PORTS].copy_from_slice(&new);
    let difference = u32::from_be_bytes(old) ^ u32::from_be_bytes(new);
    let change = change(difference, length).to_le_bytes();
    for (byte, change) in header[CHECKSUM..].iter_mut().zip(change) {
        *byte ^= change;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bit by bit, as RFC 9260 appendix A defines it.
    fn crc(bytes: &[u8]) -> u32 {
        let step = |crc: u32, byte: &u8| {
            (0..8).fold(crc ^ u32::from(*byte), |crc, _| crc >> 1 ^ if crc & 1 != 0 { POLYNOMIAL } else { 0 })
        };
        !bytes.iter().fold(u32::MAX, step)
    }

    /// RFC 3720 section B.4: 32 bytes of zeros, and 0 to 31.
    #[test]
    fn the_crc_is_crc32c() {
        assert_eq!(crc(&[0; 32]).to_le_bytes(), [0xaa, 0x36, 0x91, 0x8a]);
        let ascending: Vec<u8> = (0..32).collect();
        assert_eq!(crc(&ascending).to_le_bytes(), [0x4e, 0x79, 0xdd, 0x46]);
    }

    #[test]
    fn other_ports_and_the_checksum_that_belongs_to_them() {
        for length in [12, 13, 16, 36, 100, 1452, 9000, 65515] {
            let mut packet: Vec<u8> = (0..length).map(|at| (at * 7 + at / 251) as u8).collect();
            packet[..PORTS].copy_from_slice(&joined([40000, 132]));
            packet[CHECKSUM..CHECKSUM + 4].fill(0);
            let sum = crc(&packet);
            packet[CHECKSUM..CHECKSUM + 4].copy_from_slice(&sum.to_le_bytes());
            replace_ports(&mut packet[..12], length, [40000, 132], [50001, 9899]).unwrap();
            let found = [packet[8], packet[9], packet[10], packet[11]];
            packet[CHECKSUM..CHECKSUM + 4].fill(0);
            assert_eq!(found, crc(&packet).to_le_bytes(), "{length}");
            assert_eq!(replace_ports(&mut packet, length, [1, 2], [3, 4]), Err(Unfit::Foreign));
        }
        assert_eq!(replace_ports(&mut [0; 11], 11, [0, 0], [1, 1]), Err(Unfit::Short));
    }
}
