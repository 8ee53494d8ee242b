//! Why a change of a routing table is refused.

use super::NextHopId;

/// A change that was refused; the table is what it was before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FibError {
    /// The prefix is longer than an address.
    #[error("prefix length {len} is longer than the {max} bits of an address")]
    Length {
        /// The length asked for.
        len: u8,
        /// Bits of an address.
        max: u8,
    },
    /// The address has bits set behind the prefix.
    #[error(
        "the address has bits set behind its first {len}: clear them, or give the prefix a greater length"
    )]
    HostBits {
        /// The length asked for.
        len: u8,
    },
    /// The id is 0 ("no route") or above [`NextHopId::MAX`].
    #[error("next hop id {} is outside 1..={}", .id.0, NextHopId::MAX.0)]
    Id {
        /// The id asked for.
        id: NextHopId,
    },
    /// The reserved memory is used up.
    #[error(
        "the table is full: {live} of {capacity} bytes in use, {retired} wait for readers; reclaim them after a \
         grace period, or create the table with a greater capacity"
    )]
    Full {
        /// Bytes of nodes in use.
        live: usize,
        /// Bytes of retired nodes.
        retired: usize,
        /// Bytes reserved.
        capacity: usize,
    },
    /// The system doesn't give that much address space.
    #[error("{capacity} bytes of address space for a table can't be reserved: lower its capacity")]
    Reserve {
        /// Bytes asked for.
        capacity: usize,
    },
}
