//! quiverd with one service more. Everything else is as in Quiver's own: settings, API, state, metrics.

mod amplification_guard;

use std::process::ExitCode;

fn main() -> ExitCode {
    quiverd::program::run(&[amplification_guard::SERVICE])
}
