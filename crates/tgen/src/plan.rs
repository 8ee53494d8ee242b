//! What a run does, whether it was told so by flags or by a profile.

use crate::link::spec::LinkMode;
use crate::link::{InterfaceSpec, MemifSpec};
use crate::stateless::{Layer, Rate, Size};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

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
    /// Write and read every byte of every packet.
    pub full: bool,
    /// Frame sizes include the FCS, which isn't sent.
    pub fcs: bool,
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
        Ok(self)
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
