//! What a run does, whether it was told so by flags or by a profile.

use crate::link::spec::LinkMode;
use crate::link::{InterfaceSpec, MemifSpec};
use crate::stateless::{self, Layer, Rate, Size};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds to send where none are given.
const SECONDS: f64 = 5.0;
/// Seconds beyond those that anybody can ask for: streams end when their packets are sent.
pub const NO_LIMIT: f64 = 1e9;
/// Seed where none is given.
const DEFAULT_SEED: u64 = 1;
/// What tells a number of a run from other numbers that follow from a seed.
const RUN: u64 = 0x72_756e;

/// What is looked at in received frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Check {
    /// Frames are counted; packets carry no signature.
    #[default]
    Count,
    /// Signatures: lost, duplicated, reordered packets by stream.
    Sequence,
    /// As `sequence`, and whether each payload is what was sent.
    Payload,
}

/// Interfaces of a run.
#[derive(Clone, Debug)]
pub enum Interfaces {
    /// These.
    Named(Vec<InterfaceSpec>),
    /// Both ends of a memif within this process: 0 is the client's, 1 the server's.
    Loop(MemifSpec),
}

/// A run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Interfaces.
    pub interfaces: Interfaces,
    /// Streams.
    pub streams: Vec<Stream>,
    /// Seconds to send.
    pub seconds: f64,
    /// What to look at.
    pub check: Check,
    /// For all that is random.
    pub seed: u64,
    /// Number of the run, by which packets of an earlier one are known.
    pub run: u16,
    /// Write and read every byte of every packet.
    pub full: bool,
    /// Frame sizes include the FCS, which isn't sent.
    pub fcs: bool,
    /// Seconds behind its time after which a packet isn't sent any more, but counted as missed; `None`: all are sent.
    pub max_late: Option<f64>,
    /// Seconds of silence after which no more packets are waited for.
    pub drain: f64,
    /// Seconds to wait for interfaces to come up.
    pub wait: f64,
}

impl Plan {
    /// The plan, with what follows from its streams: latency streams need signatures.
    ///
    /// # Errors
    /// What doesn't go together.
    pub fn checked(mut self) -> Result<Self, String> {
        if self.check == Check::Count && self.streams.iter().any(|stream| stream.latency) {
            self.check = Check::Sequence;
        }
        let captures = self.streams.iter().any(|stream| matches!(stream.content, Content::Capture { .. }));
        if captures && self.check > Check::Count {
            return Err("packets of a capture carry no signatures: use check = count and no latency streams beside it".into());
        }
        let timed =
            |stream: &Stream| matches!(stream.content, Content::Capture { original_timing: true, .. });
        if self.max_late.is_some() && self.streams.iter().any(timed) {
            return Err("packets at the times of a capture are never missed: use max-late with a rate".into());
        }
        Ok(self)
    }

    /// The seed, and the number of the run: with a given seed it follows from that, so that the same bytes are sent again;
    /// otherwise every run has its own.
    #[must_use]
    pub fn seed_and_run(seed: Option<u64>) -> (u64, u16) {
        let from = seed.unwrap_or_else(|| {
            let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            stateless::seed(time.as_nanos() as u64, std::process::id().into())
        });
        (seed.unwrap_or(DEFAULT_SEED), stateless::seed(from, RUN) as u16)
    }

    /// Seconds to send: those that were asked for, or else 5, unless streams end by themselves, and all others with them.
    #[must_use]
    pub fn seconds(asked: Option<f64>, streams: &[Stream]) -> f64 {
        let by_themselves = streams.iter().any(Stream::ends)
            && streams.iter().all(|stream| stream.ends() || stream.accompanies());
        asked.unwrap_or(if by_themselves { NO_LIMIT } else { SECONDS })
    }

    /// Whether packets of an interface begin with an IP header.
    #[must_use]
    pub fn ip(&self, interface: usize) -> bool {
        let mode = match &self.interfaces {
            Interfaces::Named(all) => all.get(interface).map_or(LinkMode::Ethernet, InterfaceSpec::mode),
            Interfaces::Loop(memif) => memif.mode,
        };
        mode == LinkMode::Ip
    }
}

/// A stream.
#[derive(Clone, Debug)]
pub struct Stream {
    /// Its name in the result.
    pub name: String,
    /// Interface it is sent to, by number.
    pub tx: usize,
    /// Where its packets are to come in.
    pub arrival: Arrival,
    /// Queue of the interface; `None`: all of them, each with an equal part.
    pub queue: Option<usize>,
    /// What is sent.
    pub content: Content,
    /// How fast.
    pub rate: Rate,
    /// Packets after which to stop; 0: when the time is up.
    pub count: u64,
    /// Packets carry a timestamp.
    pub latency: bool,
}

impl Stream {
    /// Whether it ends by itself, after a number of packets.
    #[must_use]
    pub const fn ends(&self) -> bool {
        self.count > 0 || matches!(self.content, Content::Capture { repeat: 1.., .. })
    }

    /// Whether it ends with the others, where those end by themselves: it measures the latency of their time.
    #[must_use]
    pub const fn accompanies(&self) -> bool {
        self.latency && !self.ends()
    }
}

/// Interfaces, by number, at which packets of a stream are to come in. At any other they are misdirected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// This one only.
    At(usize),
    /// Any but this one, to which they were sent.
    NotAt(usize),
}

impl Arrival {
    /// Whether an interface is one of them.
    #[inline(always)]
    #[must_use]
    pub const fn is_at(self, interface: usize) -> bool {
        match self {
            Self::At(only) => interface == only,
            Self::NotAt(tx) => interface != tx,
        }
    }
}

/// What a stream sends.
#[derive(Clone, Debug)]
pub enum Content {
    /// Packets made here.
    Made {
        /// Headers.
        stack: Vec<Layer>,
        /// Lengths.
        size: Size,
    },
    /// A capture file.
    Capture {
        /// The file.
        path: PathBuf,
        /// At the times of the capture, instead of the stream's rate.
        original_timing: bool,
        /// How often; 0: until the time is up.
        repeat: u64,
    },
}
