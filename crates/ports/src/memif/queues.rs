//! Queues of an established connection.

use ::memif::ring::{Armed, PacketsSent, QueueError};
use core::fmt;
use graph::packet::{Packets, SlotId};
use graph::port::{IfIndex, PortFault, Quota, Received, RxQueue, Sent, Stop, TxQueue};
use graph::simd::{Simd, Tier, TierTask};
use std::os::fd::BorrowedFd;

/// Receives from one ring of a peer.
#[derive(Debug)]
pub struct MemifRx(::memif::ring::RxQueue);

/// Sends to one ring of a peer.
pub struct MemifTx(::memif::ring::TxQueue);

impl fmt::Debug for MemifTx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl MemifRx {
    /// The queue as one of the graph's.
    #[must_use]
    pub fn new(queue: ::memif::ring::RxQueue) -> Self {
        Self(queue)
    }
}

impl MemifTx {
    /// The queue as one of the graph's.
    #[must_use]
    pub fn new(queue: ::memif::ring::TxQueue) -> Self {
        Self(queue)
    }
}

// Whose it is the graph knows by itself.
pub(super) fn port_fault(QueueError { fault, .. }: &QueueError) -> PortFault {
    PortFault { kind: fault.kind(), reason: fault.to_string() }
}

pub(super) fn sent(done: PacketsSent) -> Sent {
    let stop = if done.refused { Stop::Refused } else { Stop::Full };
    Sent { packets: done.packets, bytes: done.bytes, stop }
}

struct Receive<'a> {
    queue: &'a mut ::memif::ring::RxQueue,
    packets: &'a mut Packets,
    rx_if: IfIndex,
    quota: Quota,
}

impl TierTask for Receive<'_> {
    type Output = Result<Received, PortFault>;

    fn run<S: Simd>(self, simd: S) -> Self::Output {
        let quota = self.quota;
        match self.queue.receive_share(simd, self.packets, self.rx_if, quota.packets, quota.bytes) {
            Ok((slots, bytes)) => Ok(Received { slots, bytes, ..Received::default() }),
            Err(error) => Err(port_fault(&error)),
        }
    }
}

impl RxQueue for MemifRx {
    fn receive(
        &mut self,
        tier: Tier,
        packets: &mut Packets,
        rx_if: IfIndex,
        quota: Quota,
    ) -> Result<Received, PortFault> {
        tier.dispatch(Receive { queue: &mut self.0, packets, rx_if, quota })
    }

    fn release(&mut self) {
        self.0.release();
    }

    fn arm(&mut self) -> bool {
        // A fault here will be met again, and told, by the next `receive`: the worker must not sleep.
        matches!(self.0.arm(), Ok(Armed::Sleep))
    }

    fn disarm(&mut self) {
        self.0.disarm();
        self.0.take_signal();
    }

    fn event_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.0.event().fd())
    }
}

struct Transmit<'a> {
    queue: &'a mut ::memif::ring::TxQueue,
    packets: &'a Packets,
    slots: &'a [SlotId],
}

impl TierTask for Transmit<'_> {
    type Output = Result<Sent, PortFault>;

    fn run<S: Simd>(self, simd: S) -> Self::Output {
        match self.queue.transmit_packets(simd, self.packets, self.slots) {
            Ok(done) => Ok(sent(done)),
            Err(error) => Err(port_fault(&error)),
        }
    }
}

impl TxQueue for MemifTx {
    fn send(&mut self, tier: Tier, packets: &mut Packets, slots: &[SlotId]) -> Result<Sent, PortFault> {
        tier.dispatch(Transmit { queue: &mut self.0, packets, slots })
    }

    fn flush(&mut self) {
        self.0.notify();
    }
}
