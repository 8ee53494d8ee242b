//! The address table of bridges: (bridge, MAC) → interface, learned by all workers at once.
//!
//! ```text
//! bucket = one cache line:  key key key key | value value value value
//! key    = bridge : 16 | MAC : 48
//! value  = version : 21 | state : 2 | static : 1 | stamp : 16 | interface : 24
//! ```
//!
//! A key may lie in any slot of two pairs of neighbouring buckets. It is put into the first bucket that has room, unless the pair is down to
//! its last two slots and the other has more; with half of all slots in use nineteen keys of twenty are in their first bucket, and none
//! is without a place. The hash has a random key, so that nobody outside can choose addresses that fill the buckets of a victim; a member
//! has a quota, so that it can't fill the table; and moves are damped, so that it can't take addresses from others over and over.
//!
//! **Nobody waits.** A lookup is plain loads; learning an address that is known is one load per tick of the clock
//! and worker, and one compare-and-swap otherwise. What can be seen under concurrency: a lookup may miss an entry
//! that is being added, and may give what was true a moment ago. It never gives the value of another key:
//!
//! 1. who takes an empty slot first makes its value *busy* with the next version (compare-and-swap, so only one
//!    does), then writes the key, then the value that is valid;
//! 2. a slot's key changes in no other way, so as long as the version is the same, so is the key;
//! 3. a lookup reads value, key, value, each with acquire ordering: if it saw the new key, the second value it reads
//!    is no older than *busy*. It takes the value only if both times it was valid and of the same version;
//! 4. moving, refreshing and removing are compare-and-swaps of the whole value, version included.
//!
//! The version would have to go round (2 million other keys in the same slot) between two loads of one lookup to be
//! mistaken. When two workers learn the same new key at the same moment into different slots, both look for the
//! other's copy afterwards and the later slot is given up.

mod batch;
mod damping;
mod learn;
mod quota;
mod slot;
mod sweep;
mod table;
mod word;

pub use batch::{Hardware, Homes, Plain, Seen};
pub use damping::Held;
pub use learn::Learned;
pub use sweep::Scope;
pub use table::{MacError, MacTable, NO_INTERFACE};
pub use word::{MacEntry, MacKey};
