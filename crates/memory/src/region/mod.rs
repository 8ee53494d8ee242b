//! Shared memory regions, and the only way to reach the bytes in them.
//!
//! A [`Region`] is one mapped memfd: either created here, filled with pages and sealed ([`Region::create`]),
//! or a peer's, whose kind, size and seals are checked before it is mapped ([`Region::map`]). A
//! [`RegionTable`] is the immutable list of regions of one connection; it turns an untrusted (region, offset,
//! length) into a [`CheckedRange`] exactly once, and everything that touches the bytes afterwards goes
//! through that range.
//!
//! # The other side may write at any time
//!
//! A peer can change every byte of a region while it is being read, so nothing here ever forms a `&[u8]` or
//! `&mut [u8]` into one. Bytes are only moved, in bulk, between a region and private memory, and mean nothing
//! until they are private. Words that decide something (indices, descriptors) are read once, atomically, by
//! their owner (`memif::ring`).
//!
//! # The other side may take pages away
//!
//! Seals keep a peer from truncating a region. Where there are none, where it punches holes into a region that had none, or where a hole in
//! a huge-page region can't be filled any more, the region is replaced by private zeros and marked as [lost](Region::lost),
//! instead of SIGBUS ending the process.

mod account;
mod create;
mod error;
mod faults;
mod guard;
mod map;
mod prefetch;
mod punched;
mod range;
mod remains;
mod table;

pub use account::Account;
pub use create::{HugePages, RegionOptions};
pub use error::RegionError;
pub use faults::receive_faults;
pub use map::{MAX_REGION_SIZE, Region, SealPolicy};
pub use prefetch::{prefetch_read, prefetch_write};
pub use punched::notices_punched_holes;
pub use range::CheckedRange;
pub use table::{Extents, RegionTable, Span};
