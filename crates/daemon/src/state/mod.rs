//! The desired state on disk.
//!
//! `state.jsonl` holds all of it: a header, one object per line, and a last line with a checksum over all before it.
//! It is never changed in place: a new one is written beside it, brought to disk, and put in its place by renaming;
//! the one before is kept as `state.jsonl.previous`.
//!
//! Writing a million routes for every interface that comes would take seconds. So where the state is large and a change
//! is small, the change alone is appended to a journal, `journal-<generation>.jsonl`, named after the state it follows.
//! When the journal has grown, a new state is written.
//!
//! A file that is damaged is kept aside, and what can be trusted counts: of a damaged state the previous one with its
//! journal, of a journal all batches up to the damage. A batch that isn't complete at the end of a journal was never
//! confirmed to anybody and is dropped.

mod directory;
mod error;
mod format;
mod journal;
mod lines;
mod sessions;

pub use directory::{Loaded, Staged, StateDirectory};
pub use error::StateError;
pub use format::{Damage, Snapshot, read, write};
pub use sessions::{take_sessions, write_sessions};
