//! The playing side.

use super::open::Pace;
use crate::port::LinkLayer;
use crate::timer::Timer;
use graph::IfIndex;
use graph::port::{PortFault, Quota, Received, RxQueue};
use memory::clock::nanoseconds;
use memory::packet::Packets;
use memory::simd::Tier;
use rustix::fs::OFlags;
use std::fs::OpenOptions;
use std::io::{self, Read};
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use wire::LinkType;
use wire::capture::Decoder;

/// Longest file that is played: it is kept in memory.
const LONGEST: u64 = 1 << 30;
/// Longest packet a slot can hold, and so that is played.
const LONGEST_PACKET: usize = 66 * 1024;

/// The packets of a file.
#[derive(Debug, Default)]
pub(super) struct Recording {
    bytes: Vec<u8>,
    packets: Vec<Recorded>,
    pub(super) link: Option<LinkLayer>,
    pub(super) longest: usize,
}

#[derive(Debug)]
struct Recorded {
    /// Nanoseconds after the first packet.
    after: u64,
    range: Range<usize>,
}

impl Recording {
    /// Reads a file.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidData`] with what is wrong in the file, [`io::ErrorKind::FileTooLarge`], [`io::ErrorKind::InvalidInput`] where
    /// it is no regular file, or what the system says.
    pub(super) fn read(path: &Path) -> io::Result<Self> {
        // Whoever opens a pipe would wait for its other end.
        let nonblock = OFlags::NONBLOCK.bits() as i32;
        let mut file = OpenOptions::new().read(true).custom_flags(nonblock).open(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
        }
        if metadata.len() > LONGEST {
            let problem = format!("it has more than {} MiB, which is the most that is played", LONGEST >> 20);
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, problem));
        }
        let mut recording = Self::default();
        let mut decoder = Decoder::new();
        let mut piece = vec![0; 1 << 16];
        let mut first = None;
        loop {
            let n = file.read(&mut piece)?;
            if n == 0 {
                break;
            }
            decoder.feed(piece.get(..n).unwrap_or_default());
            while let Some(packet) = decoder.next_packet().map_err(invalid)? {
                let first = *first.get_or_insert(packet.timestamp_ns);
                recording.add(packet.link, packet.timestamp_ns.saturating_sub(first), packet.data)?;
            }
        }
        decoder.finish().map_err(invalid)?;
        if recording.packets.is_empty() {
            return Err(invalid("there is no packet in it"));
        }
        Ok(recording)
    }

    fn add(&mut self, link: LinkType, after: u64, bytes: &[u8]) -> io::Result<()> {
        let number = self.packets.len() + 1;
        let link = match link {
            LinkType::ETHERNET => LinkLayer::Ethernet,
            LinkType::RAW | LinkType::IPV4 | LinkType::IPV6 => LinkLayer::Ip,
            other => {
                return Err(invalid(format!(
                    "packet {number} has link type {}: only Ethernet and raw IP are played",
                    other.0
                )));
            }
        };
        if *self.link.get_or_insert(link) != link {
            return Err(invalid(format!(
                "packet {number} has another link type than the first: one port can't have both"
            )));
        }
        if bytes.len() > LONGEST_PACKET {
            return Err(invalid(format!(
                "packet {number} has {} bytes: the most is {LONGEST_PACKET}",
                bytes.len()
            )));
        }
        self.longest = self.longest.max(bytes.len());
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        self.packets.push(Recorded { after, range: start..self.bytes.len() });
        Ok(())
    }
}

fn invalid(error: impl Into<Box<dyn core::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

/// The queue.
pub(super) struct PcapRx {
    recording: Recording,
    pace: Pace,
    timer: Timer,
    /// Times that the file is still to be played, this one included.
    rounds: u64,
    next: usize,
    /// When this round began; unknown before the first call.
    start: Option<u64>,
}

impl PcapRx {
    /// `repeat` 0: for ever.
    pub(super) fn new(recording: Recording, pace: Pace, repeat: u64, timer: Timer) -> Self {
        let rounds = if repeat == 0 { u64::MAX } else { repeat };
        Self { recording, pace, timer, rounds, next: 0, start: None }
    }

    /// When the next packet is due; `None` after the last.
    fn due(&self) -> Option<u64> {
        let packet = self.recording.packets.get(self.next).filter(|_| self.rounds > 0)?;
        match (self.pace, self.start) {
            (Pace::Original, Some(start)) => Some(start.saturating_add(packet.after)),
            _ => Some(0),
        }
    }

    fn advance(&mut self) {
        self.next += 1;
        if self.next < self.recording.packets.len() {
            return;
        }
        // The next round begins as long after the last packet as that came after its predecessor.
        let last_two = self.recording.packets.last_chunk::<2>();
        let gap = last_two.map_or(0, |[a, b]| b.after.saturating_sub(a.after));
        let length = self.recording.packets.last().map_or(0, |last| last.after) + gap;
        self.start = self.start.map(|start| start.saturating_add(length));
        self.next = 0;
        self.rounds -= 1;
    }
}

impl RxQueue for PcapRx {
    fn receive(
        &mut self,
        _tier: Tier,
        packets: &mut Packets,
        rx_if: IfIndex,
        quota: Quota,
    ) -> Result<Received, PortFault> {
        let first = packets.taken();
        let max = quota.packets.min(packets.free());
        let now = nanoseconds();
        self.start.get_or_insert(now);
        let mut bytes = 0;
        // Packets of no bytes take no slot; a file full of them must not keep the worker here.
        let mut empty = 0;
        while packets.taken() - first + empty < max && self.due().is_some_and(|due| due <= now) {
            let range = self.recording.packets.get(self.next).map(|packet| packet.range.clone());
            let packet = self.recording.bytes.get(range.unwrap_or_default()).unwrap_or_default();
            let taken = packets.receive_private(rx_if, packet.len(), |buffer| {
                buffer.copy_from_slice(packet);
                Ok((0, packet.len()))
            });
            match taken {
                Ok(Some(_)) => bytes += packet.len() as u64,
                Ok(None) => empty += 1,
                Err(_) => break,
            }
            self.advance();
        }
        Ok(Received { slots: first..packets.taken(), bytes, ..Received::default() })
    }

    fn release(&mut self) {}

    fn arm(&mut self) -> bool {
        match self.due() {
            Some(due) => due > nanoseconds() && self.timer.set(Some(due)),
            None => self.timer.set(None),
        }
    }

    fn disarm(&mut self) {
        self.timer.set(None);
    }

    fn event_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.timer.fd())
    }
}
