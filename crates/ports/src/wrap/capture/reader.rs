//! The side of the one who looks on.

use super::point::{CapturePoint, Sink};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::sync::mpsc::Receiver;

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
    /// Interface it came in by (received, dropped) or left by (sent).
    pub interface: u16,
    /// Where in its life it was seen.
    pub seen: Seen,
    /// Its length in bytes.
    pub original_len: u32,
    /// Its bytes from the link-layer header on, cut to the capture's limit.
    pub bytes: Box<[u8]>,
}

/// Gets what a capture has caught. Dropping it ends the capture.
#[derive(Debug)]
pub struct CaptureReader {
    packets: Receiver<CapturedPacket>,
    sink: Arc<Sink>,
    point: Arc<CapturePoint>,
    /// What the point had missed when this began.
    before: u64,
    /// Packets still to be handed out.
    left: u64,
}

impl CaptureReader {
    pub(super) fn new(
        packets: Receiver<CapturedPacket>,
        sink: Arc<Sink>,
        point: Arc<CapturePoint>,
        count: u64,
    ) -> Self {
        let before = point.missed.load(Ordering::Relaxed);
        Self { packets, sink, point, before, left: count }
    }

    /// The next packet; `None` when as many as were asked for have been read.
    pub async fn recv(&mut self) -> Option<CapturedPacket> {
        if self.left == 0 {
            return None;
        }
        let packet = self.packets.recv().await?;
        Some(self.taken(packet))
    }

    /// [`CaptureReader::recv`] for threads without a runtime.
    pub fn blocking_recv(&mut self) -> Option<CapturedPacket> {
        if self.left == 0 {
            return None;
        }
        let packet = self.packets.blocking_recv()?;
        Some(self.taken(packet))
    }

    /// The next packet, if it is there now.
    pub fn try_recv(&mut self) -> Option<CapturedPacket> {
        if self.left == 0 {
            return None;
        }
        let packet = self.packets.try_recv().ok()?;
        Some(self.taken(packet))
    }

    /// Packets that should have been captured and weren't, because this reader was too slow, or (hardly ever) because
    /// another capture was begun or ended just then.
    #[must_use]
    pub fn missed(&self) -> u64 {
        let others = self.point.missed.load(Ordering::Relaxed) - self.before;
        self.sink.missed.load(Ordering::Relaxed) + others
    }

    /// Whether as many packets as were asked for have been read.
    #[must_use]
    pub fn ended(&self) -> bool {
        self.left == 0
    }

    fn taken(&mut self, packet: CapturedPacket) -> CapturedPacket {
        self.left -= 1;
        self.sink.bytes.fetch_sub(packet.bytes.len(), Ordering::Relaxed);
        packet
    }
}

impl Drop for CaptureReader {
    fn drop(&mut self) {
        self.point.end(&self.sink);
    }
}
