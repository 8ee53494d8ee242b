//! A port whose other side is a list in memory.

use graph::NodeSpec;
use graph::nodes::{port_input, port_output};
use graph::packet::{Packets, SlotId};
use graph::port::{IfIndex, PortFault, Quota, Received, RxQueue, Sent, TxQueue};
use graph::simd::Tier;
use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Input and output node of the test port.
pub const TEST_NODES: &[NodeSpec] =
    &[port_input("test-input", "Receives from a list."), port_output("test-tx", "Sends to a list.")];

/// Both lists of one test port.
#[derive(Clone, Debug, Default)]
pub struct TestWire(Arc<Mutex<Lists>>);

#[derive(Debug, Default)]
struct Lists {
    to_graph: VecDeque<Vec<u8>>,
    from_graph: Vec<Vec<u8>>,
    /// Packets taken at a time.
    burst: usize,
}

impl TestWire {
    fn lists(&self) -> MutexGuard<'_, Lists> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a frame on the way into the graph; `burst` packets at a time are taken.
    pub fn send(&self, frame: &[u8], burst: usize) {
        let mut lists = self.lists();
        lists.to_graph.push_back(frame.to_vec());
        lists.burst = burst;
    }

    /// Frames that came out since the last call.
    #[must_use]
    pub fn take(&self) -> Vec<Vec<u8>> {
        core::mem::take(&mut self.lists().from_graph)
    }

    /// Whether frames still wait to go in.
    #[must_use]
    pub fn waiting(&self) -> bool {
        !self.lists().to_graph.is_empty()
    }
}

impl RxQueue for TestWire {
    fn receive(
        &mut self,
        _: Tier,
        packets: &mut Packets,
        rx_if: IfIndex,
        quota: Quota,
    ) -> Result<Received, PortFault> {
        let mut lists = self.lists();
        let first = packets.taken();
        let mut bytes = 0;
        for _ in 0..quota.packets.min(lists.burst) {
            let Some(frame) = lists.to_graph.pop_front() else { break };
            bytes += frame.len() as u64;
            let read = |buffer: &mut [u8]| {
                buffer[..frame.len()].copy_from_slice(&frame);
                Ok((0, frame.len()))
            };
            let received = packets.receive_private(rx_if, frame.len(), read);
            received.map_err(|error| PortFault { kind: "test", reason: error.to_string() })?;
        }
        Ok(Received { slots: first..packets.taken(), bytes, ..Received::default() })
    }

    fn release(&mut self) {}

    fn event_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

impl TxQueue for TestWire {
    fn send(&mut self, _: Tier, packets: &mut Packets, slots: &[SlotId]) -> Result<Sent, PortFault> {
        let mut sent = Sent::default();
        for slot in slots {
            let mut frame = vec![0; packets.meta(*slot).len() as usize];
            packets.copy_out(*slot, &mut frame);
            sent.packets += 1;
            sent.bytes += frame.len() as u64;
            self.lists().from_graph.push(frame);
        }
        Ok(sent)
    }
}
