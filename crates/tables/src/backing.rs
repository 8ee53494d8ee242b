//! What memory the large tables lie on is for whoever runs them to say.
//!
//! A session is looked for anywhere in its table, so that with a million of them nearly every look misses the TLB, unless its pages are
//! large ones. Those have to be asked of the system by address, which nothing in this crate may do, and cleared before they are needed,
//! which takes too long for a worker. So a table tells which memory it is going to fill some time before it does.

use core::ops::Range;
use std::sync::OnceLock;

/// Bytes of a step in which memory is told ahead: a large page.
pub(crate) const STEP: usize = 2 << 20;
/// For so many steps that there are, one more is told ahead.
const FOR_ONE_MORE: usize = 16;
/// Steps told ahead at most.
const MOST_AHEAD: usize = 8;

/// Is told a range of memory that a table is going to fill. It runs on the thread that fills the table, in between packets: it should leave
/// the work to another one. By the time that one does it the table may be gone.
pub type Hint = fn(Range<*const u8>);

static HINT: OnceLock<Hint> = OnceLock::new();

/// Says who is told; once, before there are tables. Without it, memory is as the allocator gives it.
pub fn set(hint: Hint) {
    let _ = HINT.set(hint);
}

/// How many steps are told ahead of the one that is going to be filled, of a table that has filled so many.
pub(crate) fn ahead(steps: usize) -> usize {
    // Two at least: the page in which a range ends is made with the next one.
    (2 + steps / FOR_ONE_MORE).min(MOST_AHEAD)
}

/// Tells it, if there is somebody.
pub(crate) fn hint(range: Range<*const u8>) {
    if let Some(hint) = HINT.get() {
        hint(range);
    }
}
