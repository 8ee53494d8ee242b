//! `quiver trace`: single packets on their way through the graph.

mod render;

use api::v1::{TraceAddRequest, TraceClearRequest, TraceShowRequest, TraceShowResponse};
use clap::{Args, Subcommand};
use clap_complete::ArgValueCandidates;

use crate::context::{Client, Context};
use crate::error::{Doing, Error};
use crate::exit::Exit;
use crate::reference::candidates;
use crate::render::Paint;
use crate::show::{Before, ShowOptions, View, show};

/// What to do with traces.
#[derive(Debug, Args)]
pub(crate) struct TraceArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Trace the next packets
    Add {
        /// Input node (memif-input) or interface (pod-a) whose packets are traced; all: of every interface
        #[arg(value_name = "NODE|INTERFACE", add = ArgValueCandidates::new(candidates::trace_sources))]
        from: String,
        /// Packets per worker, 1 to 10000
        #[arg(default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
        count: u32,
    },
    /// Show traces collected so far
    Show {
        #[command(flatten)]
        traces: Traces,
        #[command(flatten)]
        options: ShowOptions,
    },
    /// Forget traces and what was asked for
    Clear,
}

/// Traces collected so far.
#[derive(Debug, Clone, Args)]
pub(crate) struct Traces {
    /// Packets at most; 0: all
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    max: u32,
}

/// Does it.
pub(crate) async fn run(context: &Context, args: &TraceArgs) -> Result<Exit, Error> {
    match &args.action {
        Action::Add { from, count } => {
            let from = if from == "all" { String::new() } else { from.clone() };
            let request = TraceAddRequest { from, count: *count };
            context.connect().await?.trace_add(request).await.doing("trace add")?;
            context.remark("look at them with: quiver trace show");
        }
        Action::Show { traces, options } => return show(context, options, traces).await,
        Action::Clear => {
            context.connect().await?.trace_clear(TraceClearRequest {}).await.doing("trace clear")?;
        }
    }
    Ok(Exit::Done)
}

impl View for Traces {
    type Answer = TraceShowResponse;

    async fn fetch(&self, client: &mut Client) -> Result<TraceShowResponse, Error> {
        client.trace_show(TraceShowRequest { limit: self.max }).await.doing("show trace")
    }

    fn table(
        &self,
        answer: &TraceShowResponse,
        _before: Option<Before<'_, TraceShowResponse>>,
        paint: Paint,
    ) -> String {
        render::traces(answer, paint)
    }
}
