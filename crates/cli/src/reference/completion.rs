//! `quiver completion`.

use std::path::{MAIN_SEPARATOR, PathBuf};

use clap::{Args, ValueEnum};
use clap_complete::env::{Bash, EnvCompleter, Fish, Zsh};

use crate::context::Context;
use crate::error::Error;
use crate::exit::Exit;

/// When this variable is set, the program completes a command line instead of doing it: how the script calls back.
pub const COMPLETION_VARIABLE: &str = "QUIVER_COMPLETE";

/// For which shell.
#[derive(Debug, Args)]
pub(crate) struct CompletionArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Shells there is a script for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Shell {
    /// GNU Bash
    Bash,
    /// Z shell
    Zsh,
    /// fish
    Fish,
}

/// Writes the script. It calls this program at every completion, so that names of objects are current.
pub(crate) fn completion(context: &Context, args: &CompletionArgs) -> Result<Exit, Error> {
    let shell: &dyn EnvCompleter = match args.shell {
        Shell::Bash => &Bash,
        Shell::Zsh => &Zsh,
        Shell::Fish => &Fish,
    };
    let mut script = Vec::new();
    shell
        .write_registration(COMPLETION_VARIABLE, "quiver", "quiver", &program(), &mut script)
        .map_err(Error::Output)?;
    context.print(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Done)
}

/// How the script calls this program: by name if it was found in PATH, else by its full path.
fn program() -> String {
    let called = std::env::args_os().next().map(PathBuf::from).unwrap_or_else(|| "quiver".into());
    let by_path = called.to_string_lossy().contains(MAIN_SEPARATOR);
    let path = if by_path { std::env::current_exe().unwrap_or(called) } else { called };
    path.to_string_lossy().into_owned()
}
