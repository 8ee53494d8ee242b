//! Ones' complement sums that can be combined.

/// Ones' complement sum of some bytes, not yet folded to 16 bits.
///
/// The sum stands as if the bytes began at an even offset of the packet; [`Partial::at`] moves it. Addition is
/// commutative and associative, so pieces may be summed in any order.
///
/// Kept as a 64-bit ones' complement number of words in *native* byte order: 2^64-1 is a multiple of 2^16-1, so
/// adding with end-around carry loses nothing, a rotation by 8 bits is a move by one byte, and byte order
/// only matters at the end (RFC 1071 section 2).
#[derive(Clone, Copy, Debug, Default)]
pub struct Partial(u64);

impl Partial {
    /// Sum of nothing.
    pub const ZERO: Self = Self(0);

    /// Sum of `bytes`, taken to begin at an even offset. An odd last byte is padded with zero, as in the RFC.
    #[inline]
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        // Eight independent 64-bit sums of 32-bit words: no carry to look after (that would take 2^32 rounds),
        // and a shape the compiler turns into vector code.
        let (blocks, rest) = bytes.as_chunks::<32>();
        let mut lanes = [0u64; 8];
        for block in blocks {
            let (words, _) = block.as_chunks::<4>();
            for (lane, word) in lanes.iter_mut().zip(words) {
                *lane += u64::from(u32::from_ne_bytes(*word));
            }
        }
        let mut sum = Self::ZERO;
        for lane in lanes {
            sum = sum.plus(Self(lane));
        }

        let (words, rest) = rest.as_chunks::<4>();
        let mut tail: u64 = words.iter().map(|word| u64::from(u32::from_ne_bytes(*word))).sum();
        let (halves, rest) = rest.as_chunks::<2>();
        tail += halves.iter().map(|half| u64::from(u16::from_ne_bytes(*half))).sum::<u64>();
        if let [last] = rest {
            tail += u64::from(u16::from_ne_bytes([*last, 0]));
        }
        sum.plus(Self(tail))
    }

    /// [`Partial::of`] for a header of fixed size, a multiple of 4 bytes: a few additions, always in place.
    #[inline(always)]
    #[must_use]
    pub fn of_header<const N: usize>(bytes: &[u8; N]) -> Self {
        const { assert!(N.is_multiple_of(4) && N <= 64) };
        let (words, _) = bytes.as_chunks::<4>();
        Self(words.iter().map(|word| u64::from(u32::from_ne_bytes(*word))).sum())
    }

    /// Sum of one 16-bit number in network byte order.
    #[inline]
    #[must_use]
    pub const fn of_u16(value: u16) -> Self {
        Self(value.to_be() as u64)
    }

    /// Sum of one 32-bit number in network byte order.
    #[inline]
    #[must_use]
    pub const fn of_u32(value: u32) -> Self {
        Self(value.to_be() as u64)
    }

    /// Both sums together.
    #[inline]
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        let (sum, carry) = self.0.overflowing_add(other.0);
        Self(sum + carry as u64)
    }

    /// This sum taken away again: `a.plus(b).minus(b)` equals `a` (up to the two forms of zero).
    #[inline]
    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        self.plus(Self(!other.0))
    }

    /// This sum for bytes that begin at `offset` of the packet instead of at an even one.
    #[inline]
    #[must_use]
    pub const fn at(self, offset: usize) -> Self {
        if offset & 1 == 0 { self } else { Self(self.0.rotate_left(8)) }
    }

    /// Sum of several slices that follow each other, e.g. a head and the body's segments.
    #[must_use]
    pub fn of_pieces<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut offset = 0;
        let mut sum = Self::ZERO;
        for piece in pieces {
            sum = sum.plus(Self::of(piece).at(offset));
            // only the parity counts, so wrapping does no harm
            offset = usize::wrapping_add(offset, piece.len());
        }
        sum
    }

    /// The sum folded to 16 bits, as a number in host order: 0xffff over bytes that include a right checksum.
    #[inline]
    #[must_use]
    pub const fn fold(self) -> u16 {
        let sum = (self.0 >> 32) + (self.0 & 0xffff_ffff);
        let sum = (sum >> 32) + (sum & 0xffff_ffff);
        let sum = (sum >> 16) + (sum & 0xffff);
        let sum = (sum >> 16) + (sum & 0xffff);
        u16::from_be(sum as u16)
    }

    /// What goes into the checksum field, if the field was zero (or left out) when the bytes were summed.
    #[inline]
    #[must_use]
    pub const fn checksum(self) -> u16 {
        !self.fold()
    }

    /// [`checksum`](Self::checksum) for TCP and UDP: never 0, which for UDP means "none" (RFC 768). 0xffff is the same
    /// number otherwise.
    #[inline]
    #[must_use]
    pub const fn transport_checksum(self) -> u16 {
        match self.checksum() {
            0 => u16::MAX,
            checksum => checksum,
        }
    }

    /// Whether the bytes, with their checksum field among them, are as they were sent.
    #[inline]
    #[must_use]
    pub const fn is_valid(self) -> bool {
        // What folds to 0xffff: every multiple of 0xffff but 0. That takes one multiplication and no folding.
        self.0 != 0 && self.0.is_multiple_of(0xffff)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 1071 section 3: the bytes of its example, and the sum it gives.
    #[test]
    fn rfc_1071_example() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(Partial::of(&bytes).fold(), 0xddf2);
        assert_eq!(Partial::of(&bytes).checksum(), 0x220d);
    }

    #[test]
    fn numbers_and_bytes_agree() {
        assert_eq!(Partial::of_u16(0x1234).fold(), Partial::of(&[0x12, 0x34]).fold());
        assert_eq!(Partial::of_u32(0x1234_5678).fold(), Partial::of(&[0x12, 0x34, 0x56, 0x78]).fold());
    }

    #[test]
    fn the_two_zeros() {
        assert_eq!(Partial::ZERO.fold(), 0);
        assert_eq!(Partial::of(&[0; 64]).fold(), 0);
        assert_eq!(Partial::of(&[0xff; 64]).fold(), 0xffff, "nonzero bytes never sum to zero");
        assert_eq!(
            (Partial::of(&[0xff; 64]).checksum(), Partial::of(&[0xff; 64]).transport_checksum()),
            (0, 0xffff)
        );
        assert_eq!(Partial::of_u16(0x1234).transport_checksum(), !0x1234);
    }
}
