//! `quiver man`.

use std::path::PathBuf;

use clap::{Args, CommandFactory, ValueHint};

use crate::cli::Cli;
use crate::error::Error;
use crate::exit::Exit;

/// Where to.
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Folder for the pages; it must exist
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    dir: PathBuf,
}

/// Writes one page per command.
pub(crate) fn man(args: &ManArgs) -> Result<Exit, Error> {
    clap_mangen::generate_to(Cli::command(), &args.dir)
        .map_err(|source| Error::Write { path: args.dir.clone(), source })?;
    Ok(Exit::Done)
}
