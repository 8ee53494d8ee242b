//! `quiverd`: the Quiver daemon.

use std::process::ExitCode;

fn main() -> ExitCode {
    quiverd::program::run(&[])
}
