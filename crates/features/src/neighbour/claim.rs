//! What the forwarding tables say of a station that claims an address: so a worker sees without asking whether the
//! control thread has anything to learn.

use crate::ip::{Fibs, LinkLocals, NextHop, NextHopKind, NextHops, VrfTables};
use core::net::IpAddr;
use graph::publish::{Key, Tables};
use graph::{IfIndex, NodeContext};
use wire::MacAddr;

/// How a claim compares with what is in the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Claim {
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

/// Where a node finds the forwarding tables.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClaimKeys {
    fibs: Key<Fibs>,
    hops: Key<NextHops>,
    link_locals: Key<LinkLocals>,
}

impl ClaimKeys {
    pub(super) fn new(cx: &NodeContext<'_>) -> Self {
        Self { fibs: cx.table(), hops: cx.table(), link_locals: cx.table() }
    }

    /// The tables of `vrf` as seen from `interface`.
    pub(super) fn on<'t>(&self, tables: &'t Tables, vrf: u16, interface: IfIndex) -> Claims<'t> {
        Claims {
            interface,
            vrf: tables.get(self.fibs).get(vrf),
            hops: tables.get(self.hops),
            link_locals: tables.get(self.link_locals),
        }
    }
}

/// The forwarding tables as seen from one interface.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claims<'t> {
    interface: IfIndex,
    vrf: Option<&'t VrfTables>,
    hops: &'t NextHops,
    link_locals: &'t LinkLocals,
}

impl<'t> Claims<'t> {
    /// The next hop towards `address`.
    fn hop(&self, address: IpAddr) -> &'t NextHop {
        let id = match (self.vrf, address) {
            (None, _) => 0,
            (Some(vrf), IpAddr::V4(address)) => vrf.v4.lookup(address.to_bits()).0,
            (_, IpAddr::V6(address)) if address.is_unicast_link_local() => {
                self.link_locals.get(self.interface, address)
            }
            (Some(vrf), IpAddr::V6(address)) => vrf.v6.lookup(address.to_bits()).0,
        };
        self.hops.get(id)
    }

    /// What is known of `address`, which `mac` claims on the interface.
    pub(super) fn of(&self, address: IpAddr, mac: MacAddr) -> Claim {
        let hop = self.hop(address);
        if hop.tx_if != self.interface {
            return Claim::Elsewhere;
        }
        match hop.kind {
            NextHopKind::Glean => Claim::Unknown,
            // What lies behind a router on this interface isn't on the interface's network.
            NextHopKind::Rewrite | NextHopKind::Resolve if hop.address != octets(address) => Claim::Elsewhere,
            NextHopKind::Resolve => Claim::Unknown,
            NextHopKind::Rewrite if hop.header.starts_with(&mac.0) => Claim::Known,
            NextHopKind::Rewrite => Claim::Moved,
            _ => Claim::Elsewhere,
        }
    }

    /// Whether packets to `address` leave by the interface itself.
    pub(super) fn leads_back(&self, address: IpAddr) -> bool {
        let mut hop = self.hop(address);
        if hop.kind == NextHopKind::Group {
            hop = self.hops.get(self.hops.choose(hop, 0));
        }
        hop.tx_if == self.interface || self.hops.splits_by(hop, self.interface)
    }
}

/// As next hops hold addresses: IPv4 as IPv4-mapped IPv6.
pub(super) fn octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}
