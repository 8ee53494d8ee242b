//! `quiver-tgen`: see `--help`.

#![forbid(unsafe_code)]

use clap::Parser;
use quiver_tgen::clock::Clock;
use quiver_tgen::link::Link;
use quiver_tgen::options::{Options, Output};
use quiver_tgen::placement;
use quiver_tgen::plan::Plan;
use quiver_tgen::report::{Report, Ticker};
use quiver_tgen::stateless::{self, Lane, Progress};
use std::error::Error;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// It could not run, or an interface was lost.
const FAILED: u8 = 1;
/// The arguments or the profile are wrong.
const USAGE: u8 = 2;
/// More was lost than allowed.
const LOSS: u8 = 3;

fn main() -> ExitCode {
    let options = Options::parse();
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
            FAILED.into()
        }
    }
}

fn generate(options: &Options, plan: &Plan) -> Result<Report, Box<dyn Error>> {
    let clock = Clock::start();
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        // The second time it ends at once.
        signal_hook::flag::register_conditional_shutdown(signal, FAILED.into(), Arc::clone(&stop))?;
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let mut links = Link::all(plan)?;
    let lanes = Lane::all(plan, &links)?;
    let trip = || placement::round_trip_ns(options.core?, options.peer_core?);
    let before = trip();
    let progress = Arc::new(Progress::default());
    let ticker = (options.progress || std::io::stderr().is_terminal())
        .then(|| Ticker::start(Arc::clone(&progress)))
        .transpose()?;
    if let Some(core) = options.core {
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
    match options.max_loss {
        Some(most) if report.loss_ratio > most => {
            eprintln!("quiver-tgen: {} of all packets were lost, more than {most}", report.loss_ratio);
            LOSS.into()
        }
        _ => ExitCode::SUCCESS,
    }
}
