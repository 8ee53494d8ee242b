//! `quiver diff`.

use std::path::PathBuf;

use api::v1::ApplyRequest;
use clap::{Args, ValueHint};

use super::{apply, input, report};
use crate::context::Context;
use crate::error::{Doing, Error};
use crate::exit::Exit;
use crate::output::{Form, OutputArgs};

/// What to compare.
#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// File with objects, TOML or JSON; - for standard input; may be given several times
    #[arg(short, long = "file", value_name = "FILE", required = true, value_hint = ValueHint::FilePath)]
    files: Vec<PathBuf>,
    /// The files say everything: whatever isn't in them would be deleted
    #[arg(long)]
    replace: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// Asks what would change.
pub(crate) async fn diff(context: &Context, args: &DiffArgs) -> Result<Exit, Error> {
    let config = if args.replace { input::read(&args.files)? } else { input::read_some(&args.files)? };
    let request = ApplyRequest {
        upserts: Some(config),
        dry_run: true,
        replace_all: args.replace,
        list_changes: true,
        ..ApplyRequest::default()
    };
    let asked = report::Asked::new(&request);
    let mut response = api::client::apply(&mut context.connect().await?, request).await.doing("diff")?;
    let exit = match apply::exit(&response) {
        Exit::Done if !response.changes.is_empty() => Exit::Differs,
        exit => exit,
    };
    let text = match args.output.output {
        // What is refused can't be compared: the report says why.
        form @ Form::Table if exit == Exit::Refused => {
            form.write(&mut response, |response| report::report(response, &asked, context.paint))?
        }
        form => form.write(&mut response, |response| report::changes(&response.changes, context.paint))?,
    };
    context.print(&text)?;
    Ok(exit)
}
