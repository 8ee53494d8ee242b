//! What the forwarding tables say of a station that claims an address: so a worker sees without asking whether the
//! control thread has anything to learn.

use crate::ip::{NextHop, NextHopKind, NextHops, VrfTables};
use core::net::IpAddr;
use graph::IfIndex;
use wire::MacAddr;

/// How a claim compares with what is in the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Adjacency {
    /// The address belongs to the interface's network, and it is at this MAC address.
    Known,
    /// The address belongs to the interface's network, and it was at another MAC address.
    Moved,
    /// The address belongs to the interface's network; its MAC address isn't known.
    Unknown,
    /// The address doesn't belong to the interface's network: whoever claims it there is not believed, or a station
    /// could take over addresses that are routed elsewhere.
    Elsewhere,
}

/// The tables of one VRF.
#[derive(Clone, Copy, Debug)]
pub(super) struct Adjacencies<'t> {
    pub(super) vrf: Option<&'t VrfTables>,
    pub(super) hops: &'t NextHops,
}

impl<'t> Adjacencies<'t> {
    /// The next hop towards `address`.
    pub(super) fn hop(&self, address: IpAddr) -> &'t NextHop {
        let id = match (self.vrf, address) {
            (None, _) => 0,
            (Some(vrf), IpAddr::V4(address)) => vrf.v4.lookup(address.to_bits()).0,
            (Some(vrf), IpAddr::V6(address)) => vrf.v6.lookup(address.to_bits()).0,
        };
        self.hops.get(id)
    }

    /// What is known of `address`, which `mac` claims on `interface`.
    pub(super) fn of(&self, interface: IfIndex, address: IpAddr, mac: MacAddr) -> Adjacency {
        let hop = self.hop(address);
        if hop.tx_if != interface {
            return Adjacency::Elsewhere;
        }
        match hop.kind {
            NextHopKind::Glean => Adjacency::Unknown,
            // What lies behind a router on this interface isn't on the interface's network.
            NextHopKind::Rewrite | NextHopKind::Resolve if hop.address != octets(address) => {
                Adjacency::Elsewhere
            }
            NextHopKind::Resolve => Adjacency::Unknown,
            NextHopKind::Rewrite if hop.header.starts_with(&mac.0) => Adjacency::Known,
            NextHopKind::Rewrite => Adjacency::Moved,
            _ => Adjacency::Elsewhere,
        }
    }

    /// Whether packets to `address` leave by `interface`.
    pub(super) fn leads_to(&self, address: IpAddr, interface: IfIndex) -> bool {
        let mut hop = self.hop(address);
        if hop.kind == NextHopKind::Group {
            hop = self.hops.get(self.hops.choose(hop, 0));
        }
        hop.tx_if == interface
    }
}

/// As next hops hold addresses: IPv4 as IPv4-mapped IPv6.
pub(super) fn octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}
