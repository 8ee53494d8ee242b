//! The desired state on disk.
//!
//! One file, `state.jsonl`: a header, one object per line, and a last line with a checksum over all before it. It is
//! never changed in place: a new one is written beside it, brought to disk, and put in its place by renaming; the one
//! before is kept as `state.jsonl.previous`. A file that is cut off or damaged is kept aside, and the previous one
//! counts.

mod directory;
mod error;
mod format;

pub use directory::{Loaded, Staged, StateDirectory};
pub use error::StateError;
pub use format::{Damage, Snapshot, read, write};
