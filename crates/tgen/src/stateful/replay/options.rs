//! The command line of `quiver-tgen replay`, and the result.

use super::conversation::{Conversation, ConversationError, MAX_STEPS};
use super::run::{BLOCK, Outcome, Plan, StepCount, run};
use crate::options::{Output, seconds};
use crate::report::{Ticker, ending, print};
use crate::stateful::interfaces::{Interfaces, Links};
use crate::stateful::options::{StatefulError, Verdict};
use crate::stateful::profile::{AnyEnds, Ends, Profile, Shape};
use crate::stateless::{Progress, Recording, ReplayError};
use clap::Args;
use serde::Serialize;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Sends the packets of whole connections with new endpoints each time, both ways through a device, without keeping state, and
/// counts how many of each step came through.
#[derive(Clone, Debug, Args)]
pub struct ReplayOptions {
    /// What a conversation is: tcp-cps, udp-cps, tcp-tput, udp-tput, or a TOML file as for `stateful`.
    #[arg(long, default_value = "tcp-cps", value_name = "NAME|FILE")]
    pub profile: String,
    /// The first TCP or UDP conversation of a capture instead. Who sends first is the client.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["profile", "protocol", "turns", "request", "response", "frame_size", "mss", "close"])]
    pub pcap: Option<PathBuf>,
    /// Where to send them.
    #[command(flatten)]
    pub interfaces: Interfaces,
    /// Endpoints, rate (of conversations) and what else makes a conversation.
    #[command(flatten)]
    pub shape: Shape,
    /// Seconds in which conversations are begun.
    #[arg(long, default_value_t = 5.0)]
    pub seconds: f64,
    /// Seconds to wait for the last packets.
    #[arg(long, default_value_t = 0.5)]
    pub drain: f64,
    /// Blocks of 128 conversations (below 12800 per second, those of 10 ms) that begin between two steps of one. A step must have
    /// left the device when its answer is sent: more than a ring holds.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..=4096))]
    pub apart: u64,
    /// Print what is going on each second, also where standard error is no terminal.
    #[arg(long)]
    pub progress: bool,
    /// Exit status 3 if a packet was lost.
    #[arg(long)]
    pub strict: bool,
    /// What to print.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

/// One step, as it is printed.
#[derive(Clone, Debug, Serialize)]
pub struct StepReport {
    /// What it is.
    pub step: String,
    /// Packets sent and received.
    #[serde(flatten)]
    pub count: StepCount,
}

/// The result.
#[derive(Clone, Debug, Serialize)]
pub struct ReplayReport {
    /// Conversations begun.
    pub conversations: u64,
    /// Seconds of sending.
    pub seconds: f64,
    /// Conversations per second.
    pub conversations_per_second: f64,
    /// Packets sent.
    pub sent: u64,
    /// Packets received.
    pub received: u64,
    /// Packets sent and not received.
    pub lost: u64,
    /// Packets received per second of sending.
    pub received_pps: f64,
    /// Received packets that are no step of a conversation.
    pub other: u64,
    /// Frames that came and that the kernel threw away because the generator took too few: its own losses, not the device's.
    /// `null` where that can't be known (memif: there the device finds the ring full).
    pub receive_drops: Option<u64>,
    /// Step by step.
    pub steps: Vec<StepReport>,
    /// Was interrupted: this is what came of it until then.
    pub stopped: bool,
    /// Why it ended before its time, if an interface was lost.
    pub error: Option<String>,
}

impl ReplayReport {
    fn new(conversation: &Conversation, outcome: &Outcome) -> Self {
        let seconds = outcome.seconds.max(1e-9);
        let (sent, received) =
            outcome.steps.iter().fold((0, 0), |sum, step| (sum.0 + step.sent, sum.1 + step.received));
        let steps = conversation.steps.iter().zip(&outcome.steps);
        Self {
            conversations: outcome.conversations,
            seconds: outcome.seconds,
            conversations_per_second: outcome.conversations as f64 / seconds,
            sent,
            received,
            lost: outcome.steps.iter().map(|step| step.sent.saturating_sub(step.received)).sum(),
            received_pps: received as f64 / seconds,
            other: outcome.other,
            receive_drops: outcome.receive_drops,
            steps: steps.map(|(step, count)| StepReport { step: step.describe(), count: *count }).collect(),
            stopped: outcome.stopped,
            error: outcome.lost.as_ref().map(ToString::to_string),
        }
    }

