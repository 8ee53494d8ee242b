//! Capture files: writing pcapng, reading pcapng and classic pcap.
//!
//! - [`pcapng`] writes blocks into anything that takes bytes; no heap of its own.
//! - `Decoder` (feature `alloc`) is fed bytes as they come and gives packets back; it trusts nothing in them
//!   and holds at most one block.
//!
//! Sources: draft-ietf-opsawg-pcapng, draft-ietf-opsawg-pcap.

#[cfg(feature = "alloc")]
mod bytes;
#[cfg(feature = "alloc")]
mod classic;
#[cfg(feature = "alloc")]
mod decoder;
#[cfg(feature = "alloc")]
mod error;
#[cfg(feature = "alloc")]
mod next_generation;
pub mod pcapng;

#[cfg(feature = "alloc")]
pub use decoder::{Decoder, MAX_BLOCK_LEN, MAX_INTERFACES, Packet};
#[cfg(feature = "alloc")]
pub use error::CaptureError;

/// Which way a packet went, seen from the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Came in.
    Inbound,
    /// Went out.
    Outbound,
}
