//! What a port gives the graph: queues.
//!
//! A port is an interface's way to the world (memif, tap, AF_PACKET, ...). The graph sees only its queues, each used by
//! one worker. Captures, fault injection and rate limits are queues that wrap a queue.

mod tx;

pub(crate) use tx::Reasons;
pub use tx::TxPorts;

use core::fmt;
use memory::packet::{Packets, SlotId};
use memory::simd::Tier;
use std::os::fd::BorrowedFd;

/// Number of an interface: a port, or something stacked on one (VLAN sub-interface, BVI).
pub type IfIndex = u16;

/// One attachment of a port's queues to its interface. An interface that is given queues again, after a link has ended and
/// another has come up, has another one: what is told of the queues that it had before doesn't concern the new ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Attachment(pub u64);

/// What a queue may receive in one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Packets, at most.
    pub packets: usize,
    /// Bytes after which no further packet is received. The last one may go beyond.
    pub bytes: u64,
}

impl Quota {
    /// So many packets of any length.
    #[must_use]
    pub const fn packets(packets: usize) -> Self {
        Self { packets, bytes: u64::MAX }
    }
}

/// What a receive queue took in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// The slots, consecutive, in order of arrival.
    pub slots: core::ops::Range<usize>,
    /// Their bytes.
    pub bytes: u64,
    /// Packets that it took from the sender besides those and lost on purpose ([`Lost`]): they are counted as drops.
    pub lost: Lost,
}

/// Packets that a queue has lost after it took them from the sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// How many.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// What a transmit queue took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Packets, from the front.
    pub packets: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Why it took no more, where packets are left.
    pub stop: Stop,
}

/// Why a transmit queue took no more packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stop {
    /// No room: the rest didn't fit.
    #[default]
    Full,
    /// Nothing passes for now (the other side has set its device down); that may change by itself.
    Down,
    /// The next packet is one that the device never takes, too long or malformed. Those behind it may pass.
    Refused,
    /// The next packet can't be read: its sender has taken away the memory it lies in. Those behind it may pass.
    Unreadable,
}

/// What became of packets that a queue took earlier and sent by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Completed {
    /// Packets that the device took.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Packets that the device had no room for.
    pub full: u64,
    /// Packets that the device never takes.
    pub refused: u64,
    /// Packets for a device that is set down or gone.
    pub down: u64,
}

/// A port's queue can't go on: its peer broke the protocol, or its device is gone. The worker lets go of the queue and
/// tells the control thread.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct PortFault {
    /// In a word, without anything that a peer may choose: what counters and log lines are kept apart by.
    pub kind: &'static str,
    /// What happened, for the operator.
    pub reason: String,
}

/// Brings packets in.
pub trait RxQueue: Send {
    /// Receives packets into slots, no more than `quota` allows. The memory they lie in stays as it is until [`RxQueue::release`].
    ///
    /// # Errors
    /// [`PortFault`] when the queue can't go on. Packets of this call are not delivered.
    fn receive(
        &mut self,
        tier: Tier,
        packets: &mut Packets,
        rx_if: IfIndex,
        quota: Quota,
    ) -> Result<Received, PortFault>;

    /// The packets of the last [`RxQueue::receive`] have gone: gives their memory back to the sender.
    fn release(&mut self);

    /// Asks for an event at `event_fd` when packets arrive. False where some are there already (nothing is armed).
    fn arm(&mut self) -> bool {
        true
    }

    /// The worker is awake: no events are needed.
    fn disarm(&mut self) {}

    /// Becomes readable when packets arrive, once armed; the same for as long as the queue lives. `None`: the queue has to be polled all
    /// the time.
    fn event_fd(&self) -> Option<BorrowedFd<'_>>;

    /// Whether to ask it for packets takes a system call, and `event_fd` is readable, armed or not, as long as there are some: then it isn't
    /// asked again, once it had none for some rounds, before it is. The same for as long as the queue lives.
    fn rests(&self) -> bool {
        false
    }

    /// Whether it has something to do that nobody will say of: then it doesn't rest now.
    fn is_restless(&self) -> bool {
        false
    }
}

/// Takes packets out.
pub trait TxQueue: Send {
    /// Sends packets, in order, as many as fit.
    ///
    /// # Errors
    /// [`PortFault`] when the queue can't go on.
    fn send(&mut self, tier: Tier, packets: &mut Packets, slots: &[SlotId]) -> Result<Sent, PortFault>;

