//! A port split as workers see it.

use super::ports::PortSet;
use std::sync::Arc;
use tables::recent::Recent;
use wire::IpProtocol;

/// Flows that a split remembers. Each has eight bytes.
const FLOWS: usize = 16_384;
/// Packets in fragments, likewise.
const DATAGRAMS: usize = 1024;
/// Seconds that a silent flow is remembered: others than TCP's (RFC 4787 section 4.3), and TCP's (RFC 5382 section 5).
const SILENT: [u32; 2] = [300, 7440];
/// Seconds between fragments of one packet, as where they are put together.
const FRAGMENTS: u32 = 30;

/// What becomes of packets to the ports of a split while nobody is connected to their interface, or it isn't there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum WithoutPeer {
    /// They go where packets to other ports go.
    #[default]
    AsOthers,
    /// They are dropped.
    Drop,
}

/// Which packets go which way, and what is remembered of them. It outlives the snapshots of the tables.
#[derive(Debug)]
pub struct PortSplit {
    /// Packets to these ports.
    pub(super) ports: PortSet,
    pub(super) without_peer: WithoutPeer,
    /// Flows from the interface of those ports whose answers go to other ports.
    pub(super) flows: Recent,
    /// Packets in fragments whose first fragment went to that interface.
    pub(super) datagrams: Recent,
}

impl PortSplit {
    /// A split by these ports that remembers nothing yet. `None` where the system refuses the memory, some 150 KiB.
    #[must_use]
    pub fn new(ports: PortSet, without_peer: WithoutPeer) -> Option<Self> {
        Some(Self {
            ports,
            without_peer,
            flows: Recent::with_capacity(FLOWS, SILENT[0], SILENT[1])?,
            datagrams: Recent::with_capacity(DATAGRAMS, FRAGMENTS, FRAGMENTS)?,
        })
    }
}

impl PortSplit {
    /// Whether packets to that port go to the interface of its ports.
    #[must_use]
    pub fn has(&self, protocol: IpProtocol, port: u16) -> bool {
        self.ports.has(protocol, port)
    }
}

/// The next hop that is a split: two others.
#[derive(Clone, Debug)]
pub struct SplitHop {
    /// The split.
    pub split: Arc<PortSplit>,
    /// Next hop of packets to its ports; 0 where there is none at present.
    pub matching: u32,
    /// Next hop of all others; 0 likewise.
    pub others: u32,
}

impl PartialEq for SplitHop {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.split, &other.split)
            && (self.matching, self.others) == (other.matching, other.others)
    }
}
