//! A port that gives the same frames again and again, made in memory.

use graph::IfIndex;
use graph::packet::Packets;
use graph::port::{PortFault, Quota, Received, RxQueue};
use graph::simd::Tier;
use std::os::fd::BorrowedFd;

/// Gives its frames in turn, a full vector at a time or as many as it is made for.
pub struct Source {
    frames: Vec<Vec<u8>>,
    at_once: usize,
    turn: usize,
}

impl Source {
    /// Of these frames; none are none. At most `at_once` of them a round.
    pub fn new(frames: Vec<Vec<u8>>, at_once: usize) -> Self {
        Self { frames, at_once, turn: 0 }
    }
}

impl RxQueue for Source {
    fn receive(
        &mut self,
        _: Tier,
        packets: &mut Packets,
        rx_if: IfIndex,
        quota: Quota,
    ) -> Result<Received, PortFault> {
        let first = packets.taken();
        let mut bytes = 0;
        for _ in 0..quota.packets.min(self.at_once) {
            let Some(frame) = self.frames.get(self.turn) else { break };
            self.turn = (self.turn + 1) % self.frames.len();
            bytes += frame.len() as u64;
            let read = |room: &mut [u8]| {
                room[..frame.len()].copy_from_slice(frame);
                Ok((0, frame.len()))
            };
            let taken = packets.receive_private(rx_if, frame.len(), read);
            taken.map_err(|error| PortFault { kind: "source", reason: error.to_string() })?;
        }
        Ok(Received { bytes, slots: first..packets.taken(), ..Received::default() })
    }

    fn release(&mut self) {}

    fn event_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}
