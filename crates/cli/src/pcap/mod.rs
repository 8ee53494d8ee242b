//! `quiver pcap`: packets into a pcapng file, or through a pipe into Wireshark.
//!
//! - `file`: the pcapng file that grows packet by packet.
//! - `run`: the capture, its end, and the line that says how far it is.

mod file;
mod run;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueHint};
use clap_complete::ArgValueCandidates;

use crate::context::Context;
use crate::error::Error;
use crate::exit::Exit;
use crate::reference::candidates;
use crate::seconds;

/// What to do.
#[derive(Debug, Args)]
pub(crate) struct PcapArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Capture until Ctrl-C, or until there is enough
    ///
    /// Without --rx, --tx and --drop all three are captured; then a packet that passes appears twice. A dropped packet
    /// carries the reason as its comment. Straight into Wireshark:
    /// quiver pcap start --write - | wireshark -k -i -
    Start(StartArgs),
}

/// Which packets, and where to.
#[derive(Debug, Args)]
pub(super) struct StartArgs {
    /// Packets as they are received
    #[arg(long)]
    rx: bool,
    /// Packets as they are sent
    #[arg(long)]
    tx: bool,
    /// Packets that are dropped, with the reason
    #[arg(long)]
    drop: bool,
    /// Only this interface; may be given several times
    #[arg(short, long = "interface", value_name = "NAME")]
    #[arg(add = ArgValueCandidates::new(candidates::interfaces))]
    interfaces: Vec<String>,
    /// End after this many packets
    #[arg(short, long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// End after this time: 10s, 5m
    #[arg(long, value_name = "TIME", value_parser = seconds::parse)]
    duration: Option<Duration>,
    /// Bytes kept of each packet; 0: all
    #[arg(short, long, value_name = "BYTES", default_value_t = 0)]
    snaplen: u32,
    /// File to write, replaced if it exists; - for standard output
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    write: PathBuf,
}

/// Captures.
pub(crate) async fn run(context: &Context, args: &PcapArgs) -> Result<Exit, Error> {
    let Action::Start(args) = &args.action;
    run::start(context, args).await
}
