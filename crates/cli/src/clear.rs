//! `quiver clear`.

use std::io::Write;

use api::v1::{ClearCountersRequest, ClearSessionsRequest, TraceClearRequest};
use clap::{Args, Subcommand, ValueEnum};

use crate::context::Context;
use crate::error::{Doing, Error};
use crate::exit::Exit;
use crate::show::SessionFilters;

/// What to clear.
#[derive(Debug, Args)]
pub(crate) struct ClearArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Set counters to zero
    Counters {
        /// Which; none named: all
        #[arg(value_enum)]
        which: Vec<Counters>,
    },
    /// End sessions, all of them or those that agree with everything that is said
    #[command(alias = "sessions")]
    Session {
        #[command(flatten)]
        filters: SessionFilters,
    },
    /// Forget traces and what was asked for
    Trace,
}

/// Groups of counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Counters {
    /// Those of show interface
    Interface,
    /// Those of show runtime
    Runtime,
    /// Those of show drops
    Drops,
    /// Those of show adjacency
    Adjacency,
}

/// Clears.
pub(crate) async fn run(context: &Context, args: &ClearArgs) -> Result<Exit, Error> {
    let mut client = context.connect().await?;
    match &args.what {
        What::Counters { which } => {
            client
                .clear_counters(ClearCountersRequest {
                    interfaces: which.contains(&Counters::Interface),
                    runtime: which.contains(&Counters::Runtime),
                    drops: which.contains(&Counters::Drops),
                    adjacencies: which.contains(&Counters::Adjacency),
                })
                .await
                .doing("clear counters")?;
        }
        What::Session { filters } => {
            let request = ClearSessionsRequest { filter: Some(filters.to_api()) };
            let ended = client.clear_sessions(request).await.doing("clear session")?.ended;
            let text = if ended == 1 { "1 session".into() } else { format!("{ended} sessions") };
            writeln!(std::io::stdout(), "{text} ended").map_err(Error::Output)?;
        }
        What::Trace => {
            client.trace_clear(TraceClearRequest {}).await.doing("clear trace")?;
        }
    }
    Ok(Exit::Done)
}
