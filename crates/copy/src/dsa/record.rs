//! Completion records.

use std::sync::atomic::{AtomicU64, Ordering};

/// How a descriptor ended: bits 0–6 of the first byte of its record (`DSA_COMP_*`), or that it hasn't yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// Nothing was written yet.
    None,
    /// Done.
    Success,
    /// A page wasn't there, and the device didn't wait for it: a part was done (`PAGE_FAULT_NOBOF`).
    PageFault,
    /// A page wasn't there, and couldn't be had either, or its address couldn't be translated (`PAGE_FAULT_IR`, `PFAULT_RDBA`,
    /// `TRANSLATION_FAIL`): nothing is known of what was done. As above it's the memory's doing, not the device's.
    Untranslated,
    /// Some descriptor of a batch failed.
    BatchFail,
    /// A page of the batch's list wasn't there: not all of its descriptors were read.
    BatchPageFault,
    /// Anything else: nothing is known of what was done.
    Error(u8),
}

impl Status {
    /// What the first byte of a record says.
    #[must_use]
    pub const fn of(byte: u8) -> Self {
        match byte & 0x7f {
            0 => Self::None,
            1 => Self::Success,
            3 => Self::PageFault,
            4 | 0x1f | 0x22 => Self::Untranslated,
            5 => Self::BatchFail,
            6 => Self::BatchPageFault,
            code => Self::Error(code),
        }
    }
}

/// What the first half of a record says, read at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// How it ended.
    pub status: Status,
    /// It went through the bytes from the last to the first: those that are done are the last ones.
    pub backwards: bool,
    /// Bytes that were done before a page fault; descriptors of a batch.
    pub completed: u32,
}

/// A completion record: 32 bytes at a multiple of 32, little-endian, which the device writes.
///
/// Status at byte 0 (bit 7: the fault was on writing), result at 1 (copies: 1 means backwards), bytes completed at 4, address of
/// the fault at 8.
#[derive(Debug, Default)]
#[repr(C, align(32))]
pub struct Record([AtomicU64; 4]);

const _: () = assert!(size_of::<Record>() == 32 && align_of::<Record>() == 32);

impl Record {
    /// Makes it one that nothing was written to.
    pub fn clear(&self) {
        self.0[0].store(0, Ordering::Relaxed);
    }

    /// What the device has written. What it did before that is seen afterwards.
    #[must_use]
    pub fn read(&self) -> Outcome {
        let [status, result, _, _, bytes @ ..] = self.0[0].load(Ordering::Acquire).to_le_bytes();
        let completed = u32::from_le_bytes(bytes);
        Outcome { status: Status::of(status), backwards: result & 1 != 0, completed }
    }

    /// Its address, for a descriptor.
    #[must_use]
    pub fn address(&self) -> u64 {
        std::ptr::from_ref(self).expose_provenance() as u64
    }

    /// Writes it as a device does: everything else first, then the word with the status.
    pub(crate) fn write(&self, words: [u64; 4]) {
        for at in [1, 2, 3] {
            self.0[at].store(words[at], Ordering::Relaxed);
        }
        self.0[0].store(words[0], Ordering::Release);
    }
}

/// The words of a record.
#[must_use]
pub(crate) fn words(status: u8, backwards: bool, completed: u32, fault: u64) -> [u64; 4] {
    [u64::from(status) | u64::from(backwards) << 8 | u64::from(completed) << 32, fault, 0, 0]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes written by a C program through `struct dsa_completion_record` of Linux 6.x `<linux/idxd.h>`.
    const WRITTEN: &str = "8301000004030201181716151413121100000000000000000000000000000000";

    #[test]
    fn laid_out_as_the_kernels_header_says() {
        let words = words(0x83, true, 0x0102_0304, 0x1112_1314_1516_1718);
        let bytes = words.iter().flat_map(|word| word.to_le_bytes());
        assert_eq!(bytes.map(|byte| format!("{byte:02x}")).collect::<String>(), WRITTEN);
        let record = Record::default();
        assert_eq!(record.read().status, Status::None);
        record.write(words);
        let wanted = Outcome { status: Status::PageFault, backwards: true, completed: 0x0102_0304 };
        assert_eq!(record.read(), wanted);
        record.clear();
        assert_eq!(record.read().status, Status::None);
    }
}
