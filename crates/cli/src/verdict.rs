//! `quiver verdict`.

use std::io::Write;

use api::v1::{JudgeSessionsRequest, SessionVerdict};
use clap::{Args, ValueEnum};

use crate::context::Context;
use crate::error::{Doing, Error};
use crate::exit::Exit;
use crate::show::SessionFilters;

/// What to say about which sessions.
#[derive(Debug, Args)]
pub(crate) struct VerdictArgs {
    /// What becomes of the rest of the sessions
    #[arg(value_enum)]
    verdict: Verdict,
    #[command(flatten)]
    filters: SessionFilters,
}

/// What becomes of the rest of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Verdict {
    /// It passes without visiting the engine
    AllowRest,
    /// It is dropped
    DropRest,
}

/// Says it.
pub(crate) async fn run(context: &Context, args: &VerdictArgs) -> Result<Exit, Error> {
    let verdict = match args.verdict {
        Verdict::AllowRest => SessionVerdict::AllowRest,
        Verdict::DropRest => SessionVerdict::DropRest,
    };
    let request = JudgeSessionsRequest { filter: Some(args.filters.to_api()), verdict: verdict.into() };
    let judged = context.connect().await?.judge_sessions(request).await.doing("verdict")?.judged;
    let text = if judged == 1 { "1 session".into() } else { format!("{judged} sessions") };
    writeln!(std::io::stdout(), "{text} judged").map_err(Error::Output)?;
    Ok(Exit::Done)
}
