//! Frames from a capture file, sent as they are.

use crate::link::{Packets, Target};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use wire::LinkType;
use wire::capture::{CaptureError, Decoder};

/// Bytes of a file that are kept in memory at most.
const LIMIT: usize = 4 << 30;

/// Why a capture can't be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// Can't be read.
    #[error("capture {path}: {source}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// No capture.
    #[error("capture {path}: {source}", path = path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: CaptureError,
    },
    /// Nothing that could be sent.
    #[error("capture {path} has no packets that can be sent here: it holds {found}, the interface wants {want}", path = path.display())]
    Empty {
        /// The file.
        path: PathBuf,
        /// What packets begin with.
        found: String,
        /// What they should begin with.
        want: &'static str,
    },
    /// Too large.
    #[error("capture {path} has more than {LIMIT} bytes of packets: cut it (editcap -c)", path = path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
}

/// The packets of a capture, one after the other.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    bytes: Vec<u8>,
    /// Where each ends.
    ends: Vec<usize>,
    /// When each was seen, in nanoseconds after the first.
    pub times: Vec<u64>,
    /// Packets that were left out: cut off when they were captured, too long, or of another link type.
    pub left_out: u64,
}

impl Recording {
    /// Reads a file, pcap or pcapng. `ip`: packets begin with an IP header, else with an Ethernet header.
    ///
    /// # Errors
    /// [`ReplayError`].
    pub fn read(path: &Path, ip: bool) -> Result<Self, ReplayError> {
        let read = |source| ReplayError::Read { path: path.into(), source };
        let format = |source| ReplayError::Format { path: path.into(), source };
        let mut file = File::open(path).map_err(read)?;
        let (mut decoder, mut piece) = (Decoder::new(), vec![0; 1 << 20]);
        let mut recording = Self::default();
        let (mut first, mut found) = (None, String::from("none at all"));
        loop {
            let n = file.read(&mut piece).map_err(read)?;
            if n == 0 {
                break;
            }
            decoder.feed(piece.get(..n).unwrap_or_default());
            while let Some(packet) = decoder.next_packet().map_err(format)? {
                let fits = if ip {
                    matches!(packet.link, LinkType::RAW | LinkType::IPV4 | LinkType::IPV6)
                } else {
                    packet.link == LinkType::ETHERNET
                };
                let whole = packet.data.len() as u64 >= u64::from(packet.original_len);
                if !fits || !whole || packet.data.is_empty() || packet.data.len() > super::size::MAX {
                    recording.left_out += 1;
                    found =
                        if fits { "packets cut off when captured".into() } else { packet.link.to_string() };
                    continue;
                }
                let time = packet.timestamp_ns;
                let after = time.saturating_sub(*first.get_or_insert(time));
                // Captures of several queues may step back a little.
                let last = recording.times.last().copied().unwrap_or(0);
                recording.times.push(after.max(last));
                recording.bytes.extend_from_slice(packet.data);
                recording.ends.push(recording.bytes.len());
                if recording.bytes.len() > LIMIT {
                    return Err(ReplayError::TooLarge { path: path.into() });
                }
            }
        }
        decoder.finish().map_err(format)?;
        if recording.ends.is_empty() {
            let want = if ip { "ip" } else { "ethernet" };
            return Err(ReplayError::Empty { path: path.into(), found, want });
        }
        Ok(recording)
    }

    /// Number of packets.
    #[must_use]
    pub fn count(&self) -> usize {
        self.ends.len()
    }

    /// Packet number `n`.
    #[must_use]
    pub fn packet(&self, n: usize) -> &[u8] {
        let start = if n == 0 { 0 } else { self.ends.get(n - 1).copied().unwrap_or(0) };
        let end = self.ends.get(n).copied().unwrap_or(start);
        self.bytes.get(start..end).unwrap_or_default()
    }

    /// Bytes per packet, on average.
    #[must_use]
    pub fn mean_len(&self) -> f64 {
        self.bytes.len() as f64 / self.count().max(1) as f64
    }

    /// Shortest and longest packet.
    #[must_use]
    pub fn lens(&self) -> (usize, usize) {
        let lens = (0..self.count()).map(|n| self.packet(n).len());
        lens.fold((usize::MAX, 0), |(min, max), len| (min.min(len), max.max(len)))
    }
}

/// A recording on its way.
#[derive(Debug)]
pub struct Replay {
    recording: Recording,
    at: usize,
}

impl Replay {
    /// At its first packet. It begins again after the last.
    #[must_use]
    pub const fn new(recording: Recording) -> Self {
        Self { recording, at: 0 }
    }

    /// What is played.
    #[must_use]
    pub const fn recording(&self) -> &Recording {
        &self.recording
    }
}

impl Packets for Replay {
    #[inline(always)]
    fn prepare(&mut self) -> usize {
        if self.at == self.recording.count() {
            self.at = 0;
        }
        self.recording.count() - self.at
    }

    #[inline(always)]
    fn len(&self, packet: usize) -> u32 {
        self.recording.packet(self.at + packet).len() as u32
    }

    #[inline(always)]
    fn write<T: Target>(&self, packet: usize, into: T, _rest: bool, _stamp: impl Fn() -> u64) {
        into.put(0, self.recording.packet(self.at + packet));
    }

    #[inline(always)]
    fn sent(&mut self, n: usize) {
        self.at += n;
    }
}
