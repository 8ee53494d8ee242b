//! In which order queues and the ways of their interfaces come and go.
//!
//! A queue is polled only after every worker has seen its interface's ways through the graph, and the ways go only after
//! every worker has let go of the queue. What a batch opens waits for the whole batch. So no packet is dropped for want of a
//! way that is about to be there, or was there a moment ago.

use graph::port::{IfIndex, RxMode, RxQueue};

use super::core::Core;

/// Receive queues that workers are to get.
pub(super) struct Arrival {
    /// Input node.
    pub(super) input: &'static str,
    /// The interface.
    pub(super) interface: IfIndex,
    /// How to wait for them.
    pub(super) mode: RxMode,
    /// The queues.
    pub(super) queues: Vec<Box<dyn RxQueue>>,
}

impl std::fmt::Debug for Arrival {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Arrival").field("interface", &self.interface).finish_non_exhaustive()
    }
}

impl Core {
    /// Workers are to get receive queues as soon as they know the interface.
    pub(super) fn arriving(&mut self, arrival: Arrival) {
        self.arrivals.push(arrival);
    }

    /// The batch is complete: what belongs to its interfaces (networks, routes, neighbours) is there as well.
    pub(super) fn batch_ends(&mut self) {
        self.fresh.clear();
    }

    /// Whether every worker knows the interfaces as they are published.
    pub(super) fn interfaces_known(&self) -> bool {
        self.publisher.passed(self.published_mark)
    }

    /// Takes all queues of an interface away, from the workers and from those that wait for workers.
    pub(super) fn detach(&mut self, index: IfIndex) {
        self.arrivals.retain(|arrival| arrival.interface != index);
        self.pool.detach(index);
        self.departure = Some(self.publisher.mark());
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
            self.pool.attach_rx(arrival.input, arrival.interface, arrival.mode, arrival.queues);
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
