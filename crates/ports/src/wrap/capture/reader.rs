//! The side of the one who looks on.

use super::eye::Block;
use super::point::{CapturePoint, Sink};
use std::collections::VecDeque;
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

/// Gets what a capture has caught. Dropping it ends the capture.
#[derive(Debug)]
pub struct CaptureReader {
    pub(super) blocks: Receiver<Block>,
    /// Those of the block at hand.
    packets: VecDeque<CapturedPacket>,
    sink: Arc<Sink>,
    point: Arc<CapturePoint>,
    /// Packets still to be handed out.
    left: u64,
}

impl CaptureReader {
    pub(super) fn new(
        blocks: Receiver<Block>,
        sink: Arc<Sink>,
        point: Arc<CapturePoint>,
        count: u64,
    ) -> Self {
        Self { blocks, packets: VecDeque::new(), sink, point, left: count }
    }

    /// The next packet; `None` when as many as were asked for have been read.
    pub async fn recv(&mut self) -> Option<CapturedPacket> {
        while self.left > 0 && self.packets.is_empty() {
            let block = self.blocks.recv().await?;
            self.unpack(&block);
        }
        self.next()
    }

    /// [`CaptureReader::recv`] for threads without a runtime.
    pub fn blocking_recv(&mut self) -> Option<CapturedPacket> {
        while self.left > 0 && self.packets.is_empty() {
            let block = self.blocks.blocking_recv()?;
            self.unpack(&block);
        }
        self.next()
    }

    /// The next packet, if it is there now.
    pub fn try_recv(&mut self) -> Option<CapturedPacket> {
        while self.left > 0 && self.packets.is_empty() {
            let block = self.blocks.try_recv().ok()?;
            self.unpack(&block);
        }
        self.next()
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

    fn unpack(&mut self, block: &Block) {
        let mut at = 0;
        for record in &block.records {
            let end = at + record.len as usize;
            self.packets.push_back(CapturedPacket {
                timestamp_ns: record.timestamp_ns,
                worker: block.worker,
                interface: record.interface,
                seen: record.seen,
                original_len: record.original_len,
                bytes: block.bytes.get(at..end).unwrap_or_default().into(),
            });
            at = end;
        }
    }

    fn next(&mut self) -> Option<CapturedPacket> {
        if self.left == 0 {
            return None;
        }
        let packet = self.packets.pop_front()?;
        self.left -= 1;
        self.sink.packets.fetch_sub(1, Ordering::Relaxed);
        self.sink.bytes.fetch_sub(packet.bytes.len(), Ordering::Relaxed);
        Some(packet)
    }
}

impl Drop for CaptureReader {
    fn drop(&mut self) {
        self.point.end(&self.sink);
    }
}
