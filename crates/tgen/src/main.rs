//! `quiver-tgen`: see `--help`.

#![forbid(unsafe_code)]

use clap::Parser;
use quiver_tgen::options::Options;
use quiver_tgen::report::Report;
use quiver_tgen::{link, placement, run};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

fn main() -> ExitCode {
    match generate(&Options::parse()) {
        Ok(report) => {
            println!("{report}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("quiver-tgen: {error}");
            ExitCode::FAILURE
        }
    }
}

fn generate(options: &Options) -> Result<String, Box<dyn std::error::Error>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let mut tx = link::up(&options.tx, options.tx_netns.as_deref(), options)?;
    let mut rx = match &options.rx {
        Some(name) => Some(link::up(name, options.rx_netns.as_deref(), options)?),
        None => None,
    };
    let trip = || placement::round_trip_ns(options.core?, options.peer_core?);
    let before = trip();
    if let Some(core) = options.core {
        placement::pin(core).ok_or_else(|| format!("can't run on core {core}"))?;
    }
    let counts = run::run(&mut tx, rx.as_mut(), options, &stop)?;
    let trips = before.and_then(|before| Some((before, trip()?)));
    Ok(Report::new(options, &counts, trips).render(options.output)?)
}
