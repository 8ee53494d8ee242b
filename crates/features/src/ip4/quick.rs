//! The checks of `ip4-input` in as few instructions as they take, for packets that pass all of them.

use wire::Header;
use wire::Ipv4Header;

/// The bytes of a header without options.
#[derive(Clone, Copy)]
pub(super) struct Quick<'a>(pub(super) &'a [u8; Ipv4Header::LEN]);

impl Quick<'_> {
    /// Whether the header has no options, says the packet is `len` bytes long, is of the first fragment or of a whole
    /// packet, goes from and to unicast addresses, and its checksum is right.
    #[inline(always)]
    pub(super) fn passes(self, len: u32) -> bool {
        let header = self.0;
        header[0] == Ipv4Header::VERSION_IHL
            && u32::from(u16::from_be_bytes([header[2], header[3]])) == len
            && u16::from_ne_bytes([header[6], header[7]]) & OFFSET == 0
            && UNICAST[usize::from(header[12])] & UNICAST[usize::from(header[16])] != 0
            && self.adds_up()
    }

    /// RFC 1071: the ones' complement sum of a right header is 0xffff, which is to say that the sum of its words is a multiple
    /// of that. So with words of any length that is a multiple of 16 bits, and in either byte order; and the sum isn't 0,
    /// since the version isn't.
    #[inline(always)]
    fn adds_up(self) -> bool {
        let (words, _) = self.0.as_chunks::<4>();
        let sum: u64 = words.iter().map(|word| u64::from(u32::from_ne_bytes(*word))).sum();
        sum.is_multiple_of(0xffff)
    }
}

/// The fragment offset as it stands in memory.
const OFFSET: u16 = 0x1fff_u16.to_be();

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
