//! A capture of drops, as `quiver pcap` takes one.

use super::bench::Bench;
use graph::context::DropCapture;
use graph::packet::{Packets, SlotId};
use std::sync::{Arc, Mutex, PoisonError};

/// The frames that a bench's worker drops.
#[derive(Clone, Debug, Default)]
pub struct Seen(Arc<Mutex<Vec<Dropped>>>);

/// The frame from its link-layer header on, the interface it came in by, and the graph-wide id of the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// The bytes.
    pub frame: Vec<u8>,
    /// The interface.
    pub rx_if: u16,
    /// The reason.
    pub reason: u16,
}

impl DropCapture for Seen {
    fn dropped(&self, packets: &Packets, slot: SlotId, _: u64) {
        let packet = packets.own(slot);
        let meta = packet.meta();
        let dropped = Dropped { frame: packet.frame().to_vec(), rx_if: meta.rx_if, reason: meta.drop_reason };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(dropped);
    }
}

impl Seen {
    /// Captures the drops of a bench from now on.
    #[must_use]
    pub fn of(bench: &mut Bench) -> Self {
        let seen = Self::default();
        bench.graph.drop_capture = Some(Box::new(seen.clone()));
        seen
    }

    /// What was dropped since it was last asked.
    #[must_use]
    pub fn take(&self) -> Vec<Dropped> {
        core::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
