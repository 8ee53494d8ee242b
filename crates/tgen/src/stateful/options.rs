//! The command line of `quiver-tgen stateful`.

use super::address::Address;
use super::interfaces::{Interfaces, Links};
use super::profile::{AnyEnds, Ends, Profile, Shape};
use super::report::{Report, Second};
use super::run::{Outcome, Times, run};
use crate::link::LinkError;
use crate::options::{Output, seconds};
use crate::report::{print, say};
use clap::Args;
use std::io::IsTerminal;
use std::sync::atomic::AtomicBool;

/// Opens connections from clients to servers through a device under test, both ends of which it is, and tells what became
/// of them.
#[derive(Clone, Debug, Args)]
#[command(next_line_help = false)]
pub struct StatefulOptions {
    /// What to run: tcp-cps, udp-cps, tcp-tput, udp-tput, or a TOML file with the same names as the flags.
    #[arg(long, default_value = "tcp-cps", value_name = "NAME|FILE")]
    pub profile: String,
    /// Where to make them.
    #[command(flatten)]
    pub interfaces: Interfaces,
    /// What connections to make.
    #[command(flatten)]
    pub shape: Shape,
    /// Seconds in which connections are opened.
    #[arg(long, default_value_t = 5.0, allow_negative_numbers = true)]
    pub seconds: f64,
    /// Seconds to wait afterwards until all have ended.
    #[arg(long, default_value_t = 3.0, allow_negative_numbers = true)]
    pub drain: f64,
    /// Check whole packets against their checksums; otherwise those of up to 64 bytes.
    #[arg(long)]
    pub verify: bool,
    /// Show each second on standard error. Default: if that is a terminal.
    #[arg(long)]
    pub progress: bool,
    /// Exit status 3 if a connection failed or didn't end.
    #[arg(long)]
    pub strict: bool,
    /// What to print.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

/// What kept it from measuring.
#[derive(Debug, thiserror::Error)]
pub enum StatefulError {
    /// The profile isn't one.
    #[error(transparent)]
    Profile(#[from] super::profile::ProfileError),
    /// An option can't be.
    #[error("{0}")]
    Option(String),
    /// An interface can't be had.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// Latencies can't be kept.
    #[error("no histogram of latencies: {0}")]
    Histogram(#[from] hdrhistogram::CreationError),
    /// There is no such core.
    #[error("can't run on core {0}: is there one of that number?")]
    Core(usize),
    /// The result could not be written, or signals not be caught.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// The result has no JSON form.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

impl StatefulError {
    /// Whether what was asked for can't be.
    #[must_use]
    pub const fn is_usage(&self) -> bool {
        match self {
            Self::Profile(_) | Self::Option(_) => true,
            Self::Link(error) => error.is_usage(),
            _ => false,
        }
    }
}

/// What a run came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It was measured.
    Measured,
    /// Not one connection was established. What that may come from, if anything can be said.
    NothingEstablished(String),
    /// It was to be without a failure, and wasn't.
    Failures,
    /// An interface was lost, for this reason: the result is that of the time until then.
    Incomplete(String),
}

impl StatefulOptions {
    /// Does it all and prints the result.
    ///
    /// # Errors
    /// What kept it from measuring.
    pub fn run(&self, stop: &AtomicBool) -> Result<Verdict, StatefulError> {
        for (flag, value) in [("seconds", self.seconds), ("drain", self.drain)] {
            seconds(flag, value).map_err(StatefulError::Option)?;
        }
        let profile = Profile::load(&self.profile, self.shape.clone())?;
        let outcome = match &profile.ends {
            AnyEnds::V4(ends) => self.measure(&profile, ends, stop)?,
            AnyEnds::V6(ends) => self.measure(&profile, ends, stop)?,
        };
        let report = Report::new(&profile, &outcome);
        match self.output {
            Output::Json => print(&serde_json::to_string_pretty(&report)?)?,
            Output::Text => print(&report.text())?,
        }
        let counts = if self.interfaces.has_clients() { &report.client } else { &report.server };
        Ok(if let Some(error) = report.error {
            Verdict::Incomplete(error)
        } else if counts.established == 0 {
            Verdict::NothingEstablished(self.interfaces.next_hops_missing())
        } else if self.strict && counts.closed != counts.attempted {
            Verdict::Failures
        } else {
            Verdict::Measured
        })
    }

    fn measure<A: Address>(
        &self,
        profile: &Profile,
        ends: &Ends<A>,
        stop: &AtomicBool,
    ) -> Result<Outcome, StatefulError> {
        let faces = self.interfaces.faces(ends, profile.max_payload, self.verify)?;
        let Links { mut client, mut server, other: _other } = self.interfaces.open(stop)?;
        self.interfaces.pin()?;
        let clients = self.interfaces.has_clients();
        let times = Times { seconds: self.seconds, drain: self.drain, clients };
        let shown = self.progress || std::io::stderr().is_terminal();
        let mut each_second = |before: &_, after: &_| {
            if shown {
                say(&Second::between(before, after).line());
            }
        };
        Ok(run(profile, ends, times, (&mut client, &mut server), faces, stop, &mut each_second)?)
    }
}
