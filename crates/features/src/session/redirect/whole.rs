//! Has an engine see packets whole that come in fragments: the nodes of both IP versions.
//!
//! All fragments of a packet come here at the worker that has their session, behind the first one. How they are put together is [`reassembly`](crate::reassembly)'s
//! business; what comes to nothing is dropped, and nobody is told: whom the packet is for may have been sent it otherwise.
//!
//! An IPv6 packet keeps its fragment header, which says then that nothing is missing (RFC 6946): by that it is known, when the engine has sent it back, as one that may be cut
//! again, with the number that it had.

use super::super::fragments;
use crate::reassembly::{Assembles, Bounds, Joins, Loss};
use core::marker::PhantomData;
use graph::packet::Meta;

graph::edges! {
    /// Where a packet goes from here.
    pub(super) enum Next { Drop => "drop", Output => "redirect-output" }
}

graph::drops! {
    /// Why fragments don't become a packet.
    pub(super) enum Drop {
        /// The fragment has come before.
        Duplicate => "duplicate", Info,
        /// Fragments overlap: somebody tries to hide something from the engine.
        Overlap => "overlap", Invalid,
        /// The fragment lies beyond the packet's end or that of the largest there can be, or has a length that no fragment can have.
        BadFragment => "bad-fragment", Invalid,
        /// The packet has more fragments than are put together.
        TooMany => "too-many-fragments", Loss,
        /// Others didn't come in time: within two seconds.
        TimedOut => "timed-out", Loss,
        /// Others had to make room for newer ones, or were of no use without those that were refused.
        Evicted => "evicted", Loss,
        /// All packet slots of the worker are in use.
        NoSlot => "no-slot", Loss,
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
            Loss::NoSlot | Loss::HandoverFull => Self::NoSlot,
        }
    }
}

/// Packets for an engine.
pub(super) struct ForEngine<F>(PhantomData<F>);

impl<F: Joins> Assembles for ForEngine<F> {
    type Version = F;
    type Drop = Drop;

    /// Which session a later fragment belongs to isn't known for longer either.
    const BOUNDS: Bounds = Bounds { datagrams: 256, bytes: 4 << 20, timeout: fragments::TIMEOUT };
    const ONWARD: u8 = Next::Output.edge();
    const HANDOVER: Option<u32> = None;
    const ICMP_ERROR: Option<u8> = None;
    const ATOMIC: bool = true;

    /// The engine's interface: it is one tenant's.
    fn place(meta: &Meta) -> (u16, u16) {
        (meta.tx_if, 0)
    }
}
