//! `quiver top`: workers, interfaces, nodes and drops, live.
//!
//! - `sample`: what is asked of quiverd. `figures`: what two samples say.
//! - `app`: what the user has chosen, and the keys. `layout`: how many lines each panel gets.
//! - `view`: drawing; a function from app and figures to a frame, so that tests draw into memory.
//! - `screen`: the terminal and the loop.

mod app;
mod figures;
mod layout;
mod panels;
mod sample;
mod screen;
mod view;

use std::io::{self, IsTerminal};
use std::time::Duration;

use clap::Args;

use crate::context::Context;
use crate::error::Error;
use crate::exit::Exit;
use crate::seconds;

/// How to watch.
#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    /// Time between samples; + and - change it
    #[arg(long, value_name = "SECS", value_parser = seconds::parse, default_value = "1")]
    interval: Duration,
}

/// Watches until the user has seen enough.
pub(crate) async fn run(context: &Context, args: &TopArgs) -> Result<Exit, Error> {
    if !(io::stdout().is_terminal() && io::stdin().is_terminal()) {
        return Err(Error::Terminal(
            "top needs a terminal; in pipes and files use quiver show runtime --watch".into(),
        ));
    }
    // Connect before the screen is taken: an error is easier to read without it.
    let client = context.connect().await?;
    screen::run(client, args.interval, context.paint).await?;
    Ok(Exit::Done)
}
