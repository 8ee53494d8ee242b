//! The checks of `ip4-input` in as few instructions as they take, for packets that pass all of them.

use wire::Header;
use wire::Ipv4Header;

/// Length of the packet in bytes, as its header says.
#[inline(always)]
pub(super) const fn length(header: &[u8; Ipv4Header::LEN]) -> u32 {
    u16::from_be_bytes([header[2], header[3]]) as u32
}

/// Whether the header has no options, says the packet is no shorter than it is itself, is of the first fragment or of a
/// whole packet, goes from and to unicast addresses, and its checksum is right.
#[inline(always)]
pub(super) fn passes(header: &[u8; Ipv4Header::LEN]) -> bool {
    let (words, last) = header.as_chunks::<8>();
    let (&[first, second], Some(last)) = (words, last.first_chunk()) else { return false };
    let [first, second] = [first, second].map(u64::from_le_bytes);
    let last = u32::from_le_bytes(*last);
    // Octets of the words, not of the header: the compiler would load a word byte by byte that it has a byte of already.
    let [src, dst] = [(second >> 32) as u8, last as u8];
    first & (OFFSET | 0xff) == Ipv4Header::VERSION_IHL as u64
        && length(header) >= Ipv4Header::LEN as u32
        && UNICAST[usize::from(src)] & UNICAST[usize::from(dst)] != 0
        && adds_up(first, second, last)
}

/// RFC 1071: the ones' complement sum of a right header is 0xffff, which is to say that the sum of its words is a multiple of
/// that. So with words of any length that is a multiple of 16 bits, and in either byte order; and the sum isn't 0, since
/// the version isn't.
#[inline(always)]
fn adds_up(first: u64, second: u64, last: u32) -> bool {
    let (sum, carry) = first.overflowing_add(second);
    let (sum, carry) = sum.overflowing_add(u64::from(last) + u64::from(carry));
    (sum + u64::from(carry)).is_multiple_of(0xffff)
}

/// The fragment offset within the first eight bytes, the first byte lowest.
const OFFSET: u64 = (0x1fff_u16.swap_bytes() as u64) << 48;

/// By first octet, 1 where an address is unicast: neither 0/8, 127/8 nor 224/3.
static UNICAST: [u8; 256] = {
    let mut table = [1; 256];
    table[0] = 0;
    table[127] = 0;
    let mut octet = 224;
    while octet < table.len() {
        table[octet] = 0;
        octet += 1;
    }
    table
};

/// Takes one from the time to live. False, and nothing changed, where it is used up.
///
/// [`Ipv4Header::decrement_ttl`] in one word, from the lowest byte: time to live, protocol, checksum. What the first loses
/// the checksum gains (RFC 1624), with end-around carry; a result of 0xffff is written as 0.
#[inline(always)]
pub(super) fn take_hop(header: &mut [u8; Ipv4Header::LEN]) -> bool {
    let ([_, _, bytes, _, _], _) = header.as_chunks_mut::<4>() else { return false };
    let word = u32::from_le_bytes(*bytes);
    let passes = word & 0xff > 1;
    if passes {
        let carry = u32::from(word >= 0xfffe_0000) << 16;
        *bytes = word.wrapping_add(0xffff).wrapping_add(carry).to_le_bytes();
    }
    passes
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv4Addr;
    use wire::{IntoBytes, IpProtocol};
    use zerocopy::network_endian::U16;

    #[test]
    fn a_hop_changes_what_the_header_s_own_method_changes() {
        let [src, dst] = [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 1, 2)];
        let mut carried = 0;
        for ttl in [0, 1, 2, 3, 64, 127, 128, 129, 254, 255] {
            for id in 0..=u16::MAX {
                let mut header = Ipv4Header::new(src, dst, IpProtocol::UDP, ttl, 50);
                // Any checksum, right ones among them.
                header.checksum = U16::new(id.wrapping_mul(257) ^ 0xffff);
                let mut bytes = [0; Ipv4Header::LEN];
                bytes.copy_from_slice(header.as_bytes());
                let passes = take_hop(&mut bytes);
                assert_eq!(passes, ttl > 1);
                if passes {
                    carried += u32::from(header.checksum.get() >= 0xfeff);
                    header.decrement_ttl();
                }
                assert_eq!(bytes, header.as_bytes(), "time to live {ttl}, checksum {:?}", header.checksum);
            }
        }
        assert!(carried > 0);
    }

    #[test]
    fn a_header_adds_up_exactly_where_its_checksum_is_right() {
        let header = Ipv4Header::new([192, 0, 2, 1].into(), [10, 0, 0, 1].into(), IpProtocol::TCP, 64, 40);
        for checksum in 0..=u16::MAX {
            let mut changed = header;
            changed.checksum = U16::new(checksum);
            let mut bytes = [0; Ipv4Header::LEN];
            bytes.copy_from_slice(changed.as_bytes());
            assert_eq!(passes(&bytes), changed.verify_checksum(&[]), "{checksum:#06x}");
        }
    }
}
