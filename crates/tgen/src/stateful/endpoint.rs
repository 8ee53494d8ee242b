//! What the loop drives: one side's state machines of one protocol.

use super::clock::Now;
use super::counts::Counts;
use super::outbox::Outbox;
use super::packet::Wire;

/// All connections of one side.
pub trait Endpoint {
    /// What it receives and sends.
    type Packet: Wire;

    /// Where a packet's connection is looked for, and its memory prefetched. Called for a whole batch before
    /// [`arrive`](Self::arrive) is.
    fn place(&self, packet: &Self::Packet) -> u32;

    /// A packet arrives.
    fn arrive(&mut self, place: u32, packet: &Self::Packet, now: Now, out: &mut Outbox<Self::Packet>);

    /// Time has gone on.
    fn expire(&mut self, now: Now, out: &mut Outbox<Self::Packet>);

    /// What was counted.
    fn counts(&self) -> &Counts;
}

/// The side that opens connections.
pub trait Opener: Endpoint {
    /// Opens up to `n` connections; gives how many.
    fn open(&mut self, n: usize, now: Now, out: &mut Outbox<Self::Packet>) -> usize;

    /// Ends new connections' latencies, in nanoseconds, since the last call.
    fn latencies(&mut self) -> &mut Vec<u64>;
}
