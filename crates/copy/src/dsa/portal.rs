//! The seam between what we do and what a device does.

use super::Descriptor;

/// How a work queue takes descriptors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// One program's own: written to with MOVDIR64B, which says nothing of whether there was room, so that whoever writes has to know.
    Dedicated,
    /// Anybody's: written to with ENQCMD, which says whether there was room.
    Shared,
}

impl Mode {
    /// The word of sysfs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dedicated => "dedicated",
            Self::Shared => "shared",
        }
    }
}

/// What became of a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Accepted {
    /// The device has it.
    Yes,
    /// The queue is full: try again. Of a shared queue only.
    Full,
}

/// Bytes of a portal.
pub const PORTAL: usize = 4096;
/// Addresses of a portal that take descriptors, all the same: a descriptor is written to one of its lines of 64 bytes. The CPU holds writes to the
/// same line back until the one before is through, those to others it sends on their way together.
pub const SLOTS: usize = PORTAL / size_of::<Descriptor>();

/// A place that takes descriptors. When it has been dropped, nothing of what was submitted to it is read or written any more.
pub trait Portal: Send + Sync + std::fmt::Debug {
    /// Hands a descriptor to the device, by one of its [`SLOTS`]: `slot` modulo their number. Whoever takes them in turn is quickest.
    ///
    /// # Safety
    /// What the descriptor points to (source, destination, list, the list's descriptors and theirs, completion records) must be there
    /// until its completion record is written, or the portal is dropped.
    #[allow(unsafe_code)]
    unsafe fn submit(&self, descriptor: &Descriptor, slot: usize) -> Accepted;
}
