//! What stands at the queues.

use super::eye::Eye;
use super::point::CapturePoint;
use super::reader::Seen;
use graph::IfIndex;
use graph::context::DropCapture;
use graph::port::{Completed, PortFault, Quota, Received, RxQueue, Sent, TxQueue};
use memory::clock::nanoseconds;
use memory::packet::{Packets, SlotId};
use memory::simd::Tier;
use std::cell::RefCell;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// Shows what a queue receives.
pub struct CaptureRx {
    inner: Box<dyn RxQueue>,
    eye: Eye,
}

impl CaptureRx {
    /// Around `inner`, of a worker.
    #[must_use]
    pub fn new(inner: Box<dyn RxQueue>, point: Arc<CapturePoint>, worker: usize) -> Self {
        Self { inner, eye: Eye::new(point, worker) }
    }
}

impl core::fmt::Debug for CaptureRx {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("CaptureRx")
    }
}

impl RxQueue for CaptureRx {
    fn receive(
        &mut self,
        tier: Tier,
        packets: &mut Packets,
        rx_if: IfIndex,
        quota: Quota,
    ) -> Result<Received, PortFault> {
        let received = self.inner.receive(tier, packets, rx_if, quota)?;
        if self.eye.on() && !received.slots.is_empty() {
            let slots = received.slots.clone().map(|slot| slot as SlotId);
            self.eye.look(packets, slots, nanoseconds(), |_| (rx_if, Seen::Received));
        }
        Ok(received)
    }

    fn release(&mut self) {
        self.inner.release();
    }

    fn arm(&mut self) -> bool {
        self.inner.arm()
    }

    fn disarm(&mut self) {
        self.inner.disarm();
    }

    fn event_fd(&self) -> Option<BorrowedFd<'_>> {
        self.inner.event_fd()
    }

    fn rests(&self) -> bool {
        self.inner.rests()
    }

    fn is_restless(&self) -> bool {
        self.inner.is_restless()
    }
}

/// Shows what a queue has sent.
pub struct CaptureTx {
    inner: Box<dyn TxQueue>,
    eye: Eye,
}

impl CaptureTx {
    /// Around `inner`, of a worker.
    #[must_use]
    pub fn new(inner: Box<dyn TxQueue>, point: Arc<CapturePoint>, worker: usize) -> Self {
        Self { inner, eye: Eye::new(point, worker) }
    }
}

impl core::fmt::Debug for CaptureTx {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("CaptureTx")
    }
}

impl TxQueue for CaptureTx {
    fn send(&mut self, tier: Tier, packets: &mut Packets, slots: &[SlotId]) -> Result<Sent, PortFault> {
        let sent = self.inner.send(tier, packets, slots)?;
        if self.eye.on() && sent.packets > 0 {
            let slots = slots.get(..sent.packets).unwrap_or(slots).iter().copied();
            let interface = |slot| packets.meta(slot).tx_if;
            self.eye.look(packets, slots, nanoseconds(), |slot| (interface(slot), Seen::Sent));
        }
        Ok(sent)
    }

    fn completes(&self) -> bool {
        self.inner.completes()
    }

    fn outstanding(&self) -> bool {
        self.inner.outstanding()
    }

    fn completed(&mut self) -> Result<Completed, PortFault> {
        self.inner.completed()
    }

    fn flush(&mut self) {
        self.inner.flush();
    }

    fn rest(&mut self) {
        self.inner.rest();
    }
}

/// Shows what a worker drops: one for each graph ([`graph::engine::Graph::drop_capture`]).
#[derive(Debug)]
pub struct CaptureDrops(RefCell<Eye>);

impl CaptureDrops {
    /// For one worker.
    #[must_use]
    pub fn new(point: Arc<CapturePoint>, worker: usize) -> Self {
        Self(RefCell::new(Eye::new(point, worker)))
    }
}

impl DropCapture for CaptureDrops {
    fn dropped(&self, packets: &Packets, slot: SlotId, now: u64) {
        let mut eye = self.0.borrow_mut();
        if eye.on() {
            let meta = packets.meta(slot);
            let seen = (meta.rx_if, Seen::Dropped { reason: meta.drop_reason });
            eye.look(packets, core::iter::once(slot), now, |_| seen);
        }
    }

    fn end_round(&self) {}
}
