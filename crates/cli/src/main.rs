//! The program `quiver`.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use clap_complete::CompleteEnv;
use quiver_cli::{Cli, run};

fn main() -> ExitCode {
    // Answers the shell and ends the process when the completion script calls.
    CompleteEnv::with_factory(Cli::command).var(quiver_cli::COMPLETION_VARIABLE).complete();
    match run(Cli::parse()) {
        Ok(exit) => exit.into(),
        Err(error) => {
            eprintln!("quiver: {}", error.printed());
            error.exit().into()
        }
    }
}
