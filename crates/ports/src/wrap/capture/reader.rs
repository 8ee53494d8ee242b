//! The side of the one who looks on.

use super::budget::Account;
use super::point::{CapturePoint, Sink};
use super::segment::Segment;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;

/// Where in its life a packet was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Seen {
    /// As it was received.
    Received,
    /// As it was sent.
    Sent,
    /// As it was dropped.
    Dropped {
        /// Why, as the graph numbers reasons ([`graph::plan::Plan::drops`]).
        reason: u16,
    },
}

/// A captured packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapturedPacket {
    /// Nanoseconds since 1970-01-01 UTC.
    pub timestamp_ns: u64,
    /// The worker that saw it.
    pub worker: usize,
    /// Interface it came in by (received, dropped) or left by (sent).
    pub interface: u16,
    /// Where in its life it was seen.
    pub seen: Seen,
    /// Its length in bytes.
    pub original_len: u32,
    /// Its bytes from the link-layer header on, cut to the capture's limit.
    pub bytes: Box<[u8]>,
}

/// What one worker has seen, in order.
#[derive(Debug, Default)]
struct Lane {
    next: Option<CapturedPacket>,
    segments: VecDeque<Segment>,
}

/// Gets what a capture has caught. Dropping it ends the capture, and frees its memory.
#[derive(Debug)]
pub struct CaptureReader {
    segments: Receiver<Segment>,
    /// By worker.
    lanes: Vec<Lane>,
    sink: Arc<Sink>,
    point: Arc<CapturePoint>,
    /// Packets still to be handed out.
    left: u64,
    _account: Arc<Account>,
}

impl CaptureReader {
    pub(super) fn new(
        segments: Receiver<Segment>,
        sink: Arc<Sink>,
        point: Arc<CapturePoint>,
        count: u64,
        account: Arc<Account>,
    ) -> Self {
        Self { segments, lanes: Vec::new(), sink, point, left: count, _account: account }
    }

    /// The next packet, if it is there now: of those that workers have seen the oldest.
    pub fn try_recv(&mut self) -> Option<CapturedPacket> {
        if self.left == 0 {
            return None;
        }
        for segment in self.segments.try_iter() {
            let worker = segment.worker;
            if self.lanes.len() <= worker {
                self.lanes.resize_with(worker + 1, Lane::default);
            }
            self.lanes[worker].segments.push_back(segment);
        }
        self.lanes.iter_mut().for_each(Lane::advance);
        let time = |lane: &Lane| lane.next.as_ref().map(|packet| packet.timestamp_ns);
        let oldest = self.lanes.iter_mut().filter(|lane| lane.next.is_some()).min_by_key(|lane| time(lane));
        let packet = oldest?.next.take()?;
        self.left -= 1;
        Some(packet)
    }

    /// Packets that should have been captured and weren't, because this reader was too slow.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.sink.missed.load(Ordering::Relaxed)
    }

    /// Whether as many packets as were asked for have been read.
    #[must_use]
    pub fn ended(&self) -> bool {
        self.left == 0
    }
}

impl Lane {
    /// Reads the next packet, and frees segments that have been read.
    fn advance(&mut self) {
        while self.next.is_none()
            && let Some(segment) = self.segments.front_mut()
        {
            // Looked at before: what was written until then is read.
            let is_complete = segment.is_complete();
            self.next = segment.read();
            if self.next.is_none() {
                if !is_complete {
                    return;
                }
                self.segments.pop_front();
            }
        }
    }
}

impl Drop for CaptureReader {
    fn drop(&mut self) {
        self.point.end(&self.sink);
    }
}
