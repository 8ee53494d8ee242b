//! The transmit queues of a worker.

use super::{Attachment, Completed, IfIndex, PortFault, TxQueue};
use crate::counters::{At, WorkerCounters};
use crate::worker::Event;
use core::fmt;
use std::collections::BTreeMap;

/// The transmit queues of one worker, by interface.
#[derive(Default)]
pub struct TxPorts {
    list: Vec<Option<TxPort>>,
    /// Interfaces that have sent since the last flush.
    dirty: Vec<IfIndex>,
    /// Interfaces with packets on their way ([`TxQueue::outstanding`]).
    outstanding: Vec<IfIndex>,
    /// Faults of queues that are there, to be told to the control thread.
    faults: BTreeMap<IfIndex, PortFault>,
}

struct TxPort {
    attachment: Attachment,
    /// It can't go on, and whoever has to know has been told.
    told: bool,
    queue: Box<dyn TxQueue>,
    /// It is in [`TxPorts::outstanding`].
    outstanding: bool,
    /// Reasons of its output node.
    reasons: Reasons,
}

/// Drop reasons of an output node, by graph-wide id: what packets are counted under that a queue could not send later.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reasons {
    /// The device had no room.
    pub(crate) full: u16,
    /// The device never takes such a packet.
    pub(crate) refused: u16,
    /// The device is set down or gone.
    pub(crate) down: u16,
}

impl fmt::Debug for TxPorts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TxPorts").field("ports", &self.list.iter().flatten().count()).finish_non_exhaustive()
    }
}

impl TxPorts {
    /// Gives `interface` its transmit queue and returns the one it had.
    pub fn attach(
        &mut self,
        interface: IfIndex,
        attachment: Attachment,
        queue: Box<dyn TxQueue>,
    ) -> Option<Box<dyn TxQueue>> {
        let at = usize::from(interface);
        if self.list.len() <= at {
            self.list.resize_with(at + 1, || None);
        }
        self.replace(
            interface,
            Some(TxPort { attachment, told: false, queue, outstanding: false, reasons: Reasons::default() }),
        )
    }

    /// Takes the transmit queue of `interface` away.
    pub fn detach(&mut self, interface: IfIndex) -> Option<Box<dyn TxQueue>> {
        self.replace(interface, None)
    }

    fn replace(&mut self, interface: IfIndex, port: Option<TxPort>) -> Option<Box<dyn TxQueue>> {
        // What was found wrong with the old queue and could not be told yet goes with it.
        self.faults.remove(&interface);
        let place = self.list.get_mut(usize::from(interface))?;
        core::mem::replace(place, port).map(|old| old.queue)
    }

    /// The interface's transmit queue.
    #[must_use]
    #[inline]
    pub fn get(&mut self, interface: IfIndex) -> Option<&mut Box<dyn TxQueue>> {
        Some(&mut self.list.get_mut(interface as usize)?.as_mut()?.queue)
    }

    /// Remembers that the interface's queue can't go on, unless that is known: others need the queue of events, too.
    pub(crate) fn failed(&mut self, interface: IfIndex, fault: PortFault) {
        let port = self.list.get(usize::from(interface)).and_then(Option::as_ref);
        if port.is_none_or(|port| !port.told) {
            self.faults.insert(interface, fault);
        }
    }

    /// Tells of the queues that can't go on, as far as `send` has room.
    pub(crate) fn tell(&mut self, send: impl Fn(Event) -> bool) {
        while let Some((interface, fault)) = self.faults.pop_first() {
            // One that is gone has taken its faults along.
            let Some(Some(port)) = self.list.get_mut(usize::from(interface)) else { continue };
            if !send(Event::TxFault { interface, attachment: port.attachment, fault: fault.clone() }) {
                self.faults.insert(interface, fault);
                return;
            }
            port.told = true;
        }
    }

    /// Remembers that `interface` is to be flushed at the end of the round.
    #[inline]
    pub(crate) fn touched(&mut self, interface: IfIndex) {
        if self.dirty.last() != Some(&interface) {
            self.dirty.push(interface);
        }
    }

    /// Remembers that packets of `interface` are on their way, and what those count as that don't arrive.
    pub(crate) fn sends_later(&mut self, interface: IfIndex, reasons: Reasons) {
        if let Some(Some(port)) = self.list.get_mut(usize::from(interface)) {
            port.reasons = reasons;
            if !core::mem::replace(&mut port.outstanding, true) {
                self.outstanding.push(interface);
            }
        }
    }

    pub(crate) fn flush(&mut self, at: &At) {
        while let Some(interface) = self.dirty.pop() {
            if let Some(queue) = self.get(interface) {
                at.sends(interface);
                queue.flush();
                at.returned();
            }
        }
    }

    /// Whether packets are on their way.
    pub(crate) fn outstanding(&self) -> bool {
        !self.outstanding.is_empty()
    }

    /// The worker is about to sleep.
    pub(crate) fn rest(&mut self) {
        for at in 0..self.outstanding.len() {
            if let Some(queue) = self.get(self.outstanding[at]) {
                queue.rest();
            }
        }
    }

    /// Counts what became of packets that were on their way.
    pub(crate) fn complete(&mut self, counters: &WorkerCounters) {
        for at in (0..self.outstanding.len()).rev() {
            let interface = self.outstanding[at];
            // A queue that was taken away has taken its packets along.
            let port = self.list.get_mut(usize::from(interface)).and_then(Option::as_mut);
            let Some(port) = port.filter(|port| port.outstanding) else {
                self.outstanding.swap_remove(at);
                continue;
            };
            counters.rounds.at.sends(interface);
            let completed = port.queue.completed();
            counters.rounds.at.returned();
            port.outstanding = port.queue.outstanding();
            if !port.outstanding {
                self.outstanding.swap_remove(at);
            }
            match completed {
                Ok(completed) => port.reasons.count(counters, interface, completed),
                Err(fault) => self.failed(interface, fault),
            }
        }
    }
}

impl Reasons {
    fn count(self, counters: &WorkerCounters, interface: IfIndex, completed: Completed) {
        let Completed { packets, bytes, full, refused, down } = completed;
        let of = counters.interface(interface);
        if packets > 0 {
            of.tx_packets.add(packets);
            of.tx_bytes.add(bytes);
        }
        if full + refused + down > 0 {
            of.tx_drops.add(full + refused + down);
            of.tx_errors.add(refused);
            counters.drops(self.full).add(full);
            counters.drops(self.refused).add(refused);
            counters.drops(self.down).add(down);
        }
    }
}
