//! In which order queues and the ways of their interfaces come and go.
//!
//! A queue is polled only after every worker has seen its interface's ways through the graph, and the ways go only after
//! every worker has let go of the queue. What a batch opens waits for the whole batch. So no packet is dropped for want of a
//! way that is about to be there, or was there a moment ago.

use std::sync::atomic::{AtomicU64, Ordering};

use graph::port::{Attachment, IfIndex, RxMode, RxQueue, TxQueue};

use super::core::Core;

/// Numbers attachments, all of them.
#[derive(Debug, Default)]
pub(super) struct Attachments(AtomicU64);

impl Attachments {
    /// One that nothing has had yet.
    pub(super) fn next(&self) -> Attachment {
        Attachment(self.0.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

/// Receive queues that workers are to get.
pub(super) struct Arrival {
    /// Input node.
    pub(super) input: &'static str,
    /// The interface.
    pub(super) interface: IfIndex,
    /// Since which attachment it has them.
    pub(super) attachment: Attachment,
    /// How to wait for them.
    pub(super) mode: RxMode,
    /// The queues.
    pub(super) queues: Vec<Box<dyn RxQueue>>,
    /// The worker of each, as far as somebody has said so.
    pub(super) workers: Vec<u32>,
}

impl std::fmt::Debug for Arrival {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Arrival").field("interface", &self.interface).finish_non_exhaustive()
    }
}

impl Core {
    /// Gives workers the queues of an interface: those that send at once, those that receive as soon as workers know the
    /// interface. It has none so far.
    pub(super) fn attach(
        &mut self,
        index: IfIndex,
        attachment: Attachment,
        input: Option<&'static str>,
        mode: RxMode,
        rx: Vec<Box<dyn RxQueue>>,
        tx: Vec<Box<dyn TxQueue>>,
    ) {
        let found = self.directory.change(|inventory| {
            let entry = inventory.registry.get_mut(index)?;
            entry.attachment = Some(attachment);
            Some(entry.spec.port.rx_workers().to_vec())
        });
        let Some(workers) = found else { return };
        self.pool.attach_tx(index, attachment, tx);
        if let Some(input) = input {
            self.arrivals.push(Arrival { input, interface: index, attachment, mode, queues: rx, workers });
        }
    }

    /// The batch is complete: what belongs to its interfaces (networks, routes, neighbours) is there as well, and what tenants refer to.
    pub(super) fn batch_ends(&mut self) {
        self.fresh.clear();
        self.in_batch = false;
        self.interfaces_changed |= std::mem::take(&mut self.tenants_held);
    }

    /// Whether every worker knows the interfaces as they are published.
    pub(super) fn interfaces_known(&self) -> bool {
        self.publisher.passed(self.published_mark)
    }

    /// Takes all queues of an interface away, from the workers and from those that wait for workers.
    pub(super) fn detach(&mut self, index: IfIndex) {
        self.arrivals.retain(|arrival| arrival.interface != index);
        self.pool.detach(index);
        let had = self.directory.change(|inventory| {
            inventory.registry.get_mut(index).is_some_and(|entry| entry.attachment.take().is_some())
        });
        // Everything waits for the newest departure: who has gone already doesn't go again.
        if had {
            self.departure = Some(self.publisher.mark());
        }
    }

    /// Whether workers have let go of all queues that were taken away.
    pub(super) fn departed(&mut self) -> bool {
        if self.departure.is_some_and(|mark| !self.publisher.passed(mark)) {
            return false;
        }
        self.departure = None;
        true
    }

    /// Gives workers the queues of interfaces that all of them know. True when none is left.
    pub(super) fn arrive(&mut self) -> bool {
        if self.arrivals.is_empty() {
            return true;
        }
        if self.interfaces_changed || !self.interfaces_known() {
            return false;
        }
        let fresh = &self.fresh;
        for arrival in self.arrivals.extract_if(.., |arrival| !fresh.contains(&arrival.interface)) {
            self.pool.attach_rx(arrival);
        }
        self.arrivals.is_empty()
    }

    /// Sends frames that the control side has made, once workers know the interfaces they leave by.
    pub(super) fn send_frames(&mut self) {
        if !self.frames.is_empty() && self.interfaces_known() {
            for frame in self.frames.drain(..) {
                self.pool.inject(0, features::neighbour::ETHERNET_OUT, frame);
            }
        }
    }
}
