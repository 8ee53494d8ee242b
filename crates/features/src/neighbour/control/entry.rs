//! One neighbour.

use core::net::IpAddr;
use graph::IfIndex;
use graph::packet::OwnedPacket;
use std::collections::VecDeque;
use tables::timer_wheel::TimerId;
use wire::MacAddr;

/// Which neighbour: the same address on two interfaces is two neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NeighbourKey {
    /// Its interface.
    pub interface: IfIndex,
    /// Its address.
    pub address: IpAddr,
}

/// What is known of a neighbour (RFC 4861 section 7.3.2, for ARP too).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// It didn't answer; it isn't asked again for a moment.
    Failed,
    /// It is being asked; packets wait.
    Incomplete,
    /// Its link-layer address was heard of; whether it is alive isn't known.
    Stale,
    /// It is being asked whether it is still there; packets go to it meanwhile.
    Probe,
    /// It has answered a short while ago.
    Reachable,
    /// It is configured; nobody is asked or believed.
    Static,
}

impl State {
    /// Lower-case name, as `show neighbor` prints it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Incomplete => "incomplete",
            Self::Stale => "stale",
            Self::Probe => "probe",
            Self::Reachable => "reachable",
            Self::Static => "static",
        }
    }

    /// Whether packets go to it, so that it is programmed.
    #[must_use]
    pub const fn is_usable(self) -> bool {
        !matches!(self, Self::Failed | Self::Incomplete)
    }
}

/// A packet that waits, and the worker that it came from.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) worker: usize,
    /// The interface at whose expense it waits.
    pub(super) origin: IfIndex,
    /// The neighbour isn't its destination: it goes to him nevertheless.
    pub(super) direct: bool,
    pub(super) packet: OwnedPacket,
}

impl Waiting {
    pub(super) fn len(&self) -> usize {
        self.packet.frame().len().max(self.packet.bytes().len())
    }
}

/// A neighbour's record. State, `origin`, `since` and `timer` are changed by the table alone, which lists entries by them.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) key: NeighbourKey,
    pub(super) state: State,
    /// The interface at whose expense it is here while it hasn't answered.
    pub(super) origin: IfIndex,
    /// When it came into its state.
    pub(super) since: u64,
    pub(super) timer: Option<TimerId>,
    /// Zero while it isn't known.
    pub(super) mac: MacAddr,
    /// What the forwarding tables were told.
    pub(super) programmed: Option<MacAddr>,
    /// When they were told last, and packets that were seen since and shouldn't have been.
    pub(super) told: u64,
    pub(super) late: u8,
    /// Solicitations sent in this state.
    pub(super) sent: u8,
    /// Last said that it is a router (IPv6).
    pub(super) router: bool,
    pub(super) waiting: VecDeque<Waiting>,
}

/// A neighbour as it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeighbourView {
    /// Which.
    pub key: NeighbourKey,
    /// What is known of it.
    pub state: State,
    /// Its link-layer address, where it is known.
    pub mac: Option<MacAddr>,
    /// It says that it is a router (IPv6).
    pub router: bool,
    /// Monotonic nanoseconds when it came into its state.
    pub since: u64,
    /// Packets that wait for it.
    pub waiting: usize,
}

impl Entry {
    pub(super) fn view(&self) -> NeighbourView {
        NeighbourView {
            key: self.key,
            state: self.state,
            mac: (self.mac != MacAddr::ZERO).then_some(self.mac),
            router: self.router,
            since: self.since,
            waiting: self.waiting.len(),
        }
    }
}
