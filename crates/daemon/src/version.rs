//! What this program was built from, and how long it runs.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// Version.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Commit it was built from, or "unknown".
pub const COMMIT: &str = env!("QUIVERD_COMMIT");
/// "release" or "debug".
pub const PROFILE: &str = env!("QUIVERD_PROFILE");
/// The compiler.
pub const RUSTC: &str = env!("QUIVERD_RUSTC");
/// The machine it was built for: "x86_64-unknown-linux-gnu".
pub const TARGET: &str = env!("QUIVERD_TARGET");

static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Time since this was first asked, which `main` does first of all.
pub fn uptime() -> Duration {
    START.elapsed()
}

/// All of it in one line.
pub const LINE: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (commit ",
    env!("QUIVERD_COMMIT"),
    "), ",
    env!("QUIVERD_PROFILE"),
    " build for ",
    env!("QUIVERD_TARGET"),
    " by ",
    env!("QUIVERD_RUSTC")
);
