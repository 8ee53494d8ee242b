//! What memory the large tables lie on is for whoever runs them to say.
//!
//! A session is looked for anywhere in its table, so that with a million of them nearly every look misses the TLB, unless its pages are
//! large ones. Those have to be asked of the system by address, which nothing in this crate may do, and cleared before they are needed,
//! which takes too long for a worker. So a table tells which memory it is going to fill some time before it does.

use core::ops::Range;
use std::sync::OnceLock;

/// Is told a range of memory that a table is going to fill. It runs on the thread that fills the table, in between packets: it should leave
/// the work to another one. By the time that one does it the table may be gone.
pub type Hint = fn(Range<*const u8>);

static HINT: OnceLock<Hint> = OnceLock::new();

/// Says who is told; once, before there are tables. Without it, memory is as the allocator gives it.
pub fn set(hint: Hint) {
    let _ = HINT.set(hint);
}

/// Tells it, if there is somebody.
pub(crate) fn hint(range: Range<*const u8>) {
    if let Some(hint) = HINT.get() {
        hint(range);
    }
}
