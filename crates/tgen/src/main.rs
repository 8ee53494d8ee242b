//! `quiver-tgen`: see `--help`.

#![forbid(unsafe_code)]

use clap::Parser;
use quiver_tgen::options::Options;
use quiver_tgen::report::Report;
use quiver_tgen::stateful::options::{StatefulOptions, Verdict};
use quiver_tgen::{link, placement, run};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Connections instead of packets.
#[derive(Parser)]
#[command(name = "quiver-tgen stateful", version)]
struct Stateful {
    #[command(flatten)]
    options: StatefulOptions,
}

fn main() -> ExitCode {
    let mut arguments = std::env::args_os();
    if arguments.nth(1).is_some_and(|word| word == "stateful") {
        let program = std::ffi::OsString::from("quiver-tgen stateful");
        return stateful(&Stateful::parse_from(std::iter::once(program).chain(arguments)).options);
    }
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

fn stateful(options: &StatefulOptions) -> ExitCode {
    match stop_signal().map_err(Into::into).and_then(|stop| options.run(&stop)) {
        Ok(Verdict::Measured) => ExitCode::SUCCESS,
        Ok(Verdict::Failures) => ExitCode::from(2),
        Ok(Verdict::NothingEstablished) => {
            eprintln!("quiver-tgen: not one connection was established");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("quiver-tgen: {error}");
            ExitCode::FAILURE
        }
    }
}

fn stop_signal() -> std::io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

fn generate(options: &Options) -> Result<String, Box<dyn std::error::Error>> {
    let stop = stop_signal()?;
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
