//! Why a capture file can't be read.

use core::fmt;

use super::{MAX_BLOCK_LEN, MAX_INTERFACES};

/// Why a capture file can't be read on. The decoder stays where it is: the same error comes again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaptureError {
    /// The first four bytes are of no known format.
    UnknownFormat {
        /// These bytes.
        magic: [u8; 4],
    },
    /// Major version is not 1 (pcapng) or 2 (pcap).
    UnknownVersion {
        /// Major version.
        major: u16,
    },
    /// A block's or record's length is too small for what it must contain, not a multiple of 4, or too large.
    BadLength {
        /// Length it claims, in bytes.
        len: u32,
    },
    /// The length at the end of a block differs from that at its start.
    LengthMismatch {
        /// Length at the start.
        start: u32,
        /// Length at the end.
        end: u32,
    },
    /// A packet names an interface that was not described.
    UnknownInterface {
        /// Its number.
        interface: u32,
    },
    /// More interfaces than are kept.
    TooManyInterfaces,
    /// Timestamp resolution of an interface is too fine for any clock.
    BadResolution {
        /// The option's value.
        resolution: u8,
    },
    /// The file ends inside a block or record.
    CutOff {
        /// Bytes of it that are there.
        have: usize,
    },
}

impl fmt::Display for CaptureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::UnknownFormat { magic: [a, b, c, d] } => {
                write!(f, "neither pcap nor pcapng: file starts with {a:02x} {b:02x} {c:02x} {d:02x}")
            }
            Self::UnknownVersion { major } => write!(f, "capture format version {major} is not known"),
            Self::BadLength { len } => {
                write!(f, "capture block of {len} bytes is impossible or above the limit of {MAX_BLOCK_LEN}")
            }
            Self::LengthMismatch { start, end } => {
                write!(f, "capture block has length {start} at its start and {end} at its end")
            }
            Self::UnknownInterface { interface } => {
                write!(f, "captured packet names interface {interface}, which the file does not describe")
            }
            Self::TooManyInterfaces => {
                write!(f, "capture file describes more than {MAX_INTERFACES} interfaces: split it")
            }
            Self::BadResolution { resolution } => {
                write!(f, "capture interface has timestamp resolution {resolution:#04x}, finer than is read")
            }
            Self::CutOff { have } => {
                write!(f, "capture file ends inside a block, of which {have} bytes are there: it was cut off")
            }
        }
    }
}

impl core::error::Error for CaptureError {}