    /// Whether packets that [`send`](Self::send) took are sent later: [`completed`](Self::completed) returns what became of them. The same for as long as the queue lives.
    fn completes(&self) -> bool {
        false
    }

    /// Whether packets are on their way whose completion hasn't been returned yet.
    fn outstanding(&self) -> bool {
        false
    }

    /// What became of packets since the last call.
    ///
    /// # Errors
    /// [`PortFault`] when the queue can't go on.
    fn completed(&mut self) -> Result<Completed, PortFault> {
        Ok(Completed::default())
    }

    /// The worker is about to sleep: nothing may be left to be done by a later call.
    fn rest(&mut self) {}

    /// The round is over: tells the receiver what was sent, where that isn't done per call. Until now the queue may have been reading the
    /// bodies of packets that it took; from now on it doesn't, and their memory is given back.
    fn flush(&mut self) {}
}

/// How a worker waits for a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RxMode {
    /// Polls under load and sleeps when idle.
    #[default]
    Adaptive,
    /// Always polls: least latency, a whole core.
    Polling,
    /// Sleeps as soon as the queue is empty.
    Interrupt,
}

/// A receive queue at its worker.
pub struct RxPort {
    /// The interface its packets come in by.
    pub interface: IfIndex,
    /// Number of the queue in its port.
    pub queue: u16,
    /// Since which attachment the interface has it.
    pub attachment: Attachment,
    /// How to wait for it.
    pub mode: RxMode,
    /// The queue.
    pub rx: Box<dyn RxQueue>,
    /// Packets were received from it in this round.
    pub(crate) pending: bool,
    /// It has failed, and the control thread was told so: it is silent until that takes it away.
    pub(crate) told: bool,
    /// The worker has just been woken, and not by it: the first round leaves it out, so that who has woken it doesn't wait for a system call
    /// of each that hasn't.
    pub(crate) silent: bool,
    /// [`RxQueue::rests`].
    pub(crate) rests: bool,
    /// It had no packets for some rounds, and isn't asked before the worker [has looked](crate::worker) whether it may have some.
    pub(crate) resting: bool,
    /// Rounds in which it had none, one after the other.
    pub(crate) silence: u8,
    /// Bytes that it received beyond its share of earlier rounds: its next share is that much smaller (deficit round robin, Shreedhar and Varghese 1995).
    pub(crate) debt: u64,
}

impl RxPort {
    /// A queue of `interface`, of the first attachment.
    #[must_use]
    pub fn new(interface: IfIndex, queue: u16, mode: RxMode, rx: Box<dyn RxQueue>) -> Self {
        let attachment = Attachment::default();
        Self {
            interface,
            queue,
            attachment,
            mode,
            rests: rx.rests(),
            rx,
            pending: false,
            told: false,
            silent: false,
            resting: false,
            silence: 0,
            debt: 0,
        }
    }
}

impl fmt::Debug for RxPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RxPort({}, queue {}, {:?})", self.interface, self.queue, self.mode)
    }
}

/// The receive queues of one kind that a worker polls.
#[derive(Debug, Default)]
pub struct RxQueues {
    pub(crate) list: Vec<RxPort>,
    /// Where the next round begins: no queue is always first.
    pub(crate) turn: usize,
    /// Queues that had packets in the last round: as many share the next one.
    pub(crate) active: usize,
    /// Queues have come or gone since the worker last slept, so that it has others to wait for.
    pub(crate) changed: bool,
    /// How often any have.
    pub(crate) version: u64,
    /// Somebody wakes those that rest.
    pub(crate) watched: bool,
}

impl RxQueues {
    /// One queue more.
    pub fn add(&mut self, port: RxPort) {
        self.list.push(port);
        self.changed = true;
        self.version += 1;
    }

    /// Takes those queues away that `which` says.
    pub fn take(&mut self, mut which: impl FnMut(&RxPort) -> bool) -> Vec<RxPort> {
        let gone: Vec<RxPort> = self.list.extract_if(.., |port| which(port)).collect();
        self.changed |= !gone.is_empty();
        self.version += u64::from(!gone.is_empty());
        gone
    }

    /// The queues. Each keeps the descriptor that it has ([`RxQueue::event_fd`]) for as long as it is here.
    pub fn iter_mut(&mut self) -> core::slice::IterMut<'_, RxPort> {
        self.list.iter_mut()
    }
}
