//! `quiver-tgen`: see `--help`.

#![forbid(unsafe_code)]

use clap::{Parser, Subcommand};
use quiver_tgen::clock::Clock;
use quiver_tgen::link::{Link, LinkError};
use quiver_tgen::options::{Options, Output};
use quiver_tgen::placement;
use quiver_tgen::plan::Plan;
use quiver_tgen::report::{Report, Ticker, print, say};
use quiver_tgen::stateful::options::{StatefulError, StatefulOptions, Verdict};
use quiver_tgen::stateful::replay::options::ReplayOptions;
use quiver_tgen::stateless::{self, Lane, LaneError, Progress};
use std::error::Error;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// It could not run.
const FAILED: u8 = 1;
/// The arguments, the profile or the capture are wrong.
const USAGE: u8 = 2;
/// More was lost, or failed, than allowed.
const LOSS: u8 = 3;
/// An interface was lost on the way: the result is that of the time until then.
const INCOMPLETE: u8 = 4;

/// Sends packets to interfaces, receives on all of them, and tells what came through; or does so with connections.
///
/// One stream by flags, or any number of them by --profile. Interfaces are memif (SOCKET or SOCKET#ID; an abstract socket
/// begins with '@'), Linux devices (packet:DEVICE) or taps (tap:DEVICE).
///
/// Exit status: 0 it ran, 1 it could not run, 2 the arguments, the profile or the capture are wrong, 3 more was lost than
/// --max-loss (with --strict, at all), 4 an interface was lost on the way and the result is incomplete.
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
        Ok(Verdict::NothingEstablished(hint)) => {
            (FAILED, format!("not one connection was established, and nothing came through{hint}"))
        }
        Ok(Verdict::Incomplete(error)) => (INCOMPLETE, error),
        Err(error) => (if error.is_usage() { USAGE } else { FAILED }, error.to_string()),
    };
    ends_with(status, &error)
}

/// Says why it ends, and gives the exit status.
fn ends_with(status: u8, error: impl std::fmt::Display) -> ExitCode {
    say(&format!("quiver-tgen: {error}"));
    status.into()
}

fn packets_of(options: Options) -> ExitCode {
    let plan = match options.plan() {
        Ok(plan) => plan,
        Err(error) => return ends_with(USAGE, error),
    };
    match generate(&options, &plan) {
        Ok(report) => finish(&options, &report),
        Err(error) => {
            let usage = match error.downcast_ref::<LinkError>() {
                Some(error) => error.is_usage(),
                None => error.is::<LaneError>(),
            };
            ends_with(if usage { USAGE } else { FAILED }, error)
        }
    }
}

/// Signals that come so soon after another are the same one: `timeout` sends it to its child, and then to the group.
const TOGETHER: Duration = Duration::from_millis(200);

/// Set by a signal to stop. The second time, where the first has not been heeded, it ends at once.
fn stop_signal() -> std::io::Result<Arc<AtomicBool>> {
    let (stop, again) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let both = [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM];
    let mut signals = signal_hook::iterator::Signals::new(both)?;
    for signal in both {
        signal_hook::flag::register_conditional_shutdown(signal, FAILED.into(), Arc::clone(&again))?;
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let heard = Arc::clone(&stop);
    let watch = move || {
        for _ in signals.forever() {
            std::thread::sleep(TOGETHER);
            again.store(heard.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(watch)?;
    Ok(stop)
}

fn generate(options: &Options, plan: &Plan) -> Result<Report, Box<dyn Error>> {
    let clock = Clock::start();
    if let Some(core) = options.peer_core.filter(|core| !placement::is_there(*core)) {
        return Err(format!(
            "can't measure the way to core {core} (--peer-core): there is none of that number"
        )
        .into());
    }
    let stop = stop_signal()?;
    let mut links = Link::all(plan, &stop)?;
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
            Err(error) => return ends_with(FAILED, error),
        },
    };
    if let Err(error) = print(&text) {
        return ends_with(FAILED, format!("the result can't be written: {error}"));
    }
    if let Some(error) = &report.error {
        return ends_with(INCOMPLETE, error);
    }
    let missing = report.missing_ratio();
    match options.max_loss {
        Some(_) if report.sent == 0 => ends_with(FAILED, "nothing was sent, so --max-loss can't be judged"),
        Some(most) if missing > most => {
            let own = match report.receive_drops {
                Some(own) if own > 0 => format!(" ({own} frames were dropped by the generator itself)"),
                _ => String::new(),
            };
            let (missing, most) = (missing * 100.0, most * 100.0);
            let error =
                format!("{missing} % of all packets were lost or not sent in time, more than {most} %{own}");
            ends_with(LOSS, error)
        }
        _ => ExitCode::SUCCESS,
    }
}
