//! Numbers in the byte order of the file.

/// Byte order of the writer's machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ByteOrder {
    Little,
    Big,
}

impl ByteOrder {
    /// The number at `offset`; 0 beyond the end. Callers have compared lengths before.
    pub(super) fn u16(self, bytes: &[u8], offset: usize) -> u16 {
        let array = array(bytes, offset);
        match self {
            Self::Little => u16::from_le_bytes(array),
            Self::Big => u16::from_be_bytes(array),
        }
    }

    /// The number at `offset`; 0 beyond the end. Callers have compared lengths before.
    pub(super) fn u32(self, bytes: &[u8], offset: usize) -> u32 {
        let array = array(bytes, offset);
        match self {
            Self::Little => u32::from_le_bytes(array),
            Self::Big => u32::from_be_bytes(array),
        }
    }

    /// The number at `offset`; 0 beyond the end. Callers have compared lengths before.
    pub(super) fn u64(self, bytes: &[u8], offset: usize) -> u64 {
        let array = array(bytes, offset);
        match self {
            Self::Little => u64::from_le_bytes(array),
            Self::Big => u64::from_be_bytes(array),
        }
    }
}

fn array<const N: usize>(bytes: &[u8], offset: usize) -> [u8; N] {
    bytes.get(offset..).and_then(<[u8]>::first_chunk).copied().unwrap_or([0; N])
}
