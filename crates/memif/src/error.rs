//! What can go wrong before packets flow.

use memory::region::RegionError;
use rustix::io::Errno;

use crate::control::Reason;
use crate::ring::RingError;

/// Why a connection, socket or region could not be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A region could not be created or mapped.
    #[error(transparent)]
    Region(#[from] RegionError),
    /// A ring is not where it should be.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// The handshake failed.
    #[error(transparent)]
    Disconnected(#[from] Reason),
    /// A setting is out of its range.
    #[error("{setting} {value} is not in {allowed}")]
    Setting {
        /// What was set.
        setting: &'static str,
        /// To what.
        value: u64,
        /// What is allowed.
        allowed: &'static str,
    },
    /// A system call failed.
    #[error("{call}: {errno}")]
    System {
        /// Which.
        call: &'static str,
        /// What the kernel said.
        errno: Errno,
    },
}
