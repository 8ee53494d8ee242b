//! Threads that touch regions have SIGBUS delivered.
//!
//! A fault whose signal is blocked ends the process, whatever handler there is (signal(7)). Threads of applications often block all
//! signals, for one of them to take them by `sigwait`; what comes by a fault nobody can take that way.

use std::cell::Cell;

thread_local! {
    /// Whether that was seen to in this thread.
    static RECEIVES: Cell<bool> = const { Cell::new(false) };
}

/// Has the calling thread receive SIGBUS, so that a region whose pages its peer took away is [lost](super::Region::lost) when the thread
/// touches it, and nothing more. Done once in a thread: who blocks the signal later again means it.
#[inline(always)]
pub fn receive_faults() {
    if !RECEIVES.get() {
        unblock();
    }
}

#[cold]
#[inline(never)]
fn unblock() {
    RECEIVES.set(true);
    // Miri has no signals.
    #[cfg(not(miri))]
    // SAFETY: all-zero is a set of signals, which the calls change; nobody else has it. The thread's mask is its own. With a valid
    // request and set nothing fails.
    unsafe {
        let mut set = core::mem::MaybeUninit::<libc::sigset_t>::zeroed().assume_init();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGBUS);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, core::ptr::null_mut());
    }
}
