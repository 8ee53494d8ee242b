//! Work descriptors.

use std::mem::offset_of;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

/// Flags of a descriptor: the lower 24 bits of its second word (`IDXD_OP_FLAG_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flags(pub u32);

impl Flags {
    /// Not before all descriptors ahead of it in its batch are done.
    pub const FENCE: Self = Self(0x1);
    /// The device waits for a page that isn't there, instead of stopping.
    pub const BLOCK_ON_FAULT: Self = Self(0x2);
    /// There is a completion record's address.
    pub const RECORD_VALID: Self = Self(0x4);
    /// A completion record is wanted, not only in case of an error.
    pub const RECORD: Self = Self(0x8);
    /// What is written goes to the last level cache, not past it.
    pub const CACHE: Self = Self(0x100);

    /// Both.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all of `other`'s flags are set.
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// Operations that are used here (`DSA_OPCODE_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Opcode {
    /// Does what a list of descriptors says.
    Batch = 1,
    /// Copies; source and destination may overlap.
    MemMove = 3,
}

/// A descriptor as the device reads it: 64 bytes at a multiple of 64, little-endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C, align(64))]
pub struct Descriptor {
    /// Whose addresses these are; the kernel (ENQCMD) or the queue (dedicated) knows, so 0.
    pub pasid: u32,
    /// Bits 0–23 [`Flags`], 24–31 [`Opcode`].
    pub flags_opcode: u32,
    /// Address of the [completion record](super::Record).
    pub completion: u64,
    /// Source, or the list of a batch.
    pub source: u64,
    /// Destination.
    pub destination: u64,
    /// Bytes, or descriptors of a batch.
    pub size: u32,
    /// Of a completion interrupt: none is asked for.
    pub interrupt: u16,
    reserved: u16,
    specific: [u8; 24],
}

const _: () = {
    assert!(size_of::<Descriptor>() == 64 && align_of::<Descriptor>() == 64);
    assert!(offset_of!(Descriptor, flags_opcode) == 4 && offset_of!(Descriptor, completion) == 8);
    assert!(offset_of!(Descriptor, source) == 16 && offset_of!(Descriptor, destination) == 24);
    assert!(offset_of!(Descriptor, size) == 32 && offset_of!(Descriptor, interrupt) == 36);
    assert!(cfg!(target_endian = "little"), "the device knows no other");
};

impl Descriptor {
    /// Does nothing (opcode 0).
    #[must_use]
    pub fn none() -> Self {
        Self::new_zeroed()
    }

    fn new(opcode: Opcode, flags: Flags, completion: u64) -> Self {
        let flags = flags.with(Flags::RECORD_VALID).with(Flags::RECORD);
        Self { flags_opcode: flags.0 | (opcode as u32) << 24, completion, ..Self::none() }
    }

    /// Copies `size` bytes and writes a record.
    #[must_use]
    pub fn mem_move(flags: Flags, source: u64, destination: u64, size: u32, completion: u64) -> Self {
        Self { source, destination, size, ..Self::new(Opcode::MemMove, flags, completion) }
    }

    /// Does what the `count` descriptors at `list` say, in any order, and then writes a record.
    #[must_use]
    pub fn batch(list: u64, count: u32, completion: u64) -> Self {
        Self { source: list, size: count, ..Self::new(Opcode::Batch, Flags(0), completion) }
    }

    /// The operation's number.
    #[must_use]
    pub const fn opcode(&self) -> u8 {
        (self.flags_opcode >> 24) as u8
    }

    /// Its flags.
    #[must_use]
    pub const fn flags(&self) -> Flags {
        Flags(self.flags_opcode & 0xff_ffff)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes written by a C program through `struct dsa_hw_desc` of Linux 6.x `<linux/idxd.h>` with these values.
    #[test]
    fn laid_out_as_the_kernels_header_says() {
        let flags = Flags::BLOCK_ON_FAULT.with(Flags::CACHE);
        let copy = Descriptor::mem_move(
            flags,
            0x0102_0304_0506_0708,
            0x1112_1314_1516_1718,
            0x2122_2324,
            0x3132_3334_3536_3738,
        );
        assert_eq!(hex(&copy), MEMMOVE);
        let batch = Descriptor::batch(0x0102_0304_0506_0740, 7, 0x3132_3334_3536_3720);
        assert_eq!(hex(&batch), BATCH);
        assert_eq!((copy.opcode(), batch.opcode()), (3, 1));
        assert!(copy.flags().has(flags) && !batch.flags().has(Flags::CACHE));
    }

    fn hex(descriptor: &Descriptor) -> String {
        descriptor.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    const MEMMOVE: &str = "000000000e0100033837363534333231080706050403020118171615141312112423222100000000000000000000000000000000000000000000000000000000";
    const BATCH: &str = "000000000c0000012037363534333231400706050403020100000000000000000700000000000000000000000000000000000000000000000000000000000000";
}
