//! `ip4-reassembly`: puts fragments of packets to our addresses together (RFC 791 section 3.2, RFC 815).
//!
//! | edge | packets |
//! |---|---|
//! | `ip4-local` | whole packets, in a slot of their own |
//! | `icmp4-error` | the first fragment of a packet whose others didn't come in time |
//! | `drop` | see [`Drop`] |
//!
//! Fragments of a packet may come by any queue: who sends them chooses, and a device that tells flows apart by port numbers
//! finds them in the first one only. Each packet belongs to one worker; others hand its fragments over. A fragment that waits
//! is copied, and ends here.

use super::bounds;
use crate::ip::family::V4;
use crate::reassembly::{Assemble, Assembles, Bounds, Counter, Loss};
use graph::packet::Meta;
use graph::{Attach, NodeKind, NodeSpec};

/// Key under which the node takes fragments that other workers hand over.
const HANDOVER_KEY: u32 = 4;

graph::edges! {
    /// Where a packet goes from here.
    pub enum Next { Drop => "drop", Local => "ip4-local", IcmpError => "icmp4-error" }
}

graph::drops! {
    /// Why fragments don't become a packet.
    pub enum Drop {
        /// The fragment has come before.
        Duplicate => "duplicate", Info,
        /// Fragments overlap: somebody tries to hide something.
        Overlap => "overlap", Invalid,
        /// The fragment lies beyond the packet's end, or has a length that no fragment can have.
        BadFragment => "bad-fragment", Invalid,
        /// The packet has more fragments than are put together.
        TooMany => "too-many-fragments", Loss,
        /// Others didn't come in time; the sender is told where the first one did.
        TimedOut => "timed-out", Loss,
        /// Others had to make room for newer ones, or were of no use without those that were refused.
        Evicted => "evicted", Loss,
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
            Loss::BadFragment | Loss::BadLength | Loss::NeighbourDiscovery => Self::BadFragment,
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
    type Version = V4;
    type Drop = Drop;

    /// 30 s, between RFC 791's 15 and RFC 1122's 60.
    const BOUNDS: Bounds = bounds(30);
    const ONWARD: u8 = Next::Local.edge();
    const HANDOVER: Option<u32> = Some(HANDOVER_KEY);
    const ICMP_ERROR: Option<u8> = Some(Next::IcmpError.edge());
    const ATOMIC: bool = false;

    /// The VRF.
    fn place(meta: &Meta) -> (u16, u16) {
        (meta.table, 0)
    }
}

/// The node's declaration.
pub const NODE: NodeSpec = NodeSpec {
    name: "ip4-reassembly",
    help: "Puts fragments of IPv4 packets to us together.",
    kind: NodeKind::Output,
    edges: Next::NAMES,
    drops: Drop::SPECS,
    counters: Counter::SPECS,
    attach: &[Attach { parent: "handover", key: HANDOVER_KEY }],
    make: Assemble::<Local>::boxed,
    ..NodeSpec::EMPTY
};
