//! `quiver-tgen`: see `--help`.

#![forbid(unsafe_code)]

use clap::{Parser, Subcommand};
use quiver_tgen::clock::Clock;
use quiver_tgen::link::{Link, LinkError};
use quiver_tgen::options::{Options, Output};
use quiver_tgen::placement;
use quiver_tgen::plan::Plan;
use quiver_tgen::report::{Report, Ticker};
use quiver_tgen::stateful::options::{StatefulError, StatefulOptions, Verdict};
use quiver_tgen::stateful::replay::options::ReplayOptions;
use quiver_tgen::stateless::{self, Lane, LaneError, Progress};
use std::error::Error;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// It could not run, or an interface was lost.
const FAILED: u8 = 1;
/// The arguments or the profile are wrong.
const USAGE: u8 = 2;
/// More was lost, or failed, than allowed.
const LOSS: u8 = 3;

/// What to generate: packets, or what a subcommand says.
#[derive(Debug, Parser)]
#[command(
    name = "quiver-tgen",
    version,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true
)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    packets: Options,
}

#[derive(Debug, Subcommand)]
enum Command {
    Stateful(StatefulOptions),
    Replay(ReplayOptions),
}

fn main() -> ExitCode {
    match Cli::parse() {
        Cli { command: Some(Command::Stateful(options)), .. } => connections(|stop| options.run(stop)),
        Cli { command: Some(Command::Replay(options)), .. } => connections(|stop| options.run(stop)),
        Cli { command: None, packets } => packets_of(packets),
    }
}

fn connections(run: impl FnOnce(&AtomicBool) -> Result<Verdict, StatefulError>) -> ExitCode {
    let result = match stop_signal() {
        Ok(stop) => run(&stop),
        Err(error) => Err(error.into()),
    };
    let (status, error) = match result {
        Ok(Verdict::Measured) => return ExitCode::SUCCESS,
        Ok(Verdict::Failures) => {
            (LOSS, "there were connections that failed or did not end, or packets that were lost".into())
        }
        Ok(Verdict::NothingEstablished) => {
            (FAILED, "not one connection was established, and nothing came through".into())
        }
        Err(error) => (if error.is_usage() { USAGE } else { FAILED }, error.to_string()),
    };
    eprintln!("quiver-tgen: {error}");
    status.into()
}

fn packets_of(options: Options) -> ExitCode {
    let plan = match options.plan() {
        Ok(plan) => plan,
        Err(error) => {
            eprintln!("quiver-tgen: {error}");
            return USAGE.into();
        }
    };
    match generate(&options, &plan) {
        Ok(report) => finish(&options, &report),
        Err(error) => {
            eprintln!("quiver-tgen: {error}");
            let usage = match error.downcast_ref::<LinkError>() {
                Some(error) => error.is_usage(),
                None => error.downcast_ref::<LaneError>().is_some_and(LaneError::is_usage),
            };
            if usage { USAGE } else { FAILED }.into()
        }
    }
}

/// Set by a signal to stop.
fn stop_signal() -> std::io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        // The second time it ends at once.
        signal_hook::flag::register_conditional_shutdown(signal, FAILED.into(), Arc::clone(&stop))?;
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

fn generate(options: &Options, plan: &Plan) -> Result<Report, Box<dyn Error>> {
    let clock = Clock::start();
    let stop = stop_signal()?;
    let mut links = Link::all(plan)?;
    let lanes = Lane::all(plan, &links)?;
    let trip = || placement::round_trip_ns(options.link.core?, options.peer_core?);
    let before = trip();
    let progress = Arc::new(Progress::default());
    let ticker = (options.progress || std::io::stderr().is_terminal())
        .then(|| Ticker::start(Arc::clone(&progress)))
        .transpose()?;
    if let Some(core) = options.link.core {
        placement::pin(core)
            .ok_or_else(|| format!("can't run on core {core}: is there one of that number?"))?;
    }
    let outcome = stateless::run(&mut links, lanes, plan, &clock, &stop, &progress);
    drop(ticker);
    let trips = before.and_then(|before| Some((before, trip()?)));
    let names: Vec<String> = links.iter().map(|link| link.name().into()).collect();
    Ok(Report::new(plan, &names, &outcome, trips))
}

fn finish(options: &Options, report: &Report) -> ExitCode {
    let text = match options.output {
        Output::Text => report.to_string(),
        Output::Json => match report.json() {
            Ok(json) => json,
            Err(error) => {
                eprintln!("quiver-tgen: {error}");
                return FAILED.into();
            }
        },
    };
    // Whoever closed the pipe wants no more of it.
    let _ = writeln!(std::io::stdout(), "{text}");
    if let Some(error) = &report.error {
        eprintln!("quiver-tgen: {error}");
        return FAILED.into();
    }
    let missing = report.missing_ratio();
    match options.max_loss {
        Some(_) if report.sent == 0 => {
            eprintln!("quiver-tgen: nothing was sent, so --max-loss can't be judged");
            FAILED.into()
        }
        Some(most) if missing > most => {
            let own = match report.receive_drops {
                Some(own) if own > 0 => format!(" ({own} frames were dropped by the generator itself)"),
                _ => String::new(),
            };
            eprintln!(
                "quiver-tgen: {} % of all packets were lost or not sent in time, more than {} %{own}",
                missing * 100.0,
                most * 100.0
            );
            LOSS.into()
        }
        _ => ExitCode::SUCCESS,
    }
}
