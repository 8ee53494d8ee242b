//! What several tests need.

use std::time::{Duration, Instant};

/// Waits until it is so; fails where it never is.
pub(super) fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let started = Instant::now();
    while !done() {
        assert!(started.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}
