//! The kernel's table of this process's descriptors.

use std::os::fd::BorrowedFd;

use rustix::io::fcntl_dupfd_cloexec;

use super::process;

/// Has the table be large enough for as many descriptors of peers, and as many others.
///
/// It grows by doubling, and whoever opens a descriptor while it does, in any thread, waits until all processors have seen that (a grace
/// period of RCU: 10 to 20 ms, more where they are busy). So a peer that comes with many of them would stop the thread that serves it, and all
/// that this thread does for others. It never shrinks: a descriptor that is opened there and closed again is enough.
pub(super) fn make_room(any: BorrowedFd<'_>, of_peers: usize) {
    let highest = of_peers.saturating_mul(2).min(process::may_open());
    let highest = i32::try_from(highest).unwrap_or(i32::MAX).saturating_sub(1);
    // Where the kernel has no memory for it, it grows later, or not at all.
    let _ = fcntl_dupfd_cloexec(any, highest);
}
