//! `quiver watch`: what happens, as it happens.

mod session;

use std::time::Duration;

use clap::{Args, Subcommand};

use crate::context::Context;
use crate::error::Error;
use crate::exit::Exit;
use crate::output::OutputArgs;
use crate::seconds;
use crate::show::SessionFilters;

/// What to watch.
#[derive(Debug, Args)]
pub(crate) struct WatchArgs {
    #[command(subcommand)]
    subject: Subject,
}

#[derive(Debug, Subcommand)]
enum Subject {
    /// Sessions: when they begin, are translated, are blocked, and end, with the reason
    ///
    /// A line an event, until Ctrl-C. With none of --began, --translated, --blocked and --ended: all of these. One that has just begun has counted nothing yet; one
    /// that ends says what both sides have sent. Who reads too slowly misses events and is told how many: workers don't wait.
    #[command(alias = "sessions")]
    Session(SessionArgs),
}

/// Which events.
#[derive(Debug, Args)]
pub(super) struct SessionArgs {
    #[command(flatten)]
    filters: SessionFilters,
    /// Sessions that begin
    #[arg(long)]
    began: bool,
    /// Sessions that nat or balance gives an address or a backend
    #[arg(long)]
    translated: bool,
    /// Sessions of which a service lets no packet pass from now on
    #[arg(long)]
    blocked: bool,
    /// Sessions that end
    #[arg(long)]
    ended: bool,
    /// End after this many events
    #[arg(short, long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// End after this time: 10s, 5m
    #[arg(long, value_name = "TIME", value_parser = seconds::parse)]
    duration: Option<Duration>,
    #[command(flatten)]
    output: OutputArgs,
}

/// Watches.
pub(crate) async fn run(context: &Context, args: &WatchArgs) -> Result<Exit, Error> {
    let Subject::Session(args) = &args.subject;
    session::run(context, args).await
}
