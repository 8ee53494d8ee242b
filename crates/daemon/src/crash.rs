//! What a fault of our own comes to.

use std::panic;
use std::process;

/// From now on a panic of any thread ends the process (SIGABRT), after it has been reported.
///
/// A worker, the control thread or the service thread that is gone while the others go on would be a daemon that answers and
/// forwards half of its packets. Ended as a whole it is started anew by the service manager: taps stay, memif peers reconnect, the
/// desired state comes back from disk.
pub fn abort_on_panic() {
    let report = panic::take_hook();
    panic::set_hook(Box::new(move |fault| {
        report(fault);
        tracing::error!(%fault, "quiverd panicked and ends: please report this");
        process::abort();
    }));
}

/// Ends the process likewise, for another reason than a panic. A core dump, where there are any, shows all threads.
pub fn end(reason: &str) -> ! {
    tracing::error!("quiverd ends, as after a panic: {reason}: please report this");
    process::abort();
}
