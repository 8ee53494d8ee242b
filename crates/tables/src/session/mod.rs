//! Who speaks with whom: (context, addresses, protocol, ports) → session, for both directions and both IP versions.
//!
//! * [`Key`]: the normalised 6-tuple, the same for a packet and its answer, and which of the two it was made from.
//! * [`Seed`]: the secret of the hash.
//! * [`SessionTable`]: what is known of each, found a vector at a time.
//! * [`Beside`]: what somebody else knows of them besides.
//! * [`Directory`]: something by key that workers only read, cheap to copy and change.
//!
//! One worker's own: nothing here is shared, locked or atomic.
//!
//! **Memory.** A session is an entry of two cache lines (48 B for the table, up to 80 B for its owner) that never moves, and its
//! part of a bucket of one line, 13 to 26 B. Another key of a session, where it has one, is a line of its own, and its part of a bucket.
//!
//! **Growth.** Buckets are split a few at a time by insertions (linear hashing), and everything lies in pieces that are filled in order: the longest
//! stall is the clearing of a page, of 2 MiB where the program has [seen to that](crate::backing).

mod alias;
mod beside;
mod bucket;
mod buckets;
mod directory;
mod key;
mod seed;
mod table;
#[cfg(test)]
mod tests;

pub use alias::is_alias;
pub use beside::Beside;
pub use directory::Directory;
pub use key::{Endpoint, Key, PARSED_BYTES};
pub use seed::Seed;
pub use table::{Full, Handle, Inserted, Look, NONE, SessionTable, Taken};