    fn text(&self) -> String {
        let mut text = format!(
            "{:.1} s: {:.0} conversations/s, {:.2} Mpps received\nsent {}, received {}, lost {}",
            self.seconds,
            self.conversations_per_second,
            self.received_pps / 1e6,
            self.sent,
            self.received,
            self.lost
        );
        if let Some(own) = self.receive_drops.filter(|own| *own > 0) {
            text.push_str(&format!(
                "\nTHE GENERATOR WAS TOO SLOW: {own} frames came that it didn't take in time"
            ));
        }
        for (n, step) in self.steps.iter().enumerate() {
            let StepCount { sent, received } = step.count;
            text.push_str(&format!("\n{n:4}  {:40} sent {sent:>12}  received {received:>12}", step.step));
        }
        text + &ending(self.stopped, self.error.as_deref())
    }
}

impl ReplayOptions {
    /// Does it all and prints the result.
    ///
    /// # Errors
    /// What kept it from measuring.
    pub fn run(&self, stop: &AtomicBool) -> Result<Verdict, StatefulError> {
        for (flag, value) in [("seconds", self.seconds), ("drain", self.drain)] {
            seconds(flag, value).map_err(StatefulError::Option)?;
        }
        let profile = Profile::load(&self.profile, self.shape.clone())?;
        if self.interfaces.is_one_sided() {
            return Err(StatefulError::Option(
                "both sides of a conversation are replayed: give --client-interface and --server-interface"
                    .into(),
            ));
        }
        let AnyEnds::V4(ends) = profile.ends else {
            let what = "conversations are replayed over IPv4 only; quiver-tgen stateful does IPv6, too";
            return Err(StatefulError::Option(what.into()));
        };
        let conversation = self.conversation(&profile, &ends)?;
        let Links { mut client, mut server, other: _other } = self.interfaces.open(stop)?;
        // Before this thread is pinned, else that one would have its core.
        let progress = Arc::new(Progress::default());
        let ticker = (self.progress || std::io::stderr().is_terminal())
            .then(|| Ticker::start(Arc::clone(&progress)))
            .transpose()?;
        self.interfaces.pin()?;
        let faces = self.interfaces.faces(&ends, profile.max_payload, false)?;
        let plan = Plan {
            conversation,
            clients: ends.clients,
            servers: ends.servers,
            rate: profile.rate,
            conversations: profile.connections,
            seconds: self.seconds,
            drain: self.drain,
            apart: self.apart,
        };
        let framings = (&faces.0.framing, &faces.1.framing);
        let outcome = run(&plan, (&mut client, &mut server), framings, stop, &progress);
        drop(ticker);
        let report = ReplayReport::new(&plan.conversation, &outcome);
        match self.output {
            Output::Json => print(&serde_json::to_string_pretty(&report)?)?,
            Output::Text => print(&report.text())?,
        }
        Ok(if let Some(error) = report.error {
            Verdict::Incomplete(error)
        } else if report.received == 0 {
            Verdict::NothingEstablished(self.interfaces.next_hops_missing())
        } else if self.strict && report.lost > 0 {
            Verdict::Failures
        } else {
            Verdict::Measured
        })
    }

    fn conversation(&self, profile: &Profile, ends: &Ends) -> Result<Conversation, StatefulError> {
        let bad = |error: ConversationError| StatefulError::Option(error.to_string());
        let conversation = match &self.pcap {
            Some(path) => {
                let recording = Recording::read(path, false)
                    .map_err(|error: ReplayError| StatefulError::Option(error.to_string()))?;
                Conversation::captured(&recording).map_err(bad)?
            }
            None => Conversation::made(profile, ends),
        };
        let memory = conversation.steps.len() as u64 * self.apart * BLOCK as u64;
        match conversation.steps.len() {
            n if n > MAX_STEPS => Err(bad(ConversationError::TooLong(n))),
            _ if memory > 1 << 27 => {
                Err(StatefulError::Option("too many conversations at once: make --apart smaller".into()))
            }
            _ => Ok(conversation),
        }
    }
}
