//! `quiver delete`.

use std::path::PathBuf;

use api::v1::{ApplyRequest, ChangeKind, ObjectRef};
use clap::{Args, ValueHint};
use clap_complete::ArgValueCandidates;

use super::kind::{Selector, describe, full_name, selector};
use super::{apply, input, report};
use crate::context::Context;
use crate::error::{Doing, Error};
use crate::exit::Exit;
use crate::output::{Form, OutputArgs};
use crate::reference::candidates;

/// What to delete.
#[derive(Debug, Args)]
pub(crate) struct DeleteArgs {
    /// Kind, or KIND/NAME
    #[arg(value_parser = selector, required_unless_present = "files", conflicts_with = "files")]
    #[arg(add = ArgValueCandidates::new(candidates::kinds))]
    kind: Option<Selector>,
    /// Names of objects of that kind; a route's is VRF/PREFIX, a neighbour's INTERFACE/ADDRESS
    #[arg(value_name = "NAME", add = ArgValueCandidates::new(candidates::names_of_kind))]
    names: Vec<String>,
    /// Delete all objects that this file names; - for standard input; may be given several times
    #[arg(short, long = "file", value_name = "FILE", value_hint = ValueHint::FilePath)]
    files: Vec<PathBuf>,
    /// Say what would be deleted, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Don't mind objects that aren't there
    #[arg(long)]
    ignore_not_found: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// Deletes and reports.
pub(crate) async fn delete(context: &Context, args: &DeleteArgs) -> Result<Exit, Error> {
    let deletes = wanted(args)?;
    let request = ApplyRequest {
        deletes: deletes.clone(),
        dry_run: args.dry_run,
        list_changes: true,
        ..ApplyRequest::default()
    };
    let asked = report::Asked::new(&request);
    let response = api::client::apply(&mut context.connect().await?, request).await.doing("delete")?;
    let deleted = |object: &ObjectRef| {
        response.changes.iter().any(|change| {
            change.kind() == ChangeKind::Removed && change.object.as_ref().is_some_and(|it| it == object)
        })
    };
    // An answer that leaves changes out doesn't tell what was missing.
    let complete = response.left_out == 0;
    let missing = deletes.iter().filter(|object| complete && !deleted(object)).collect::<Vec<_>>();
    match args.output.output {
        Form::Table => {
            let mut told = response.clone();
            if apply::exit(&response) != Exit::Refused {
                // Objects that weren't there came out as applied, which isn't what people want to read.
                told.results.retain(|result| result.object.as_ref().is_none_or(|it| !missing.contains(&it)));
            }
            let text = Form::Table.write(&mut told, |told| report::report(told, &asked, context.paint))?;
            context.print(&text)?;
        }
        form => context.print(&form.write(&mut response.clone(), |_| String::new())?)?,
    }
    match missing.as_slice() {
        _ if apply::exit(&response) == Exit::Refused => Ok(Exit::Refused),
        [] => Ok(Exit::Done),
        _ if args.ignore_not_found => Ok(Exit::Done),
        missing => {
            let names = missing.iter().map(|object| describe(Some(object))).collect::<Vec<_>>();
            Err(Error::NotFound(names.join(", ")))
        }
    }
}

/// The objects that the command line names.
fn wanted(args: &DeleteArgs) -> Result<Vec<ObjectRef>, Error> {
    let Some(Selector { kind, name }) = &args.kind else {
        return Ok(input::read_some(&args.files)?.object_refs().collect());
    };
    let Some(kind) = *kind else {
        return Err(Error::Usage(
            "delete takes one kind; to delete everything apply an empty file: quiver apply --replace -f /dev/null"
                .into(),
        ));
    };
    let names = args.names.iter().map(|given| full_name(kind, given)).chain(name.clone());
    let objects = names.map(|name| ObjectRef::spelled(kind, &name)).collect::<Vec<_>>();
    if objects.is_empty() {
        return Err(Error::Usage("say which: quiver delete KIND NAME…, or -f FILE".into()));
    }
    Ok(objects)
}
