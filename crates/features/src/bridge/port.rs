//! An interface as a member of a bridge, kept from one packet to the next.

use super::learner::NOWHERE;
use super::table::{Bridge, Bridges};
use crate::interface::{Interface, Interfaces, Layer2};
use graph::IfIndex;
use graph::arc::{ArcPlace, Arcs};

/// The member that frames came in by.
#[derive(Clone, Copy)]
pub(super) struct Source<'t> {
    pub(super) interface: IfIndex,
    pub(super) number: u16,
    pub(super) group: u8,
    pub(super) bvi: bool,
    /// Sources are learned, or held against those that are configured. What the BVI sends has its own address, or that of a router behind
    /// it that we ourselves have put there.
    pub(super) learns: bool,
    /// For [`tables::mac::Seen`].
    pub(super) seen_at: u32,
    pub(super) bridge: &'t Bridge,
}

impl<'t> Source<'t> {
    #[inline]
    pub(super) fn new(bridges: &'t Bridges, interfaces: &Interfaces, interface: IfIndex) -> Self {
        let (number, group, bvi) = match interfaces.get(interface).layer2 {
            Layer2::Bridge { bridge, split_horizon_group, bvi } => (bridge, split_horizon_group, bvi),
            _ => (0, 0, false),
        };
        let bridge = bridges.get(number);
        let learns = bridge.exists && !bvi;
        let seen_at = if bridge.learn { interface.into() } else { NOWHERE };
        Self { interface, number, group, bvi, learns, seen_at, bridge }
    }
}

/// A member that frames may be sent to.
#[derive(Clone, Copy)]
pub(super) struct Target<'t> {
    pub(super) interface: IfIndex,
    /// The bridge that it is a member of, 0 for none.
    pub(super) number: u16,
    pub(super) group: u8,
    pub(super) bvi: bool,
    /// First edge of its `interface-output` arc; 0: it is down. Not for a BVI.
    pub(super) edge: u8,
    /// Longest frame that needs no second look. None for a BVI, as routing has its own, nor for what is no member.
    pub(super) limit: u32,
    pub(super) entry: &'t Interface,
}

impl<'t> Target<'t> {
    #[inline]
    pub(super) fn new(interfaces: &'t Interfaces, arcs: &Arcs, output: ArcPlace, interface: IfIndex) -> Self {
        let entry = interfaces.get(interface);
        let (number, group, bvi) = match entry.layer2 {
            Layer2::Bridge { bridge, split_horizon_group, bvi } => (bridge, split_horizon_group, bvi),
            _ => (0, 0, false),
        };
        let limit = if bvi || number == 0 { u32::MAX } else { entry.frame_limit() };
        Self { interface, number, group, bvi, edge: output.edge(arcs, interface, 0), limit, entry }
    }

    /// Whether the two are kept apart.
    #[inline(always)]
    pub(super) fn split_from(&self, source: &Source<'_>) -> bool {
        self.group != 0 && self.group == source.group
    }
}
