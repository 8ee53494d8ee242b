//! Counting for interfaces that have no port of their own.

use graph::IfIndex;
use graph::counters::WorkerCounters;
use graph::packet::{Flags, Meta};
use wire::MacAddr;

/// Packets and bytes of one interface, gathered over a stretch of a vector so that its counters are touched once.
///
/// Ports count themselves; this is for what is stacked on them (VLAN sub-interfaces, BVIs).
#[derive(Debug, Default)]
pub(crate) struct Tally {
    interface: IfIndex,
    packets: u64,
    bytes: u64,
}

/// Counts a frame that was received for several stations, and flags it; where that was done already, nothing. Unicast isn't
/// counted: it is the rest.
#[cold]
pub(crate) fn received_by_group(counters: &WorkerCounters, meta: &mut Meta, dst: MacAddr) {
    if meta.flags.has(Flags::GROUP) {
        return;
    }
    meta.flags.set(Flags::GROUP);
    let counters = counters.interface(meta.rx_if);
    if dst == MacAddr::BROADCAST { counters.rx_broadcast.add(1) } else { counters.rx_multicast.add(1) }
}

/// Which way the packets go.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Direction {
    /// They came in by the interface.
    Rx,
    /// They leave by it.
    Tx,
}

impl Tally {
    /// Counts a packet of `bytes` on `interface`.
    #[inline(always)]
    pub(crate) fn add(
        &mut self,
        counters: &WorkerCounters,
        direction: Direction,
        interface: IfIndex,
        bytes: u32,
    ) {
        if interface != self.interface {
            self.flush(counters, direction);
            self.interface = interface;
        }
        self.packets += 1;
        self.bytes += u64::from(bytes);
    }

    /// Hands over what was gathered; to be called at the end of the vector.
    #[inline]
    pub(crate) fn flush(&mut self, counters: &WorkerCounters, direction: Direction) {
        if self.packets == 0 {
            return;
        }
        let to = counters.interface(self.interface);
        match direction {
            Direction::Rx => {
                to.rx_packets.add(self.packets);
                to.rx_bytes.add(self.bytes);
            }
            Direction::Tx => {
                to.tx_packets.add(self.packets);
                to.tx_bytes.add(self.bytes);
            }
        }
        (self.packets, self.bytes) = (0, 0);
    }
}
