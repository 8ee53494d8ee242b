//! Queues whose packets' bodies a copy engine copies.
//!
//! Within a round: packets are written into the ring as they come, heads by the worker; bodies are handed to the engine, a vector at a
//! time, and other nodes and queues go on meanwhile. At the end of the round, before senders get their memory back, the worker waits for
//! the engine, and only then the receiver is told of the packets. Until then the memory of the packets is lent: should the round not
//! end as it should, because a node panicked for instance, it stays there.

use ::memif::ring::{PacketsSent, QueueError};
use copy::{Engine, Offer};
use core::fmt;
use graph::packet::{Loan, Packets, SlotId};
use graph::port::{PortFault, Sent, TxQueue};
use graph::simd::{Simd, Tier, TierTask};

use super::queues::{port_fault, sent};

/// Sends to one ring of a peer, with an engine.
pub struct MemifEngineTx<E> {
    // Before the queue, so that nothing is being written to the ring's regions when these go.
    engine: E,
    /// Of each worker that has sent since the last flush. Given back when the engine is done, or gone.
    loans: Vec<Loan>,
    threshold: usize,
    queue: ::memif::ring::TxQueue,
}

impl<E: fmt::Debug> fmt::Debug for MemifEngineTx<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemifEngineTx").field("engine", &self.engine).finish_non_exhaustive()
    }
}

impl<E: Engine> MemifEngineTx<E> {
    /// The queue as one of the graph's; pieces of bodies of `threshold` bytes and more are for `engine`.
    #[must_use]
    pub fn new(queue: ::memif::ring::TxQueue, engine: E, threshold: usize) -> Self {
        Self { engine, loans: Vec::new(), threshold, queue }
    }
}

struct Stage<'a, E> {
    queue: &'a mut ::memif::ring::TxQueue,
    offer: Offer<'a, E>,
    loans: &'a mut Vec<Loan>,
    packets: &'a mut Packets,
    slots: &'a [SlotId],
}

impl<E: Engine> TierTask for Stage<'_, E> {
    type Output = Result<PacketsSent, QueueError>;

    fn run<S: Simd>(mut self, simd: S) -> Self::Output {
        let up = self.offer.engine.is_up();
        let worth = |slot: &SlotId| self.packets.meta(*slot).body_len() as usize >= self.offer.threshold;
        // A vector of short packets goes the way it would go without an engine, as all do while that is given up, unless it has to wait for
        // others before it.
        if self.queue.staged() == 0 && !(up && self.slots.iter().any(worth)) {
            return self.queue.transmit_packets(simd, self.packets, self.slots);
        }
        if !up {
            self.offer.threshold = usize::MAX;
        }
        if !self.loans.iter().any(|loan| loan.is_of(self.packets)) {
            self.loans.push(self.packets.lend());
        }
        // SAFETY: the packets are lent, and loan and queue are only let go of when the engine has finished or was dropped.
        #[allow(unsafe_code)]
        unsafe {
            self.queue.stage_packets(simd, self.packets, self.slots, &mut self.offer)
        }
    }
}

impl<E: Engine> TxQueue for MemifEngineTx<E> {
    fn send(&mut self, tier: Tier, packets: &mut Packets, slots: &[SlotId]) -> Result<Sent, PortFault> {
        let lent = self.loans.len();
        let offer = Offer { engine: &mut self.engine, threshold: self.threshold };
        let staged =
            tier.dispatch(Stage { queue: &mut self.queue, offer, loans: &mut self.loans, packets, slots });
        match staged {
            Ok(done) => {
                if done.packets == 0 {
                    // None is written in part, and nobody flushes the queue for packets that it hasn't taken.
                    self.loans.truncate(lent);
                }
                self.engine.submit();
                Ok(sent(done))
            }
            Err(error) => {
                // The queue will be taken away, and nobody flushes it for packets that it hasn't taken.
                self.engine.finish();
                self.loans.clear();
                Err(port_fault(&error))
            }
        }
    }

    fn flush(&mut self) {
        self.engine.finish();
        self.loans.clear();
        self.queue.publish_staged();
        self.queue.notify();
    }
}
