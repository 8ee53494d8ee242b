//! The 16 bytes of a descriptor.

use memory::region::{CheckedRange, Extents};

use super::Fault;

#[cfg(not(target_endian = "little"))]
compile_error!("memif shares memory in host byte order, and all its peers are little-endian");

/// Flag bit: the packet goes on in the next slot.
pub const FLAG_NEXT: u16 = 1;

/// A descriptor, read out of a ring. Layout in shared memory: flags u16 @0, region u16 @2, length u32 @4,
/// offset u32 @8, metadata u32 @12 (not used by anyone).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Descriptor {
    /// Flag bits; only [`FLAG_NEXT`] has a meaning.
    pub flags: u16,
    /// Index of the region the buffer lies in.
    pub region: u16,
    /// Bytes: of the packet part, or of the empty buffer.
    pub length: u32,
    /// Offset of the buffer in its region, in bytes.
    pub offset: u32,
}

impl Descriptor {
    /// From its two 64-bit words.
    #[inline(always)]
    #[must_use]
    pub const fn from_words(first: u64, second: u64) -> Self {
        Self {
            flags: first as u16,
            region: (first >> 16) as u16,
            length: (first >> 32) as u32,
            offset: second as u32,
        }
    }

    /// The word with flags, region and length.
    #[inline(always)]
    #[must_use]
    pub const fn first_word(self) -> u64 {
        self.flags as u64 | (self.region as u64) << 16 | (self.length as u64) << 32
    }

    /// The word with the offset; metadata is 0.
    #[inline(always)]
    #[must_use]
    pub const fn second_word(self) -> u64 {
        self.offset as u64
    }

    /// Its range, if it lies inside one of the regions.
    #[inline(always)]
    pub(super) fn check(self, table: Extents<'_>) -> Result<CheckedRange<'_>, Fault> {
        let Self { region, offset, length, .. } = self;
        table.check(region, offset, length).ok_or(Fault::Range { region, offset, length })
    }

    /// Whether the packet goes on in the next slot.
    #[inline(always)]
    #[must_use]
    pub const fn has_next(self) -> bool {
        self.flags & FLAG_NEXT != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layout() {
        let d = Descriptor { flags: FLAG_NEXT, region: 0x0203, length: 0x0405_0607, offset: 0x0809_0a0b };
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&d.first_word().to_le_bytes());
        bytes[8..].copy_from_slice(&d.second_word().to_le_bytes());
        assert_eq!(bytes, [1, 0, 3, 2, 7, 6, 5, 4, 0xb, 0xa, 9, 8, 0, 0, 0, 0]);
        assert_eq!(Descriptor::from_words(d.first_word(), d.second_word() | 7 << 32), d);
    }
}
