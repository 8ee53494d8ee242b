//! `ip6-reassembly`: puts fragments of packets to our addresses together (RFC 8200 section 4.5, RFC 5722, RFC 6980).
//!
//! | edge | packets |
//! |---|---|
//! | `ip6-local` | whole packets, in a slot of their own, without the fragment header |
//! | `icmp6-error` | a fragment whose length can't be; the first one of a packet whose others didn't come in time |
//! | `drop` | see [`Drop`] |
//!
//! Each packet belongs to one worker, as with `ip4-reassembly`.

use super::bounds;
use crate::ip::family::V6;
use crate::reassembly::{Assemble, Assembles, Bounds, Counter, Loss};
use graph::packet::Meta;
use graph::{Attach, NodeKind, NodeSpec};

/// Key under which the node takes fragments that other workers hand over.
const HANDOVER_KEY: u32 = 6;

graph::edges! {
    /// Where a packet goes from here.
    pub enum Next { Drop => "drop", Local => "ip6-local", IcmpError => "icmp6-error" }
}

graph::drops! {
    /// Why fragments don't become a packet.
    pub enum Drop {
        /// The fragment has come before.
        Duplicate => "duplicate", Info,
        /// Fragments overlap: somebody tries to hide something.
        Overlap => "overlap", Invalid,
        /// The fragment lies beyond the packet's end, or its headers aren't whole.
        BadFragment => "bad-fragment", Invalid,
        /// The packet has more fragments than are put together.
        TooMany => "too-many-fragments", Loss,
        /// Others didn't come in time; the sender is told where the first one did.
        TimedOut => "timed-out", Loss,
        /// Others had to make room for newer ones, or were of no use without those that were refused.
        Evicted => "evicted", Loss,
        /// Neighbour discovery doesn't come in fragments (RFC 6980).
        NeighbourDiscovery => "neighbor-discovery", Invalid,
        /// The fragment's length or offset can't be; the sender is told.
        BadLength => "bad-length", Invalid,
        /// All packet slots of the worker are in use.
        NoSlot => "no-slot", Loss,
        /// The worker that has the packet's other fragments doesn't keep up.
        HandoverFull => "handover-full", Loss,
    }
}

impl From<Loss> for Drop {
    fn from(loss: Loss) -> Self {
        match loss {
            Loss::Duplicate => Self::Duplicate,
            Loss::Overlap => Self::Overlap,
            Loss::BadFragment => Self::BadFragment,
            Loss::BadLength => Self::BadLength,
            Loss::NeighbourDiscovery => Self::NeighbourDiscovery,
            Loss::TooMany => Self::TooMany,
            Loss::TimedOut => Self::TimedOut,
            Loss::Evicted => Self::Evicted,
            Loss::NoSlot => Self::NoSlot,
            Loss::HandoverFull => Self::HandoverFull,
        }
    }
}

/// Packets to us.
struct Local;

impl Assembles for Local {
    type Version = V6;
    type Drop = Drop;

    /// RFC 8200 section 4.5: 60 s.
    const BOUNDS: Bounds = bounds(60);
    const ONWARD: u8 = Next::Local.edge();
    const HANDOVER: Option<u32> = Some(HANDOVER_KEY);
    const ICMP_ERROR: Option<u8> = Some(Next::IcmpError.edge());
    const ATOMIC: bool = false;

    /// The VRF and, as a link-local address says nothing without it, the interface.
    fn place(meta: &Meta) -> (u16, u16) {
        (meta.table, meta.rx_if)
    }
}

/// The node's declaration.
pub const NODE: NodeSpec = NodeSpec {
    name: "ip6-reassembly",
    help: "Puts fragments of IPv6 packets to us together.",
    kind: NodeKind::Output,
    edges: Next::NAMES,
    drops: Drop::SPECS,
    counters: Counter::SPECS,
    attach: &[Attach { parent: "handover", key: HANDOVER_KEY }],
    make: Assemble::<Local>::boxed,
    ..NodeSpec::EMPTY
};
