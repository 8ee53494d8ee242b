//! `quiver apply`.

use std::path::PathBuf;

use api::v1::{ApplyRequest, ApplyResponse};
use clap::{Args, ValueHint};

use super::{input, report};
use crate::context::Context;
use crate::error::{Doing, Error};
use crate::exit::Exit;
use crate::output::OutputArgs;

/// From this many objects on, only those that aren't simply applied are listed.
const TERSE: usize = 1000;

/// What to apply.
#[derive(Debug, Args)]
pub(crate) struct ApplyArgs {
    /// File with objects, TOML or JSON; - for standard input; may be given several times
    #[arg(short, long = "file", value_name = "FILE", required = true, value_hint = ValueHint::FilePath)]
    files: Vec<PathBuf>,
    /// Say what would become of the objects, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// The files say everything: delete whatever isn't in them
    #[arg(long)]
    replace: bool,
    /// Only if this generation is in force, so nobody else has changed anything (exit status 6)
    #[arg(long, value_name = "NUMBER")]
    expect_generation: Option<u64>,
    #[command(flatten)]
    output: OutputArgs,
}

/// Sends the batch and reports.
pub(crate) async fn apply(context: &Context, args: &ApplyArgs) -> Result<Exit, Error> {
    // An empty file with --replace means: delete everything. Without, it is a mistake.
    let config = if args.replace { input::read(&args.files)? } else { input::read_some(&args.files)? };
    let terse = config.len() >= TERSE;
    let request = ApplyRequest {
        terse,
        // Tells what is new from what is changed.
        list_changes: !terse,
        upserts: Some(config),
        expected_generation: args.expect_generation,
        dry_run: args.dry_run,
        replace_all: args.replace,
        ..ApplyRequest::default()
    };
    let asked = report::Asked::new(&request);
    let mut response = api::client::apply(&mut context.connect().await?, request).await.doing("apply")?;
    context.print(
        &args
            .output
            .output
            .write(&mut response, |response| report::report(response, &asked, context.paint))?,
    )?;
    Ok(exit(&response))
}

/// Pending is no failure: the object comes into force by itself.
pub(super) fn exit(response: &ApplyResponse) -> Exit {
    if response.counts.is_some_and(|counts| counts.refused > 0) { Exit::Refused } else { Exit::Done }
}
